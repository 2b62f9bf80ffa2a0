"""Decide which units to compile, and name their results. Pure: no files, no processes."""
