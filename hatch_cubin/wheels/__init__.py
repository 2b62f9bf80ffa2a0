"""Read, check, compare and split finished wheels, and folders or installed packages with kernels."""
