"""The SQLite program cache, for users of cuda.core. Builds do not use it."""
