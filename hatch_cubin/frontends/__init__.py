"""Connect builds of kernels to Hatch, to setuptools, to any other build backend, and to the command line."""
