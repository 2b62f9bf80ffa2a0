"""Vector arithmetic on the GPU, with kernels that were compiled when the wheel was built."""

from ._vector import saxpy

__all__ = ["saxpy"]
