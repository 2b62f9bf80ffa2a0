"""Check that a wheel is whole, and is what was built."""
