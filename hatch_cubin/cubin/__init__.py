"""Read the files that CUDA compilers write: cubins, PTX and objects, and the names of their kernels."""
