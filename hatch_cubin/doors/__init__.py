"""What calls a build: Hatch, setuptools, or the command line."""
