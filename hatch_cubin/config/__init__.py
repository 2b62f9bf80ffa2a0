"""Find the project's configuration table, check its keys and values, and read it."""
