"""Ask the CUDA driver for the GPUs of this machine, for `archs = ["native"]`."""

from __future__ import annotations

import ctypes
import sys

from ..errors import ToolchainError, problem


def native_archs() -> tuple[int, ...]:
    """Return the compute capabilities of this machine's GPUs; ToolchainError if no GPU is found."""
    hint = "list archs such as 'sm_90' in place of 'native', or build on a machine with a GPU"
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            raise OSError("the driver finds no device")
        return tuple(dict.fromkeys(_capability(driver, ordinal) for ordinal in range(count.value)))
    except OSError as exc:
        what = f"archs = ['native'] needs a GPU on this machine: {exc}"
        raise ToolchainError(problem("no-gpu-for-native", what, hint=hint)) from exc


def _capability(driver: ctypes.CDLL, ordinal: int) -> int:
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    calls = (
        driver.cuDeviceGet(ctypes.byref(device), ordinal)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    )
    if calls:
        raise OSError(f"the driver cannot describe device {ordinal}")
    return major.value * 10 + minor.value
