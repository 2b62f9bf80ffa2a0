"""Look into finished bundles, in a wheel, a folder or a package, and check that they are what was built."""
