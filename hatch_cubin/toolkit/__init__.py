"""All code that depends on CUDA: compilers, their exact versions, running them, and NVIDIA's wheels."""
