"""Which wheels a build needs: the compiler, its bindings and its headers."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Mapping

from .._environment import is_on
from ..table.config import Config
from .libraries import system_major

_NEWEST_LINE = "13"
# On CUDA 12 the folder crt/, which mma.h includes, comes in the compiler's wheel alone.
_METAPACKAGE_EXTRAS = {"12": "nvrtc,nvjitlink,cudart,cccl,nvcc", "13": "nvrtc,nvjitlink,cudart,cccl,crt"}
_NVRTC_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


def build_requirements(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Return what the build front end has to install for a wheel."""
    if is_on(environ, "HATCH_CUBIN_SKIP"):
        return []
    return [*_toolkit_requirements(config.toolkit), *config.header_packages]


def install_command(config: Config, environ: Mapping[str, str]) -> str:
    """Return the command that installs the same by hand, where no build front end does."""
    return f"pip install {shlex.join(build_requirements(config, environ))}"


def _toolkit_requirements(toolkit: str | None) -> list[str]:
    core = "cuda-core>=1.2,<2"
    if toolkit == "system":
        there = system_major()
        return [core, "cuda-bindings" if there is None else f"cuda-bindings=={there}.*"]
    if toolkit is None:
        if (
            is_installed("cuda-core")
            and is_installed("cuda-bindings")
            and any(map(is_installed, _NVRTC_WHEELS))
        ):
            return []
        toolkit = _NEWEST_LINE
    major = toolkit.split(".")[0]
    minor = ".".join(toolkit.split(".")[:2])
    pin = toolkit if toolkit.count(".") >= 2 else f"{toolkit}.*"
    # The metapackage knows which patch level of each component makes a release; some of its
    # releases leave nvJitLink open.
    linker = "nvidia-nvjitlink-cu12" if major == "12" else "nvidia-nvjitlink"
    extras = _METAPACKAGE_EXTRAS[major]
    return [
        core,
        f"cuda-bindings=={major}.*",
        f"cuda-toolkit[{extras}]=={pin}",
        f"{linker}=={minor}.*",
    ]


def is_installed(requirement: str) -> bool:
    """Say whether some version of what a requirement names is installed here."""
    try:
        importlib.metadata.version(re.split(r"[\[\s<>=!~]", requirement, maxsplit=1)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
