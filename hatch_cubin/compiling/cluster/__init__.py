"""Compile on the workers of a cluster, which receive several compiles at a time."""
