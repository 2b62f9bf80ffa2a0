"""Launch the package's kernels through cuda.core."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, launch

from . import _cubins as cubins

_BLOCK = 256

Vector = np.ndarray[Any, np.dtype[np.float32]]


def saxpy(a: float, x: Vector, y: Vector) -> Vector:
    """Return `a * x + y` for two float32 vectors of one length, computed on the current GPU."""
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"x and y must be vectors of one length, not {x.shape} and {y.shape}")
    kernel = cubins.kernel("saxpy")  # says what is missing where there is no driver or GPU
    device = Device()
    device.set_current()
    stream = device.create_stream()
    # Pinned memory is visible to both sides, which keeps an example free of copies.
    pinned = LegacyPinnedMemoryResource()
    buffers = [pinned.allocate(4 * x.size) for _ in range(3)]
    views = [np.from_dlpack(buffer).view(np.float32) for buffer in buffers]
    views[0][:], views[1][:] = x, y
    config = LaunchConfig(grid=-(-x.size // _BLOCK), block=_BLOCK)
    launch(stream, config, kernel, np.float32(a), *buffers, np.uint64(x.size))
    stream.sync()
    return views[2].copy()
