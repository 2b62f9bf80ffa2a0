"""The project's configuration table: where it stands, what may stand in it, and how it is read."""
