"""Results of units: from the cache or from compiler processes, each failure with what to do about it."""
