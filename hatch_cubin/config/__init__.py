"""The project's configuration table: where it is, what may be in it, and how it is read."""
