"""All that knows CUDA: the compilers, their exact versions, how they are run, the wheels that bring them."""
