"""The front ends: Hatch, setuptools, a wrapper around any other backend, the command line."""
