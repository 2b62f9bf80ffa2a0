"""The project's configuration table: find it, check its keys and values, and read it."""
