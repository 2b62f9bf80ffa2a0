"""The cache: its entries, the records that prove them, who has signed those, and the care of its folder."""
