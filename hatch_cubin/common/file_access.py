"""Open files safely: only regular files are read, and opening a file never waits for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from .sizes import size

if TYPE_CHECKING:
    from pathlib import Path  # lazy import: errors in pyproject.toml are printed before slow imports

_KINDS = {
    stat.S_IFREG: "is a file",
    stat.S_IFDIR: "is a folder",
    stat.S_IFLNK: "is a link to a file that does not exist",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
}


def kind(mode: int) -> str:
    """Return a phrase that describes the kind of a file, such as 'is a pipe'; *mode* is the file's mode."""
    return _KINDS.get(stat.S_IFMT(mode), "is a device")


def status_of(path: str | Path) -> os.stat_result:
    """Return the status of a file, or the status of a link if *path* is a link without a target."""
    try:
        return os.stat(path)
    except OSError:
        return os.lstat(path)


def open_plain(path: str | Path, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading; refuse a pipe or a device, which another user may have made at *path*.

    Raise OSError if *path* is not a regular file, or if the file has more bytes than *most*. Opening a pipe
    would wait forever, and reading a device might never end.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it {kind(mode)}", str(path))
    file = open(path, "rb", opener=_never_waiting)  # noqa: SIM115 - for the caller
    try:
        if most is not None:
            refuse_larger(file.fileno(), most)
    except OSError:
        file.close()
        raise
    return file


def read(path: str | Path, most: int) -> bytes:
    """Return a file's content; OSError if it is not a regular file, or has more than *most* bytes."""
    with open_plain(path, most) as file:
        return file.read(most)


def refuse_larger(descriptor: int, most: int) -> int:
    """Return the size of an open file; raise OSError if the file has more bytes than *most*."""
    found = os.fstat(descriptor).st_size
    if found > most:
        raise OSError(errno.EFBIG, f"the file has {size(found)}, but hatch-cubin reads at most {size(most)}")
    return found


def _never_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write(path: str | Path, text: str) -> None:
    """Write *text* to a path that the user named, which may also be a terminal, a device or a pipe.

    Raise OSError if *path* is a pipe that no process reads, because opening such a pipe would wait forever.
    """
    with open(path, "w", encoding="utf-8", opener=_at_once) as file:
        file.write(text)


def _at_once(path: str, flags: int) -> int:
    never_wait = getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | never_wait, 0o666)
    except OSError as exc:
        if exc.errno != errno.ENXIO:
            raise
        what = f"the file {kind(os.stat(path).st_mode)}, and no process reads from this file"
        raise OSError(errno.ENXIO, what) from exc
    if never_wait:  # opening a pipe must not wait, but writing must wait for a slow reader
        os.set_blocking(descriptor, True)
    return descriptor
