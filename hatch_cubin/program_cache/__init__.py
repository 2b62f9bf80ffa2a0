"""A program cache for cuda.core in an SQLite file. A build of a wheel does not use this program cache."""
