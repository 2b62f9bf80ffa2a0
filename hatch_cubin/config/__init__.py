"""Find, check and read the project's configuration in pyproject.toml or hatch.toml."""
