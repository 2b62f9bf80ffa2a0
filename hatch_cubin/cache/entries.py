"""Verified entries of cuda.core's `FileStreamProgramCache`.

cuda.core writes them; to be read, which a build of nothing but hits does, they need no cuda.core.
An entry is the raw compiled bytes under their key. A record beside it, written after it, proves it:
no record, a damaged one, or one that does not fit the bytes is a miss. A fault of the folder is a
miss too, and one warning for the whole build. Any number of builds may use, trim and clear a folder
at the same time: to each, what another removed is a miss.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .._digest import file_digest
from .._locks import Lock, try_lock
from ..cubin.elf import read_resources
from ..sources import disk
from . import housekeeping
from .proof import Known, Record, decode, place, record_key

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_TRIES = 3  # to write where another process clears the folder
_R = TypeVar("_R")

Content = list[bytes] | str  # of a file: in pieces, or the path of another that has it


@dataclass(frozen=True)
class Compiled:
    """What a compile gave: the bytes, the kernels by spelled name, the compiler's warnings."""

    data: bytes
    kernels: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    recalled = False  # as an earlier build left it: nothing new was found out

    @property
    def content(self) -> Content:
        """The bytes, or the file in which they wait to be packed."""
        return [self.data]

    @cached_property
    def size(self) -> int:
        return len(self.data)

    @cached_property
    def sha256(self) -> str:
        return file_digest(self.data)

    @cached_property
    def described(self) -> str:
        """What each kernel of a cubin needs of a GPU, in JSON: for people, so that nothing depends on it."""
        try:
            return json.dumps(read_resources(self.data))
        except ValueError:
            return "{}"


class _Held(Compiled):
    """The same, of which a file has the bytes and their proof the rest: nothing is here twice."""

    def __init__(self, file: str, proof: Record | Known) -> None:
        self._file, self._proof = file, proof
        self.recalled = isinstance(proof, Known)

    @property
    def data(self) -> bytes:
        return Path(self._file).read_bytes()

    @property
    def content(self) -> str:
        return self._file

    @property
    def kernels(self) -> Mapping[str, str]:
        return self._proof.kernels

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._proof.warnings)

    @property
    def size(self) -> int:
        return self._proof.size

    @property
    def sha256(self) -> str:
        return self._proof.sha256

    @property
    def described(self) -> str:
        return self._proof.resources if isinstance(self._proof, Known) else super().described


class Cache:
    """The cache folder of one build.

    Where there is a folder to *hold* what is found, hits are links in it: nothing is copied, no other
    build can remove them, and the bytes need not stay in memory.
    """

    def __init__(
        self, folder: Path, cap: int | None, warn: Callable[[str], object], hold: Path | None = None
    ) -> None:
        self.folder = folder
        self._hold = hold
        self._held = 0
        self.damaged = 0
        self._cap = cap
        self._warn = warn
        self._warned = False
        self._warning = threading.Lock()
        self._claims: dict[bytes, str] = {}
        self._locks: dict[str, Lock] = {}
        self._refused: set[bytes] = set()
        self._store: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for key in [*self._claims]:
            self.release(key)
        self._guarded(lambda: housekeeping.trim(self.folder, size=self._cap), None)

    def get(self, key: bytes, known: Known | None = None) -> Compiled | None:
        """Return what is stored under *key* and proven: by what is *known* of it, or by its record."""
        return self._guarded(lambda: self._get(key, known), None)

    def put(self, key: bytes, compiled: Compiled, inputs: Mapping[str, Any]) -> None:
        """Store one result: the entry first, so that a record never stands alone for long."""
        record = Record(
            key.hex(),
            compiled.sha256,
            compiled.size,
            compiled.kernels,
            compiled.warnings,
            inputs,
        )
        values = {key: compiled.data, record_key(key): record.encode()}
        self._guarded(lambda: self._put(key, values), None)
        self._refused.discard(key)

    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the inputs of every entry that has its record, by its key."""

        def read() -> dict[str, Mapping[str, Any]]:
            return {record.key: record.inputs for record in housekeeping.records(self.folder)}

        return self._guarded(read, {})

    def record_stamp(self, key: bytes) -> str:
        """Return what tells a record's file from one that was written anew."""
        return disk.stamp(place(self.folder, record_key(key)))

    def claim(self, key: bytes) -> bool:
        """Say whether this build may compile what is missing; not where another build is at it.

        The lock is on the folder in which the entry will stand, so that two keys may share one.
        """
        if self._warned:  # others would wait for what cannot be stored
            return True
        folder = os.path.dirname(place(self.folder, key))
        if folder not in self._locks:
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)
            lock = try_lock(Path(folder))
            if lock is None:
                return False
            self._locks[folder] = lock
        self._claims[key] = folder
        return True

    def release(self, key: bytes) -> None:
        """Let other builds have a key that was claimed."""
        folder = self._claims.pop(key, None)
        if folder is not None and folder not in self._claims.values():
            self._locks.pop(folder).close()

    def _get(self, key: bytes, known: Known | None) -> Compiled | None:
        entry, beside = place(self.folder, key), place(self.folder, record_key(key))
        held = self._linked(entry)
        try:
            data = _read(held or entry)
            if known is not None and data is not None and known.proves(data, disk.stamp(beside)):
                return _proven(data, held, known)
            proof = _read(beside)
        except _NoFileError:
            self.damaged += 1
            return None
        if data is None or proof is None:  # trimmed, or being written
            return None
        record = decode(proof)
        if known is not None and not known.is_of(data):  # compilers are reproducible
            self._refused.add(key)
        if record is None or key in self._refused or not record.proves(key, data):
            self.damaged += 1
            return None
        return _proven(data, held, record)

    def _linked(self, entry: str) -> str | None:
        """Return a link to an entry in the folder that holds them, where there can be one."""
        if self._hold is None:
            return None
        link = f"{self._hold}{os.sep}{self._held}.held"
        try:
            mode = os.lstat(entry).st_mode
            if not stat.S_ISREG(mode) or mode & 0o111:  # a wheel would show that it can be executed
                return None
            os.link(entry, link)
            self._held += 1
        except FileNotFoundError:
            return None
        except OSError:  # on another disk, of another user, more than the file system allows
            self._hold = None
            return None
        return link

    def _put(self, key: bytes, values: Mapping[bytes, bytes]) -> None:
        self._make_way(key)
        for _ in range(_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):
                return self._write(values)
        return self._write(values)

    def _write(self, values: Mapping[bytes, bytes]) -> None:
        """Write an entry, then its record, so that a record never stands alone for long."""
        if self._store is None:  # it cannot be had where nothing can be written
            from cuda.core.utils import FileStreamProgramCache

            self._store = FileStreamProgramCache(self.folder)
        # Shared by all who write, and never waited for: it says that temporary files are in use.
        with try_lock(self.folder / "tmp", shared=True) or Lock(None):
            for each, data in values.items():
                self._store[each] = data

    def _make_way(self, key: bytes) -> None:
        """Remove folders that stand in an entry's place; a file replaces anything else."""
        for path in (place(self.folder, key), place(self.folder, record_key(key))):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)

    def _guarded(self, action: Callable[[], _R], otherwise: _R) -> _R:
        try:
            return action()
        except (OSError, ValueError) as exc:
            self._fault(exc)
            return otherwise

    def _fault(self, exc: Exception) -> None:
        with self._warning:  # several results may be on their way at once
            if not self._warned:
                self._warned = True
                reason = getattr(exc, "strerror", None) or exc
                self._warn(f"the cache at {self.folder} cannot be used fully: {reason}")


def _proven(data: bytes, held: str | None, proof: Record | Known) -> Compiled:
    """Return what *proof* proves, and describes: that is not found out once more."""
    if held is not None:
        return _Held(held, proof)
    found = Compiled(data, proof.kernels, tuple(proof.warnings))
    vars(found).update(sha256=proof.sha256, size=proof.size)
    if isinstance(proof, Known):
        vars(found).update(described=proof.resources, recalled=True)
    return found


class _NoFileError(Exception):
    """Something that is not a file stands in the place of one: to open a pipe would wait for ever."""


def _read(path: str) -> bytes | None:
    """Return what the store has in a file, which counts as using it; None where there is none."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise _NoFileError
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    try:
        data = os.read(descriptor, status.st_size + 1)
        while 0 < len(data) < status.st_size and (more := os.read(descriptor, status.st_size)):
            data += more  # the system reads 2 GiB at a time
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # in a folder that cannot be written nothing is trimmed either
        os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
    return data
