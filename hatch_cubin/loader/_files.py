# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Read files in rare cases: large ones in pieces, and those in archives."""

import os

from . import __spec__ as _core_spec
from . import _companions, _damaged, _is_of_system, _opened, _unreadable

_PIECE = 1 << 12  # bytes of the first piece that a search reads


def opened(path: str) -> "LargeFile":
    """Return the bytes of a plain file, of which only what is needed will be read."""
    descriptor = _opened(path)
    return LargeFile(path, descriptor, os.fstat(descriptor))


class LargeFile:
    """The bytes of a large file, of which it reads only what is needed.

    They are not mapped: if another program cuts a mapped file off, the process that mapped it gets killed.
    """

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self._path, self._descriptor, self._status = path, descriptor, status
        self._recent = 0, b""  # where the bytes that were read last begin, and these bytes

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self._status.st_size)
        size, (at, known) = max(end - start, 0), self._recent
        if not at <= start <= end <= at + len(known):
            ahead = 2 * _PIECE if size <= 2 * _PIECE else 0  # as the next call will need it
            at, known = start, self._read(start, size + ahead)
            if len(known) < size:
                _damaged(self._path, "it was cut off or replaced while it was in use")
            if ahead:
                self._recent = at, known
        return known[start - at : start - at + size]

    def _read(self, at: int, size: int) -> bytes:
        try:
            if not self._is_open():  # to become a daemon, the process closed all files that it did not know
                self._descriptor = _opened(self._path)
                if not self._is_open():  # it is another file
                    os.close(self._descriptor)
                    return b""
            return os.pread(self._descriptor, size, at)
        except OSError as exc:
            _unreadable(self._path, exc)

    def find(self, what: bytes, start: int = 0) -> int:
        """Return where *what* begins first, as `bytes.find` does."""
        part = _PIECE
        while start < self._status.st_size:
            if (found := self[start : start + part + len(what) - 1].find(what)) >= 0:
                return start + found
            start, part = start + part, 2 * part
        return -1

    def rfind(self, what: bytes, start: int = 0, end: "int | None" = None) -> int:
        """Return where *what* begins last, as `bytes.rfind` does."""
        end = self._status.st_size if end is None else end
        while end - start >= len(what):
            at = max(start, end - _PIECE)
            if (found := self[at:end].rfind(what)) >= 0:
                return at + found
            end = at + len(what) - 1
        return -1

    def _is_open(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._status)
        except OSError:
            return False

    def __del__(self) -> None:
        if self._is_open():
            os.close(self._descriptor)


def archived(path: str, missing: OSError) -> bytes:
    """Return the bytes of a path that is not a file: in a zip archive only the importer can read."""
    try:
        folder = os.path.dirname(path)
        importers = [importer for place, importer in _companions.values() if place == folder]
        importer = (importers or [_core_spec.loader])[0]
        if hasattr(importer, "archive"):  # a zip's, whose own path may be relative to a former folder
            importer = type(importer)(folder)
        data: bytes = importer.get_data(path)
    except Exception as exc:
        _unreadable(path, missing if _is_absence(exc) else exc)
    return data


def _is_absence(exc: Exception) -> bool:
    """Say whether an importer has no such file, or reads no files. Otherwise the file is there but broken."""
    if isinstance(exc, OSError):
        return exc.errno is not None and not _is_of_system(exc)
    return isinstance(exc, AttributeError)


__build__ = "e800c55481f485b6"
