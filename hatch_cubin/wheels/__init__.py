"""Inspect finished bundles in a wheel, a folder or an installed package."""
