"""The cache: its entries, what proves and signs them, the care of its folder; program caches in files."""
