"""Reading what compilers wrote: cubins, and the names of kernels."""
