"""A program cache for cuda.core in an SQLite file. Builds do not use this program cache."""
