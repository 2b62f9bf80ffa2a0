"""The doors through which builds call: of Hatch, of setuptools, around any backend, of the command line."""
