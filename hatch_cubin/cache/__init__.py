"""The cache: its entries, the records that prove them, the care of its folder; program caches in a file."""
