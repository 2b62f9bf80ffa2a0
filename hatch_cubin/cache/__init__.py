"""The cache: its entries, what proves them, who signed that, the care of its folder; program caches in files."""
