"""All that knows CUDA: the compilers, their identity, the wheels that bring them."""
