"""Look up and read files.

An unreadable file is an error, and does not count as a missing file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..common import file_access, read_limits
from ..errors import Location, SourceError, problem
from .source_roots import ProjectTree

# The largest step of timestamps in common file systems: two writes within one step may give a file the same
# times.
TIMESTAMP_STEP_NS = 2 * 10**9

_MEANS_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_file(path: str | Path, tree: ProjectTree) -> bool:
    """Return whether *path* is a file, and not a folder.

    Raise SourceError if the system reports an error, or if *path* is a pipe or a device, which a compiler
    might read forever. *tree* is used to name the file in the error message.
    """
    status = _status(path, tree)
    return status is not None and stat.S_ISREG(status.st_mode)


def file_state(path: str | Path, tree: ProjectTree) -> str:
    """Return a text with the size, times and inode of a file; an empty text if *path* is not a file.

    Raise SourceError if the system reports an error, or if *path* is a pipe or a device.
    """
    status = _status(path, tree)
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""
    return state_from_status(status)


def state_from_status(status: os.stat_result) -> str:
    """Return a text with a file's size, times and inode; the text changes whenever the file is written.

    The text can change although the file's content stays the same: each new hard link changes the ctime.
    """
    return f"{size_and_time_from_status(status)} {status.st_ino} {status.st_ctime_ns}"


def are_settled(states: Iterable[str], now_ns: int) -> bool:
    """Return whether the last writes of files are so old that any new write will change the files' *states*.

    If a file is written twice within one step of the file system's clock, it can have the same state after
    both writes.
    """
    newest = max((int(time) for state in states if state for time in state.split()[1::2]), default=0)
    return newest < now_ns - TIMESTAMP_STEP_NS


def _status(path: str | Path, tree: ProjectTree) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except ValueError:  # the text cannot be a path, for example because of a NUL character
        return None
    except OSError as exc:
        if exc.errno in _MEANS_ABSENT:
            return None
        raise unreadable_error(exc, path, tree) from exc
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise not_regular_error(tree.name_of(path))
    return status


def read_file(path: str | Path, tree: ProjectTree) -> bytes:
    """Return the bytes of a file; SourceError if the file cannot be read.

    *tree* is used to name the file in the error message.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            file_access.refuse_larger(file.fileno(), read_limits.SOURCE)
            return file.read()
    except OSError as exc:
        raise unreadable_error(exc, path, tree) from exc


def size_and_time(path: str | Path) -> str:
    """Return a text with a file's size and modification time; an empty text if the file does not exist."""
    try:
        return size_and_time_from_status(os.stat(path))
    except OSError:
        return ""


def size_and_time_from_status(status: os.stat_result) -> str:
    """Return the same text as `size_and_time`, from the status of a file."""
    return f"{status.st_size} {status.st_mtime_ns}"


def not_regular_error(name: str) -> SourceError:
    """Return the error for a path that is a pipe or a device, which a compiler might read forever."""
    return SourceError(problem("not-a-regular-file", "is not a regular file", Location(name)))


def unreadable_error(exc: OSError, path: str | Path, tree: ProjectTree) -> SourceError:
    """Return the error for the file at *path*, which cannot be read."""
    text = f"cannot be read: {exc.strerror}"
    return SourceError(problem("file-not-readable", text, Location(tree.name_of(path))))


def outside_link_error(tree: ProjectTree, path: str) -> SourceError:
    """Return the error for a link in the project or in a source root that leads to a place outside."""
    home, where = tree.source_root_of(path), Location(path)
    if home is not None:
        text = f"is a link to a place outside of the source root {home.name!r}"
        return SourceError(problem("link-leads-outside", text, where))
    text, hint = (
        "is a link to a place outside the project",
        "add the folder of the link's target to 'source-roots'",
    )
    return SourceError(problem("link-leads-outside", text, where, hint))
