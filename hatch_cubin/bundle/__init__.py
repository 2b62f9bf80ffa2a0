"""Write the bundle, the folder _cubins in a wheel: compiled kernels, their indexes, the loader."""
