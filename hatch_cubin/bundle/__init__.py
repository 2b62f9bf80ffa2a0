"""Write the bundle: the folder _cubins in a wheel, with compiled kernels, their indexes and the loader."""
