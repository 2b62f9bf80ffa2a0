"""The cache: its entries, what proves and signs them, and the care of its folder."""
