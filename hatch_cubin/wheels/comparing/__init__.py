"""Compare two wheels."""
