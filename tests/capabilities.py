"""What this machine can do: one table that decides what is skipped and what may not be."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path


def _has_nvrtc() -> bool:
    from hatch_cubin.errors import ToolchainError
    from hatch_cubin.toolkit.toolkit import Toolkit

    try:
        Toolkit(None)
    except ToolchainError:
        return False
    return True


def _has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return not driver.cuInit(0) and not driver.cuDeviceGetCount(ctypes.byref(count)) and count.value > 0


def _has_nvshmem() -> bool:
    return importlib.util.find_spec("nvidia") is not None and bool(importlib.util.find_spec("nvidia.nvshmem"))


def _has_cuobjdump() -> bool:
    return importlib.util.find_spec("nvidia.cu13") is not None and cuobjdump() is not None


def cuobjdump() -> str | None:
    """Return the path of NVIDIA's own reader of cubins."""
    spec = importlib.util.find_spec("nvidia.cu13")
    for entry in (spec and spec.submodule_search_locations) or []:
        if found := shutil.which("cuobjdump", path=f"{entry}/bin"):
            return found
    return shutil.which("cuobjdump")


def _has_tileiras() -> bool:
    spec = importlib.util.find_spec("nvidia.cu13")
    folders = (spec and spec.submodule_search_locations) or []
    return any(shutil.which("tileiras", path=f"{entry}/bin") for entry in folders)


def _has_cutile() -> bool:
    return _has_tileiras() and importlib.util.find_spec("cuda.tile") is not None


def _has_cuda_home() -> bool:
    """Say whether the machine has the headers of CUDA 13.0 where installers put them."""
    header = Path("/usr/local/cuda/include/cuda_runtime_api.h")
    return (
        header.is_file() and re.search(r"CUDART_VERSION\s+13000\b", header.read_text("latin-1")) is not None
    )


def namespace() -> tuple[str, ...]:
    """Return what runs a command with mounts of its own; nothing where that is not allowed."""
    if shutil.which("unshare") is None:
        return ()
    prefix = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
    probe = subprocess.run(
        [*prefix, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return () if probe.returncode else prefix


def network() -> tuple[str, ...]:
    """Return what runs a command in a network of its own making; nothing where that is not allowed."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return ()
    prefix = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--net", "--map-root-user")
    links = "ip link add hub type bridge; ip link add near type veth peer name far; unshare --net true"
    probe = subprocess.run([*prefix, "sh", "-ec", links], capture_output=True, check=False)
    return () if probe.returncode else prefix


CAPABILITIES: Mapping[str, Callable[[], bool]] = {
    "nvrtc": _has_nvrtc,
    "gpu": _has_gpu,
    "nvshmem": _has_nvshmem,
    "tile": _has_tileiras,
    "cutile": _has_cutile,
    "triton": lambda: importlib.util.find_spec("triton") is not None,
    "cupy": lambda: importlib.util.find_spec("cupy") is not None,
    "cuobjdump": _has_cuobjdump,
    "cuda_home": _has_cuda_home,
    "gcc": lambda: shutil.which("gcc") is not None,
    "python_headers": lambda: Path(sysconfig.get_path("include"), "Python.h").is_file(),
    "mounts": lambda: namespace() != (),
    "networks": lambda: network() != (),
    "linux": lambda: sys.platform == "linux",
    "nginx": lambda: shutil.which("nginx") is not None,
    "azurite": lambda: shutil.which("azurite-blob") is not None,
    "xz": lambda: sys.platform != "win32" and shutil.which("xz") is not None,
}
