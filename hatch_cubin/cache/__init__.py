"""The cache: its entries, what proves them, who has signed that, the care of its folder; program caches in a file."""
