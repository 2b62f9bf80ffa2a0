"""Find NVIDIA's libraries, and say exactly which are installed, without loading any of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .._digest import digest

_PACKAGES = ("cuda_bindings", "cuda_core", "cuda_pathfinder")  # what makes keys
_IMPORTED = (".py", ".so", ".pyd", ".dll")


def candidates(name: str, major: int, wanted: str | None) -> Iterator[Path]:
    """Yield the paths where a library of CUDA *major* may be, the best first.

    *wanted* is the table's `toolkit`: with "system" only CUDA_HOME is looked into, else only wheels are.
    """
    lower = name.lower()
    if sys.platform == "win32":
        pattern, inner = f"{lower}64_{major}*.dll", ["bin/x86_64", "bin"]
    else:
        pattern, inner = f"lib{name}.so.{major}", ["lib"]
    if wanted == "system":
        yield from _in_home(pattern)
        return
    trees = ("cu13",) if major >= 13 else (f"cuda_{lower}", lower)
    for entry in map(Path, sys.path):
        for tree in trees:
            for part in inner:
                yield from sorted((entry / "nvidia" / tree / part).glob(pattern))


def with_builtins(library: Path) -> list[str]:
    """Return *library*, and before it NVRTC's builtins, which NVRTC 13.0's wheel does not find by itself."""
    return [*map(str, sorted(library.parent.glob("libnvrtc-builtins.so.*"))), str(library)]


def system_home() -> Path:
    """Return the folder of the toolkit that `toolkit = "system"` means."""
    return Path(os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda")


def system_major() -> int | None:
    """Return the major version of the toolkit that `toolkit = "system"` means; None where there is none."""
    pattern, number = (
        ("nvrtc64_*.dll", r"_(\d+)\d_") if sys.platform == "win32" else ("libnvrtc.so.*", r"so\.(\d+)")
    )
    found = (re.search(number, path.name) for path in _in_home(pattern))
    return max((int(match[1]) for match in found if match), default=None)


def absent_from_home(major: int) -> str:
    """Return the reason why the system's toolkit cannot be used with CUDA *major*."""
    reason = f"there is none of CUDA {major} in CUDA_HOME={system_home()}"
    other = system_major()
    return reason if other in {None, major} else f"{reason}, but one that needs cuda-bindings=={other}.*"


def _in_home(pattern: str) -> Iterator[Path]:
    for folder in ("lib64", "lib", "bin"):
        yield from (system_home() / folder).glob(pattern)


def identity(wanted: str | None) -> str | None:
    """Return a digest of what is installed: hatch-cubin, cuda.core, the toolkit; None if that is unclear.

    It is made of the names, sizes and times of files, as `make` and ccache also tell compilers apart.
    """
    try:
        packages = dict(map(_installed, _PACKAGES))
        major = int(packages["cuda_bindings"][1].partition(".")[0])
        libraries = [next(candidates("nvrtc", major, wanted)), *_linker(major, wanted)]
        files = [file for info, _version in packages.values() for file in _importable(info)]
        files += _own_files()
        files += [file for library in libraries for file in with_builtins(library)]
        return digest([sys.version, str(wanted), *map(stamp, files)])
    except (OSError, LookupError, ValueError, StopIteration):
        return None


def has_linker(wanted: str | None) -> bool:
    """Say whether `identity` covers an nvJitLink: only builds that link or assemble need one."""
    with contextlib.suppress(LookupError, ValueError):
        return bool(_linker(int(_installed("cuda_bindings")[1][1].partition(".")[0]), wanted))
    return False


def _linker(major: int, wanted: str | None) -> list[Path]:
    return [*itertools.islice(candidates("nvJitLink", major, wanted), 1)]


def _installed(name: str) -> tuple[str, tuple[str, str]]:
    """Return a package's name, the folder of its metadata and its version; LookupError if unclear."""
    for entry in sys.path:
        names = (file for file in _listed(entry) if file.endswith(".dist-info"))
        found = [file for file in names if file.startswith(f"{name}-")]
        if len(found) == 1:
            version = found[0][len(name) + 1 : -len(".dist-info")]
            return name, (os.path.join(entry, found[0]), version)
        # What a failed update left, or a copy that Python imports first: its version cannot be told.
        if found or os.path.exists(os.path.join(entry, *name.split("_"))):
            break
    raise LookupError(name)


def _own_files() -> list[str]:
    """Return the files of hatch-cubin: another version of it may find out other things."""
    package = os.path.dirname(os.path.dirname(__file__))
    rooms = sorted(os.walk(package))
    return [
        os.path.join(room, name) for room, _, names in rooms for name in sorted(names) if name.endswith(".py")
    ]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:  # an entry of sys.path may be an archive, or absent
        return []


def _importable(info: str) -> list[str]:
    """Return the files of a package that Python imports; LookupError where they are not installed here."""
    with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:
        names = [line.rsplit(",", 2)[0] for line in record]
    site = os.path.dirname(info)
    files = [os.path.join(site, name) for name in names if name.endswith(_IMPORTED)]
    if not files or any(name.endswith(".pth") for name in names):
        raise LookupError(info)
    return files


def stamp(file: str) -> str:
    status = os.stat(file)
    return f"{os.path.basename(file)} {status.st_size} {status.st_mtime_ns}"
