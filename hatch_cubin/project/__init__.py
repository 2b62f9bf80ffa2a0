"""Find and read the project's files, and analyse their text."""
