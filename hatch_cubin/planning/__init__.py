"""Decide which modules to compile for which archs, and name the results, without reading files."""
