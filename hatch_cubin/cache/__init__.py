"""The cache: its entries, the records that prove them, and the care of its folder."""
