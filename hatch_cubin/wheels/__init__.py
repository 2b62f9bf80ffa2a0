"""Finished bundles, in a wheel, a folder or a package: what is in them, and whether it is what was built."""
