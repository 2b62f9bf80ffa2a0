"""Entries of the cache, the records that prove them, and the folder as a whole."""
