"""Run producers (Python functions that return CUDA sources), and save the sources for the next build."""
