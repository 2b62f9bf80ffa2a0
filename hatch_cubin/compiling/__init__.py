"""Compile all modules for all archs, unless the code is in the cache, and explain errors."""
