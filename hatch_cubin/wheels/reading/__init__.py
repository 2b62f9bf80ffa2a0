"""Read the bundles in wheels, and show their contents."""
