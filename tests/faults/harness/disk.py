"""Let the N-th call of a file operation below a folder fail: the tests of SQLite do so, for every N."""

from __future__ import annotations

import builtins
import errno
import io
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11

CODES = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EACCES,
    errno.EROFS,
    errno.EMFILE,
    errno.ENOENT,
)
ANY = "any"
_OPERATIONS = {
    "open": "open",
    "fsync": "fsync",
    "replace": "replace",
    "rename": "replace",
    "mkdir": "mkdir",
    "rmdir": "unlink",
    "unlink": "unlink",
    "remove": "unlink",
    "stat": "stat",
    "lstat": "stat",
    "fstat": "stat",
    "scandir": "scandir",
    "listdir": "scandir",
    "utime": "utime",
    "chmod": "chmod",
    "link": "link",
    "symlink": "link",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Which call fails, and how; with *lasting* every later one does too."""

    operation: str
    number: int
    code: int
    lasting: bool


def faults(calls: Mapping[str, int], *, every_code: bool) -> Iterator[Fault]:
    """Yield each call's failure, alone and with all that follow; with one code in turn, or with every."""
    turn = 0
    for operation, count in sorted(calls.items()):
        for number in range(1, count + 1):
            for lasting in (True,) if operation == ANY else (False, True):
                for code in CODES if every_code else CODES[turn % len(CODES) :][:1]:
                    yield Fault(operation, number, code, lasting)
                turn += 1


class Disk:
    """Counts the file operations of this process below a folder, and lets one of them fail."""

    def __init__(self, below: Path, fault: Fault | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.failed = 0
        self._below = f"{below}/"
        self._fault = fault
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        places: list[Any] = [os]
        if accessor := getattr(pathlib, "_normal_accessor", None):  # Python 3.10 has a table of its own
            places.append(accessor)
        for place in places:
            for name, operation in _OPERATIONS.items():
                if hasattr(place, name) and not (place is accessor and name == "open"):
                    self._replace(place, name, self._failing(getattr(os, name), operation))
        for place in (io, builtins, *([accessor] if accessor else [])):
            self._replace(place, "open", self._open)
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stack.close()

    def _replace(self, place: Any, name: str, value: object) -> None:
        self._stack.enter_context(patch.object(place, name, value))

    def step(self, operation: str, path: str) -> None:
        """Count one call; raise where it is the one to fail."""
        fault = self._fault
        for counted in (operation, ANY):
            self.calls[counted] += 1
            if fault is None or fault.operation != counted:
                continue
            if self.calls[counted] == fault.number or (fault.lasting and self.calls[counted] > fault.number):
                self.failed += 1
                raise OSError(fault.code, os.strerror(fault.code), path)

    def _failing(self, real: Callable[..., Any], operation: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            folder = options.get("dir_fd") or options.get("src_dir_fd")
            path = self._place(args[0] if args else ".", folder)
            if path is not None:
                self.step(operation, path)
            return real(*args, **options)

        return call

    def _open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        *text: Any,
        opener: Any = None,
        **options: Any,
    ) -> Any:
        path = self._place(file, None)
        if path is None:
            return _REAL_OPEN(file, mode, buffering, *text, opener=opener, **options)
        if not isinstance(file, int):
            self.step("open", path)
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""), opener)
        if buffering == 0:
            return raw
        if "+" in mode:
            buffered: Any = io.BufferedRandom(raw)
        else:
            buffered = io.BufferedReader(raw) if "r" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **options)

    def _place(self, file: Any, folder: int | None) -> str | None:
        """Return the path below the folder that is meant; None for any other."""
        if isinstance(file, int):
            path = _of_descriptor(file)
        else:
            path = os.fsdecode(file)
            if folder is not None:
                path = os.path.join(_of_descriptor(folder), path)
        path = os.path.abspath(path)
        return path if f"{path}/".startswith(self._below) else None


class _Raw(io.FileIO):
    """A file whose reads and writes are calls that can fail."""

    def __init__(self, disk: Disk, file: Any, mode: str, opener: Any) -> None:
        super().__init__(file, mode, True, opener)  # noqa: FBT003 - FileIO takes it so
        self._disk, self._path = disk, os.fsdecode(file) if not isinstance(file, int) else ""

    def write(self, data: Any) -> Any:
        self._disk.step("write", self._path)
        return super().write(data)

    def readinto(self, buffer: Any) -> Any:
        self._disk.step("read", self._path)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._disk.step("read", self._path)
        return super().readall()


_REAL_OPEN: Any = io.open


def _of_descriptor(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return "/"
