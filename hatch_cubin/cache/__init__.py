"""The cache folder: its entries, their records and signatures, and its upkeep."""
