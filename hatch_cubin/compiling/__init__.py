"""Get the compiled result of each unit, from the cache or from a compiler process, and explain failures."""
