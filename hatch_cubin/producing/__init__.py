"""Run the Python functions (producers) that return CUDA sources, and save their texts for the next build."""
