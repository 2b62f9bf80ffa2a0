"""Verified entries over cuda.core's `FileStreamProgramCache`.

An entry is the raw compiled bytes under their key. A record beside it, written after it, proves it:
no record, a damaged one, or one that does not fit the bytes is a miss. A fault of the folder is a
miss too, and one warning for the whole build.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ._digest import file_digest

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11

_RECORD_FORMAT = 1
_ENTRY = re.compile("[0-9a-f]{64}")  # the folder's two digits, then the file's
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compile gave: the bytes, the kernels by spelled name, the compiler's warnings."""

    data: bytes
    kernels: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """What stands beside an entry and proves it."""

    key: str
    sha256: str
    size: int
    kernels: Mapping[str, str]
    warnings: Sequence[str]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    format: int = _RECORD_FORMAT

    def encode(self) -> bytes:
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return f"{file_digest(text.encode())}\n{text}\n".encode()


def _decode(data: bytes, key: bytes) -> _Record | None:
    """Return the record that *data* holds for *key*; None where a single bit of it is off."""
    head, _, text = data.partition(b"\n")
    body = text.removesuffix(b"\n")
    if len(text) != len(body) + 1 or head != file_digest(body).encode():
        return None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() != _Record.__dataclass_fields__.keys():
        return None
    record = _Record(**values)
    typed = isinstance(record.kernels, dict) and isinstance(record.warnings, list)
    return record if typed and (record.format, record.key) == (_RECORD_FORMAT, key.hex()) else None


class Cache:
    """The cache folder of one build."""

    def __init__(self, folder: Path, cap: int | None, warn: Callable[[str], object]) -> None:
        self.folder = folder
        self.damaged = 0
        self._cap = cap
        self._warn = warn
        self._warned = False
        self._opened_at = time.time() - 1  # a file's time may be a clock tick behind
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
        if self._cap is not None:
            self._guarded(self._trim, None)
        self._cleanup.close()

    def get(self, key: bytes) -> Compiled | None:
        """Return what is stored under *key* and proven by its record."""
        return self._guarded(lambda: self._get(key), None)

    def put(self, key: bytes, compiled: Compiled, inputs: Mapping[str, Any]) -> None:
        """Store one result: the entry first, so that a record never stands alone for long."""
        record = _Record(
            key.hex(),
            file_digest(compiled.data),
            len(compiled.data),
            compiled.kernels,
            compiled.warnings,
            inputs,
        )

        def write() -> None:
            self._make_way(key)
            self._store[key] = compiled.data
            self._store[_record_key(key)] = record.encode()

        self._guarded(write, None)

    def _get(self, key: bytes) -> Compiled | None:
        if any(map(self._is_odd, self._places(key))):
            self.damaged += 1
            return None
        data, proof = self._store.get(key), self._store.get(_record_key(key))
        if data is None:  # a record alone is what trimming may leave
            return None
        record = None if proof is None else _decode(proof, key)
        if record is None or record.size != len(data) or record.sha256 != file_digest(data):
            self.damaged += 1
            return None
        return Compiled(data, record.kernels, tuple(record.warnings))

    def _places(self, key: bytes) -> list[Path]:
        """Return where an entry and its record stand; nothing where a store does not say."""
        place = getattr(self._store, "_path_for_key", None)
        return [] if place is None else [place(key), place(_record_key(key))]

    @staticmethod
    def _is_odd(path: Path) -> bool:
        """Say whether something other than a file stands there: to open a pipe would wait for ever."""
        return os.path.exists(path) and not os.path.isfile(path)

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
        if (entries := self.folder / "entries").is_dir():
            # A folder that cannot be written can still be read: its entries, beside a tmp/ of our own.
            beside = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="hatch-cubin-")))
            with contextlib.suppress(OSError):
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

    def _trim(self) -> None:
        """Bring the folder under its cap: what was used longest ago goes, what this build used stays."""
        entries = []
        for parent, _folders, files in os.walk(self.folder / "entries"):
            for name in files:
                if not _ENTRY.fullmatch(os.path.basename(parent) + name):
                    continue  # whatever that is, the store did not make it
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(path := os.path.join(parent, name))
                    entries.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        total = sum(size for _used, size, _path in entries)
        for used, size, path in sorted(entries):
            if total <= (self._cap or 0) or used >= self._opened_at:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


def _record_key(key: bytes) -> bytes:
    return key + b".record"
