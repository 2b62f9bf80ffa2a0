"""The output of `hatch-cubin --version --verbose`: the versions that a bug report needs."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions

from .. import __version__
from ..common.distribution_names import comparable_name

_PACKAGES = re.compile(
    "hatch.*|setuptools|pip|uv|build|packaging|obstore|cryptography|dask|distributed|cupy.*|torch|triton|pyptx"
    "|(?:nvidia-)?cuda-.*|nvidia-(?:nvjitlink|nvvm|cutlass|nvshmem).*"
)
_VARIABLES = re.compile(
    r"HATCH_CUBIN_.*|CUDA_(?:HOME|PATH)|PYTHON(?:PATH|HOME|SAFEPATH)|NVCC_.*|TORCH_CUDA_ARCH_LIST"
)
# Other variables are not shown, because their values may be secrets.
_SHOWN = frozenset({"CUDA_HOME", "CUDA_PATH"})


def versions(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield lines with the versions of Python, the system and the installed packages that builds use."""
    yield f"hatch-cubin {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}{_without_gil()})"
    yield f"system {platform.platform()}"
    found = {comparable_name(each.name): each.version for each in distributions()}
    yield from (f"{name} {found[name]}" for name in sorted(found) if _PACKAGES.fullmatch(name))
    for name in sorted(environ):
        if _VARIABLES.fullmatch(name):
            yield f"{name}={environ[name]}" if name in _SHOWN else f"{name} is set"


def _without_gil() -> str:
    return "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without a GIL"
