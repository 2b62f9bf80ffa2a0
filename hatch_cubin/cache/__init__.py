"""The cache: its entries, their verification and signatures, and the upkeep of its folder."""
