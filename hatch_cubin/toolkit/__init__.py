"""All code that depends on CUDA: find compilers and their exact versions, run them, read NVIDIA's wheels."""
