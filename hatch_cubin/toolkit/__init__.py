"""All code that knows CUDA: the compilers, their exact versions, how to run them, and their wheels."""
