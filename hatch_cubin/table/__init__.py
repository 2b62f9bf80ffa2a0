"""The project's table: where it stands, what may stand in it, and what it asks for."""
