"""The project's files: how they are found and read, and what their text says."""
