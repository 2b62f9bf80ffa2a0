"""All code that depends on CUDA: it finds compilers and their exact versions, runs them, and reads wheels."""
