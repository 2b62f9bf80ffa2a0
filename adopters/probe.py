"""Find each kernel of an installed library for several GPUs, without a GPU, a driver or a compiler.

    python probe.py PACKAGE CAPABILITY... < CODE

CODE makes a list `kernels`. A kernel is an object of CuPy's, or a name that `_cubins.find` takes. Each kernel
must be in the machine code that the package's loader chooses for each GPU. CuPy's CUDA runtime and
libraries are replaced.
"""

from __future__ import annotations

import ctypes.util
import importlib
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock


class StandIn:
    """The parts of CuPy that need a device or CUDA libraries: there is one device for each capability."""

    device = 0

    def __init__(self, capabilities: list[str]) -> None:
        if not importlib.util.find_spec("cupy"):
            return
        cupy: Any = importlib.import_module("cupy")
        function, runtime = cupy.cuda.function, cupy.cuda.runtime

        libraries = importlib.import_module("cupy_backends.cuda.libs")
        for name in ("cublas", "cusolver", "cusparse"):  # their wheels require NVRTC
            setattr(libraries, name, MagicMock())
        base: Any = function.Module

        class Module(base):  # type: ignore[misc]
            def load(self, data: bytes) -> None:
                self.data = data

            def get_function(self, name: str) -> object:
                if b"\0" + name.encode() + b"\0" not in self.data:
                    raise LookupError(name)
                return object()

        class Device:
            def __init__(self, number: int) -> None:
                self.compute_capability = capabilities[number].replace(".", "")

        function.Module, cupy.cuda.Device = Module, Device
        runtime.getDevice = lambda: self.device
        runtime.getDeviceCount = lambda: len(capabilities)
        runtime.driverGetVersion = lambda: 13000


def main() -> None:
    """Print the number of kernels and the version of Python, as JSON."""
    package, *capabilities = sys.argv[1:]
    if ctypes.util.find_library("nvrtc") or [*Path(sys.prefix).rglob("libnvrtc*")]:
        sys.exit("this environment has a compiler")
    os.environ["HATCH_CUBIN_NO_COMPILE"] = "1"  # a text that the package does not contain is an error
    stand_in = StandIn(capabilities)
    names: dict[str, Any] = {}
    exec(sys.stdin.read(), names)  # noqa: S102
    cubins = importlib.import_module(f"{package}._cubins")
    for number, capability in enumerate(capabilities):
        for kernel in names["kernels"]:
            if isinstance(kernel, str):
                cc = tuple(map(int, capability.split(".")))
                symbol = cubins.find(kernel, cc=cc).kernels[kernel]
                if symbol.encode() not in cubins.read(kernel, cc=cc):
                    raise LookupError(symbol)
            else:
                stand_in.device = number
                kernel.kernel  # noqa: B018 (a property, which loads the kernel)
    print(json.dumps({"kernels": len(names["kernels"]), "python": platform.python_version()}))


if __name__ == "__main__":
    main()
