"""Compile CUDA kernels when a wheel is built, load them with no compiler."""

__version__ = "0.1.0"
