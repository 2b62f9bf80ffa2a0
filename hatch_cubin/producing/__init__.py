"""Run the Python functions that return sources, and keep their texts for the next build."""
