"""Find tileiras, which compiles Tile IR to machine code, and find libnvvm and ptxas for tileiras.

tileiras loads libnvvm and runs ptxas; it finds them in folders beside its own folder. If libnvvm or ptxas is
missing, the message of tileiras does not say what is missing. Cache keys contain the exact versions of
tileiras, libnvvm and ptxas, because their patch levels can differ from each other, as in CUDA 13.3.
"""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..common.arch_names import Arch
from ..errors import ToolchainError, problem
from .libraries import system_home

_PROGRAM = ".exe" if sys.platform == "win32" else ""
# The files of the tools, relative to the toolkit's folder. The wheel and the installer of CUDA put libnvvm
# into different folders.
_FILES: Mapping[str, tuple[str, ...]] = {
    "tileiras": (f"bin/tileiras{_PROGRAM}",),
    "ptxas": (f"bin/ptxas{_PROGRAM}",),
    "libnvvm": ("nvvm/lib64/libnvvm.so*", "lib/libnvvm.so.*", "nvvm/bin/nvvm64*.dll", "bin/*/nvvm64*.dll"),
}
_WHEELS = {"tileiras": "nvidia-cuda-tileiras", "ptxas": "nvidia-cuda-nvcc", "libnvvm": "nvidia-nvvm"}
_RELEASE = b"release "
_BUILD = re.compile(rb"release \d+\.\d+, V(\d+\.\d+\.\d+)")


class TileAssembler(NamedTuple):
    """The path of tileiras, and the exact versions of tileiras, libnvvm and ptxas."""

    path: str
    build: str


def flags(options: Mapping[str, Any], arch: Arch) -> list[str]:
    """Return the command-line flags with which tileiras compiles Tile IR for *arch*."""
    # tileiras knows the archs without a suffix, and refuses to optimise code for a debugger
    debug = ["--device-debug", "--opt-level=0"] if options.get("debug") else []
    lines = ["--lineinfo"] if options.get("lineinfo") and not debug else []
    return [f"--gpu-name=sm_{arch.number}", *debug, *lines]


def find(wanted: str | None, release: str) -> TileAssembler:
    """Return the tileiras of the CUDA release *release*, such as `13.5`; ToolchainError if a part is missing.

    *wanted* is the value of the setting `toolkit`.
    """
    seen: dict[str, str] = {}
    for home in _homes(wanted):
        files = {tool: path for tool in _FILES if (path := _file(home, tool)) is not None}
        builds = {tool: _build_of(path) or "of an unknown version" for tool, path in files.items()}
        if builds.keys() == _FILES.keys() and all(each.startswith(f"{release}.") for each in builds.values()):
            return TileAssembler(str(files["tileiras"]), _joined(builds))
        seen = max(seen, {tool: f"{tool} is {build}" for tool, build in builds.items()}, key=len)
    installed = ", ".join(seen.get(tool, f"{tool} is missing") for tool in _FILES)
    what = f"tile kernels need tileiras, ptxas and libnvvm of CUDA {release}, but {installed}"
    raise ToolchainError(problem("tileiras-not-found", what, hint=_how_to_install(wanted, release)))


def _how_to_install(wanted: str | None, release: str) -> str:
    command = f"pip install {' '.join(wheels(release))}"
    if wanted == "system":
        return "install tileiras, nvcc and libnvvm into CUDA_HOME"
    if wanted is None:
        return command
    return f"build with isolation, which installs tileiras, nvcc and libnvvm, or run this command: {command}"


def wheels(release: str) -> list[str]:
    """Return the requirements for the wheels with tileiras, ptxas and libnvvm, quoted for a shell."""
    return [f"'{wheel}=={release}.*'" for wheel in _WHEELS.values()]


def _homes(wanted: str | None) -> Iterable[Path]:
    """Return the folders where the toolkit may be, beginning with the preferred folder."""
    places = [system_home()] if wanted == "system" else [Path(entry, "nvidia", "cu13") for entry in sys.path]
    return dict.fromkeys(places)


def _file(home: Path, tool: str) -> Path | None:
    return next((found for pattern in _FILES[tool] for found in sorted(home.glob(pattern))), None)


def _build_of(path: Path) -> str | None:
    """Return the exact version that a program or library contains; None if it contains no version."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_RELEASE)
        while at >= 0:
            if match := _BUILD.match(data, at):
                return match[1].decode()
            at = data.find(_RELEASE, at + 1)
    return None


def _joined(builds: Mapping[str, str]) -> str:
    """Return the exact versions as one text, such as `13.3.36 (ptxas 13.3.73, libnvvm 13.3.73)`."""
    own = builds["tileiras"]
    others = [f"{tool} {build}" for tool, build in builds.items() if build != own]
    return f"{own} ({', '.join(others)})" if others else own
