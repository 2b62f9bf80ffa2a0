"""Find and read the project's files, and analyse the text of sources and headers."""
