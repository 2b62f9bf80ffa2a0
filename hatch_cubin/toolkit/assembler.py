"""Find ptxas, which assembles PTX sources, and translate a module's options into flags of ptxas.

ptxas must have the same exact version as NVRTC, so the version of NVRTC alone determines the machine code of
a PTX source. A build that compiles nothing does not need ptxas.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.arch_names import Arch
from ..errors import ToolchainError, problem
from .libraries import system_home

# NVRTC's version in CUDA 13.3.0 and 13.3.1. In 13.3.1 alone, the wheel with ptxas has another version.
WITHOUT_PTXAS = "13.3.33"
_NAME = "ptxas.exe" if sys.platform == "win32" else "ptxas"
_BUILD = re.compile(rb"\bV(\d+\.\d+\.\d+)")
_LIMIT_S = 60.0  # the time-out in seconds for a call of ptxas that only prints the version

_FLAGS: Mapping[str, Callable[[Any], list[str]]] = {
    "max_register_count": lambda count: [f"-maxrregcount={count}"],
    "debug": lambda wanted: ["-g"] * wanted,
    "lineinfo": lambda wanted: ["-lineinfo"] * wanted,
    "fma": lambda wanted: [f"-fmad={'true' if wanted else 'false'}"],
    "split_compile": lambda threads: [f"-split-compile={threads}"],
    "ofast_compile": lambda level: [f"--Ofast-compile={level}"],
    "disable_warnings": lambda wanted: ["-w"] * wanted,
    "ptxas_options": lambda options: [options] if isinstance(options, str) else [*options],
}
TRANSLATED = frozenset(_FLAGS)


def flags(options: Mapping[str, Any], arch: Arch) -> list[str]:
    """Return the command-line flags with which ptxas assembles a PTX source for *arch*."""
    used = {name: value for name, value in options.items() if name in TRANSLATED}
    # debug information includes line information, and ptxas prints a warning if both flags are set
    if used.get("debug"):
        used.pop("lineinfo", None)
    own = (flag for name, translate in _FLAGS.items() if name in used for flag in translate(used[name]))
    return [f"-arch={arch}", *own]


def find(wanted: str | None, major: int, build: str, hint: str) -> str:
    """Return the path of the ptxas with the exact version *build*; ToolchainError if it is not installed.

    *wanted* is the value of the setting `toolkit`, *major* is the major version of CUDA, and *hint* says how
    to install ptxas.
    """
    found: dict[str, str] = {}
    for path in map(str, _candidates(wanted, major)):
        found[path] = _build_of(path)
        if found[path] == build:
            return path
    versions = ", ".join(f"{path} is {version}" for path, version in found.items())
    what = (
        f"PTX sources need ptxas {build}, the version of the installed NVRTC, "
        f"but no ptxas has this version: {versions}"
        if versions
        else f"PTX sources need ptxas {build}, the version of the installed NVRTC, but no ptxas was found"
    )
    raise ToolchainError(problem("ptxas-not-found", what, hint=hint))


def wheel_name(major: int) -> str:
    """Return the name of the wheel that contains ptxas."""
    return "nvidia-cuda-nvcc" if major >= 13 else "nvidia-cuda-nvcc-cu12"


def wheel(major: int, build: str) -> str:
    """Return the requirement for the wheel with the ptxas whose exact version is *build*."""
    return f"{wheel_name(major)}=={build}"


def _candidates(wanted: str | None, major: int) -> Iterator[Path]:
    """Yield the paths where the toolkit's ptxas may be, beginning with the preferred path."""
    places = [system_home() / "bin"]
    if wanted != "system":
        tree = "cu13" if major >= 13 else "cuda_nvcc"
        places = [Path(entry, "nvidia", tree, "bin") for entry in sys.path]
    for place in dict.fromkeys(places):
        if (path := place / _NAME).is_file():
            yield path


def _build_of(path: str) -> str:
    """Return the exact version of the ptxas at *path*, or the reason why the version cannot be determined."""
    try:
        done = subprocess.run(  # noqa: S603 - the toolkit's own program
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except OSError as exc:
        return f"not runnable ({exc.strerror})"
    except subprocess.TimeoutExpired:
        return f"not runnable (it took longer than {_LIMIT_S:g} s)"
    match = _BUILD.search(done.stdout)
    return match[1].decode() if match else f"not runnable (exit code {done.returncode})"
