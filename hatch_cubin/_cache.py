"""Verified entries over cuda.core's `FileStreamProgramCache`.

An entry is the raw compiled bytes under their key. A record beside it, written after it, proves it:
no record, a damaged one, or one that does not fit the bytes is a miss. A fault of the folder is a
miss too, and one warning for the whole build. Any number of builds may use, trim and clear a folder
at the same time: to each, what another removed is a miss.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _housekeeping
from ._digest import file_digest
from ._locks import Lock, try_lock
from ._proof import Record, decode, place, record_key

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11

_TRIES = 3  # to write where another process clears the folder
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compile gave: the bytes, the kernels by spelled name, the compiler's warnings."""

    data: bytes
    kernels: Mapping[str, str]
    warnings: tuple[str, ...] = ()


class Cache:
    """The cache folder of one build."""

    def __init__(self, folder: Path, cap: int | None, warn: Callable[[str], object]) -> None:
        self.folder = folder
        self.damaged = 0
        self._cap = cap
        self._warn = warn
        self._warned = False
        self._claims: dict[bytes, Path] = {}
        self._locks: dict[Path, Lock] = {}
        self._cleanup = contextlib.ExitStack()
        self._store = self._open()

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
        self._guarded(lambda: _housekeeping.trim(self.folder, size=self._cap), None)
        self._cleanup.close()

    def get(self, key: bytes) -> Compiled | None:
        """Return what is stored under *key* and proven by its record."""
        return self._guarded(lambda: self._get(key), None)

    def put(self, key: bytes, compiled: Compiled, inputs: Mapping[str, Any]) -> None:
        """Store one result: the entry first, so that a record never stands alone for long."""
        record = Record(
            key.hex(),
            file_digest(compiled.data),
            len(compiled.data),
            compiled.kernels,
            compiled.warnings,
            inputs,
        )
        values = {key: compiled.data, record_key(key): record.encode()}
        self._guarded(lambda: self._put(key, values), None)

    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the inputs of every entry that has its record, by its key."""

        def read() -> dict[str, Mapping[str, Any]]:
            return {record.key: record.inputs for record in _housekeeping.records(self.folder)}

        return self._guarded(read, {})

    def claim(self, key: bytes) -> bool:
        """Say whether this build may compile what is missing; not where another build is at it.

        The lock is on the folder in which the entry will stand, so that two keys may share one.
        """
        if self._warned:  # others would wait for what cannot be stored
            return True
        folder = place(self.folder, key).parent
        if folder not in self._locks:
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)
            lock = try_lock(folder)
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

    def _get(self, key: bytes) -> Compiled | None:
        if any(map(_is_odd, self._places(key))):
            self.damaged += 1
            return None
        data, proof = self._store.get(key), self._store.get(record_key(key))
        if data is None or proof is None:  # trimmed, or being written
            return None
        record = decode(proof)
        if record is None or not record.proves(key, data):
            self.damaged += 1
            return None
        return Compiled(data, record.kernels, tuple(record.warnings))

    def _put(self, key: bytes, values: Mapping[bytes, bytes]) -> None:
        self._make_way(key)
        for _ in range(_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):
                return self._write(values)
        return self._write(values)

    def _write(self, values: Mapping[bytes, bytes]) -> None:
        """Write an entry, then its record, so that a record never stands alone for long."""
        # Shared by all who write, and never waited for: it says that temporary files are in use.
        with try_lock(self.folder / "tmp", shared=True) or Lock(None):
            for each, data in values.items():
                self._store[each] = data

    def _places(self, key: bytes) -> list[Path]:
        """Return where an entry and its record stand; nothing where a store does not say."""
        path_of = getattr(self._store, "_path_for_key", None)
        return [] if path_of is None else [path_of(key), path_of(record_key(key))]

    def _make_way(self, key: bytes) -> None:
        """Remove folders that stand in an entry's place; a file replaces anything else."""
        for path in self._places(key):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)

    def _open(self) -> Any:
        from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache

        try:
            return FileStreamProgramCache(self.folder)
        except (OSError, ValueError) as exc:
            self._fault(exc)
        # A folder that cannot be written can still be read: its entries, beside a tmp/ of our own.
        with contextlib.suppress(OSError):
            if os.path.isdir(entries := self.folder / "entries"):
                scratch = tempfile.TemporaryDirectory(prefix="hatch-cubin-", ignore_cleanup_errors=True)
                beside = Path(self._cleanup.enter_context(scratch))
                (beside / "entries").symlink_to(entries.resolve(), target_is_directory=True)
                return FileStreamProgramCache(beside)
        return InMemoryProgramCache()

    def _guarded(self, action: Callable[[], _R], otherwise: _R) -> _R:
        try:
            return action()
        except (OSError, ValueError) as exc:
            self._fault(exc)
            return otherwise

    def _fault(self, exc: Exception) -> None:
        if not self._warned:
            self._warned = True
            reason = getattr(exc, "strerror", None) or exc
            self._warn(f"the cache at {self.folder} cannot be used fully: {reason}")


def _is_odd(path: Path) -> bool:
    """Say whether something other than a file stands there: to open a pipe would wait for ever."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
