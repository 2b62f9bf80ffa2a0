"""Look for files and read them: one that cannot be read is an error, and never counts as missing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..errors import Location, Problem, SourceError

NOT_REGULAR = "is not a regular file"

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_file(path: str | Path, root: Path) -> bool:
    """Say whether there is a file at *path*; SourceError, with the path below *root*, where nothing tells.

    To a compiler a folder is no file either. It would read a pipe or a device to an end that may never come.
    """
    status = _status(path, root)
    return status is not None and stat.S_ISREG(status.st_mode)


def state(path: str | Path, root: Path) -> str:
    """Return the stamp of the file at *path*, nothing where there is none; SourceError as above.

    Its inode is in it, for some installers give the files of every version one and the same time.
    """
    status = _status(path, root)
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""
    return f"{stamp_of(status)} {status.st_ino}"


def _status(path: str | Path, root: Path) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except ValueError:  # no path at all
        return None
    except OSError as exc:
        if exc.errno in _ABSENT:
            return None
        raise unreadable(exc, path, root) from exc
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise SourceError(Problem(NOT_REGULAR, Location(os.path.relpath(path, root))))
    return status


def read(path: str | Path, root: Path) -> bytes:
    """Return a file's bytes; SourceError, with the path below *root*, where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError as exc:
        raise unreadable(exc, path, root) from exc


def stamp(path: str | Path) -> str:
    """Return a text that changes when a file is written, even with the same bytes; empty without a file."""
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return ""


def stamp_of(status: os.stat_result) -> str:
    """Return the same of a file that was looked at."""
    return f"{status.st_size} {status.st_mtime_ns}"


def unreadable(exc: OSError, path: str | Path, root: Path) -> SourceError:
    """Return the error for a file that cannot be read."""
    return SourceError(Problem(f"cannot be read: {exc.strerror}", Location(os.path.relpath(path, root))))
