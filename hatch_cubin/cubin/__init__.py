"""Read the files that compilers wrote: cubins, PTX and objects, and the names of kernels in them."""
