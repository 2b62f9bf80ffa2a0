"""Compare two wheels: their kernels, the resources of each kernel, and sizes."""
