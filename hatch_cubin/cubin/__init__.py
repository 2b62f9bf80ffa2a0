"""Read what compilers wrote: what a cubin holds, and the names of kernels in the source."""
