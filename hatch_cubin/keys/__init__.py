"""Collect all inputs of each unit's compile, and make the cache keys under which the results are stored."""
