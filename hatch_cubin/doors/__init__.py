"""The doors through which a build is called: from Hatch, from setuptools, or from the command line."""
