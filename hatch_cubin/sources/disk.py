"""Look at files of the project and its headers: what cannot be looked at is an error, and not missing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..errors import Location, Problem, SourceError

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_file(path: str | Path, root: Path) -> bool:
    """Say whether a file stands at *path*; SourceError, relative to *root*, where nobody can tell."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except ValueError:  # no path at all
        return False
    except OSError as exc:
        if exc.errno in _ABSENT:
            return False
        raise unreadable(exc, path, root) from exc


def read(path: str | Path, root: Path) -> bytes:
    """Return what stands in a file; SourceError, relative to *root*, where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError as exc:
        raise unreadable(exc, path, root) from exc


def stamp(path: str | Path) -> str:
    """Return what tells a file from one written anew, be it with the same; empty where there is none."""
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return ""


def stamp_of(status: os.stat_result) -> str:
    """Return the same of a file that was looked at."""
    return f"{status.st_size} {status.st_mtime_ns}"


def unreadable(exc: OSError, path: str | Path, root: Path) -> SourceError:
    """Return the error of what cannot be read."""
    return SourceError(Problem(f"cannot be read: {exc.strerror}", Location(os.path.relpath(path, root))))
