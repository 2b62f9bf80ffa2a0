# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Read a large manifest in pieces, because most calls need only a few pieces."""

import os

from . import _damaged, _opened, _unreadable

_PIECE = 1 << 12  # bytes of the first piece that a search reads


def opened(path: str) -> "LargeFile":
    """Open a regular file as an object like bytes, which reads only the needed pieces."""
    descriptor = _opened(path)
    return LargeFile(path, descriptor, os.fstat(descriptor))


class LargeFile:
    """A large file that can be used like bytes. Only the needed pieces are read.

    The file is not mapped into memory: if another program truncates a mapped file, the system kills this
    process.
    """

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self._path, self._descriptor, self._status = path, descriptor, status
        self._recent = 0, b""  # the last bytes read: their offset and content

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self._status.st_size)
        size, (at, known) = max(end - start, 0), self._recent
        if not at <= start <= end <= at + len(known):
            ahead = 2 * _PIECE if size <= 2 * _PIECE else 0  # the next call will probably need these bytes
            at, known = start, self._read(start, size + ahead)
            if len(known) < size:
                _damaged(self._path, "the file was truncated or replaced while it was in use")
            if ahead:
                self._recent = at, known
        return known[start - at : start - at + size]

    def _read(self, at: int, size: int) -> bytes:
        try:
            if not self._is_open():  # for example, a process that becomes a daemon closes all files
                self._descriptor = _opened(self._path)
                if not self._is_open():  # the file was replaced
                    os.close(self._descriptor)
                    return b""
            return os.pread(self._descriptor, size, at)
        except OSError as exc:
            _unreadable(self._path, exc)

    def find(self, what: bytes, start: int = 0) -> int:
        """Return the first offset of *what*, like `bytes.find`."""
        part = _PIECE
        while start < self._status.st_size:
            if (found := self[start : start + part + len(what) - 1].find(what)) >= 0:
                return start + found
            start, part = start + part, 2 * part
        return -1

    def rfind(self, what: bytes, start: int = 0, end: "int | None" = None) -> int:
        """Return the last offset of *what*, like `bytes.rfind`."""
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


__build__ = "c8f3d0de63390474"
