"""Find NVIDIA's installed libraries and identify their exact versions, without loading the libraries."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..common.digest import digest
from ..project import disk

# the packages whose code takes part in making cache keys
_PACKAGES = ("cuda_bindings", "cuda_core", "cuda_pathfinder")
_IMPORTED = (".py", ".so", ".pyd", ".dll")
_WHOLE = 1 << 18  # files that are larger than this many bytes are compared only by samples
_SAMPLES, _PIECE = 64, 4096  # the number of samples of a file, and the size of each sample in bytes
_MARK = b"Cuda compilation tools, release "


def candidates(name: str, major: int, wanted: str | None) -> Iterator[Path]:
    """Yield the paths where a library of CUDA version *major* may be, beginning with the preferred path.

    *wanted* is the value of the setting `toolkit` in the project's configuration. If the setting `toolkit` is
    "system", only CUDA_HOME is searched. If the setting `toolkit` has another value than "system", only
    wheels are searched.
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
    """Return the paths of libnvrtc-builtins and of NVRTC's *library*, in the order in which to load them.

    NVRTC 13.0 does not load libnvrtc-builtins itself.
    """
    return [*map(str, sorted(library.parent.glob("libnvrtc-builtins.so.*"))), str(library)]


_HOMES = ("CUDA_HOME", "CUDA_PATH")
_USUAL_HOME = "/usr/local/cuda"


def system_home() -> Path:
    """Return the folder of the CUDA toolkit that `toolkit = "system"` selects."""
    return Path(next(filter(None, map(os.environ.get, _HOMES)), _USUAL_HOME))


def system_major() -> int | None:
    """Return the major version of the CUDA toolkit that `toolkit = "system"` selects.

    The result is None if no CUDA toolkit is found.
    """
    pattern, number = (
        ("nvrtc64_*.dll", r"_(\d+)\d_") if sys.platform == "win32" else ("libnvrtc.so.*", r"so\.(\d+)")
    )
    found = (re.search(number, path.name) for path in _in_home(pattern))
    return max((int(match[1]) for match in found if match), default=None)


def absent_from_home(major: int) -> str:
    """Return the reason why a build for CUDA version *major* cannot use the system's CUDA toolkit."""
    named = next(filter(os.environ.get, _HOMES), None)
    home = f"{named}={system_home()}" if named else f"{_USUAL_HOME}, and CUDA_HOME is not set"
    other = system_major()
    if other in {None, major}:
        return f"there is no CUDA {major} in {home}"
    return f"there is CUDA {other}, not CUDA {major}, in {home}; CUDA {other} needs cuda-bindings=={other}.*"


def _in_home(pattern: str) -> Iterator[Path]:
    for folder in ("lib64", "lib", "bin"):
        yield from (system_home() / folder).glob(pattern)


class Evidence(NamedTuple):
    """Facts that show a later build whether the installed packages have changed."""

    # a digest of all files' sizes and times; empty if a file is so new that its times prove nothing
    state: str
    contents: str  # A digest of the contents of all installed files.
    # The positions of the texts with the compiler's version in each large file.
    marks: Sequence[Sequence[int]]


class Installation:
    """The installed files of hatch-cubin, cuda.core and the toolkit, and their state when the build began.

    Two installations with the same installed files have the same *name*. Two installations are the same if
    the states (size, times and so on) of all files are equal. If the state of a file differs, two
    installations are the same only if the contents of all files are equal. The states of unchanged files can
    differ: uv makes hard links to the files of its cache in each environment, and each new link changes a
    time in the state. Of a large library, only some bytes are compared: short pieces at regular distances,
    and the pieces that contain the compiler's version.
    """

    def __init__(self, asked: Sequence[str], files: Sequence[str]) -> None:
        began = time.time_ns()
        self._files = [(file, os.stat(file)) for file in files]
        self._states = [disk.state_from_status(status) for _file, status in self._files]
        self._settled = disk.are_settled(self._states, began)
        self._evidence: Evidence | None = None
        sizes = (f"{os.path.basename(file)} {status.st_size}" for file, status in self._files)
        self.name = digest([*asked, *sizes])

    @property
    def state(self) -> str:
        """A digest that changes if an installed file is written, even if the file's content is the same."""
        return digest([self.name, *self._states])

    def is_that_of(self, evidence: Evidence) -> bool:
        """Return whether the installed files are the same as in the build that recorded *evidence*."""
        if self._evidence is None:
            same_state = evidence.state == self.state
            if same_state or evidence.contents == self._contents(evidence.marks):
                self._evidence = evidence._replace(state=self.state) if self._settled else evidence
        return self._evidence is not None and self._evidence.contents == evidence.contents

    def evidence(self) -> Evidence | None:
        """Return facts by which later builds notice changed files; None if a file changed in this build."""
        if self._evidence is None:
            marks = [_marks(file) for file, status in self._files if status.st_size > _WHOLE]
            self._evidence = Evidence(self.state if self._settled else "", self._contents(marks), marks)
        found = self._evidence
        states = [disk.state_from_status(os.stat(file)) for file, _status in self._files]
        same = states == self._states or self._contents(found.marks) == found.contents
        return found if same else None

    def _contents(self, marks: Iterable[Sequence[int]]) -> str:
        left = iter(marks)
        return digest(
            _sample(file, size, next(left, ())) if size > _WHOLE else _whole(file, size)
            for file, size in ((file, status.st_size) for file, status in self._files)
        )


def _marks(file: str) -> list[int]:
    """Return all positions in a library's file at which a text states the compiler's version."""
    found: list[int] = []
    with open(file, "rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while (at := data.find(_MARK, found[-1] + 1 if found else 0)) >= 0:
            found.append(at)
    return found


def _whole(file: str, size: int) -> bytes:
    with open(file, "rb", buffering=0) as small:
        return small.read(size + 1)


def _sample(file: str, size: int, marks: Iterable[int]) -> bytes:
    """Return pieces of a large file: pieces at regular distances, and the pieces that begin at *marks*."""
    spread = (number * (size - _PIECE) // _SAMPLES for number in range(_SAMPLES + 1))
    with open(file, "rb", buffering=0) as library:
        return b"".join(library.read(_PIECE) for at in (*spread, *marks) if library.seek(at) == at)


def installation(wanted: str | None) -> Installation | None:
    """Return the installed files of hatch-cubin, cuda.core and the toolkit; None if they are unknown."""
    try:
        packages = dict(map(_installed, _PACKAGES))
        major = int(packages["cuda_bindings"][1].partition(".")[0])
        libraries = [next(candidates("nvrtc", major, wanted)), *_linker(major, wanted)]
        files = [file for info, _version in packages.values() for file in _importable(info)]
        files += _own_files()
        files += [file for library in libraries for file in with_builtins(library)]
        versions = [version for _info, version in packages.values()]
        return Installation([sys.version, str(wanted), *versions], files)
    except (OSError, LookupError, ValueError, StopIteration):
        return None


def has_linker(wanted: str | None) -> bool:
    """Return whether the digest `identity` covers nvJitLink, the linker of builds with linked modules."""
    with contextlib.suppress(LookupError, ValueError):
        return bool(_linker(int(_installed("cuda_bindings")[1][1].partition(".")[0]), wanted))
    return False


def _linker(major: int, wanted: str | None) -> list[Path]:
    return [*itertools.islice(candidates("nvJitLink", major, wanted), 1)]


def own_installation() -> Installation | None:
    """Return hatch-cubin's own installed files, without the toolkit's, for builds that need no compiler."""
    try:
        return Installation([sys.version], _own_files())
    except OSError:
        return None


def identity(wanted: str | None) -> str | None:
    """Return a digest that changes if an installed package changes; None if the versions are unknown."""
    found = installation(wanted)
    return None if found is None else found.state


def _installed(name: str) -> tuple[str, tuple[str, str]]:
    """Return the name, metadata folder and version of an installed package.

    Raise LookupError if the version that Python would import is not certain.
    """
    for entry in sys.path:
        names = (file for file in _listed(entry) if file.endswith(".dist-info"))
        found = [file for file in names if file.startswith(f"{name}-")]
        if len(found) == 1:
            version = found[0][len(name) + 1 : -len(".dist-info")]
            return name, (os.path.join(entry, found[0]), version)
        # The package's version is unknown in two cases: a failed update has left several versions, or Python
        # would import another copy of the package that does not have metadata.
        if found or os.path.exists(os.path.join(entry, *name.split("_"))):
            break
    raise LookupError(name)


def _own_files() -> list[str]:
    """Return the paths of hatch-cubin's Python files.

    An `Installation` includes hatch-cubin's own files, because another version of hatch-cubin may have
    recorded different facts about the same toolkit.
    """
    package = os.path.dirname(os.path.dirname(__file__))
    rooms = sorted(os.walk(package))
    return [
        os.path.join(room, name) for room, _, names in rooms for name in sorted(names) if name.endswith(".py")
    ]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:  # an entry of sys.path may be an archive, or may not exist
        return []


def _importable(info: str) -> list[str]:
    """Return the paths of a package's files from which Python can import modules.

    Raise LookupError for an editable install, whose files are not in site-packages.
    """
    with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:
        names = [line.rsplit(",", 2)[0] for line in record]
    site = os.path.dirname(info)
    files = [os.path.join(site, name) for name in names if name.endswith(_IMPORTED)]
    if not files or any(name.endswith(".pth") for name in names):
        raise LookupError(info)
    return files
