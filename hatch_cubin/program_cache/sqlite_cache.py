"""`SQLiteProgramCache`: a cuda.core program cache in one file, for programs that compile at run time."""

from __future__ import annotations

import errno
import os
import warnings
import weakref

from ..common import file_access, read_limits
from . import usable_paths

try:
    from cuda.core import ObjectCode
    from cuda.core.utils import ProgramCacheResource
except ImportError as exc:
    raise ImportError("SQLiteProgramCache needs cuda-core 1.2 or newer: pip install cuda-core") from exc


class SQLiteProgramCache(ProgramCacheResource):  # type: ignore[misc]
    """A persistent program cache in one SQLite file, for any number of threads and processes of a machine.

    Like cuda.core's `FileStreamProgramCache`, this cache stores and returns the raw bytes of compiled
    programs. The cache stores a digest with each program, and a program that does not match its digest is a
    cache miss. *max_size_bytes* limits the total size of all entries: the least recently used entries are
    removed first. If the file cannot be read or written, a warning is printed; a read is then a cache miss,
    and a write stores nothing.
    """

    def __init__(self, path: str | os.PathLike[str], max_size_bytes: int | None = None) -> None:
        from .database import (
            Database,
        )  # lazy import: needs sqlite3, which only programs that open a cache need

        if max_size_bytes is not None and max_size_bytes <= 0:
            raise ValueError(f"max_size_bytes must be positive or None, not {max_size_bytes}")
        real_path = os.path.realpath(path)
        usable_paths.check(real_path)
        self._database = Database(real_path, max_size_bytes, _warn)
        weakref.finalize(self, self._database.close)

    def __getitem__(self, key: bytes | bytearray | str) -> bytes:
        data = self._database.read(_key_bytes(key))
        if data is None:
            raise KeyError(key)
        return data

    def __setitem__(
        self, key: bytes | bytearray | str, value: bytes | bytearray | memoryview | ObjectCode
    ) -> None:
        self._database.write(_key_bytes(key), _value_bytes(value))

    def __delitem__(self, key: bytes | bytearray | str) -> None:
        if not self._database.remove(_key_bytes(key)):
            raise KeyError(key)

    def __len__(self) -> int:
        return self._database.count()

    def clear(self) -> None:
        """Remove every entry."""
        self._database.clear()

    def close(self) -> None:
        """Close the file, so that it can be copied; the next use of the cache opens the file again."""
        self._database.close()


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=2)


def _key_bytes(key: bytes | bytearray | str) -> bytes:
    if isinstance(key, (bytes, bytearray)):
        return bytes(key)
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"cache keys must be bytes or str, got {type(key).__name__}")


def _value_bytes(value: bytes | bytearray | memoryview | ObjectCode) -> bytes:
    code = value.code if isinstance(value, ObjectCode) else value
    if isinstance(value, ObjectCode) and isinstance(code, str):  # `code` is the path of a file
        return _read_code_file(code)
    if not isinstance(code, (bytes, bytearray, memoryview)):
        raise TypeError(f"cache values must be bytes-like or ObjectCode, got {type(value).__name__}")
    return bytes(code)


def _read_code_file(path: str) -> bytes:
    """Return the code of an ObjectCode from the file *path*; OSError or ValueError if it cannot be read."""
    what = f"nothing was stored, because the ObjectCode's file {path} cannot be read"
    try:
        if not (data := file_access.read(path, read_limits.CODE)):
            raise OSError(errno.EINVAL, "it is empty")
    except OSError as exc:
        raise OSError(exc.errno, f"{what}: {exc.strerror}") from None
    except ValueError as exc:
        raise ValueError(f"{what}: {exc}") from None
    return data
