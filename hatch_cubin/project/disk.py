"""Look for files and read them. A file that cannot be read is an error, and never counts as missing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..common import file_access, read_limits
from ..errors import Location, SourceError, problem
from .source_roots import ProjectTree

# The coarsest step of a file's times. A file that is written twice within one step may keep its times.
TIMESTAMP_STEP_NS = 2 * 10**9

_MEANS_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_file(path: str | Path, tree: ProjectTree) -> bool:
    """Return whether there is a file at *path*; False for a folder, as for a compiler.

    SourceError, with the file's name in the *tree*, if the system refuses to answer, or if it is a pipe or a
    device: a compiler might wait forever for its end.
    """
    status = _status(path, tree)
    return status is not None and stat.S_ISREG(status.st_mode)


def file_state(path: str | Path, tree: ProjectTree) -> str:
    """Return the state of the file at *path*, empty if there is no file; SourceError as of `is_file`."""
    status = _status(path, tree)
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""
    return state_from_status(status)


def state_from_status(status: os.stat_result) -> str:
    """Return a text that changes when a file's content changes, even if its size and time are set back.

    It can change although the content is the same: each new hard link to a file changes its ctime.
    """
    return f"{size_and_time_from_status(status)} {status.st_ino} {status.st_ctime_ns}"


def are_settled(states: Iterable[str], now_ns: int) -> bool:
    """Return whether the last change of these files is long enough ago that any later change is visible.

    A file that changes twice within one step of its timestamps may have the same state after both changes.
    """
    newest = max((int(time) for state in states if state for time in state.split()[1::2]), default=0)
    return newest < now_ns - TIMESTAMP_STEP_NS


def _status(path: str | Path, tree: ProjectTree) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except ValueError:  # not a path, such as a text with a NUL character
        return None
    except OSError as exc:
        if exc.errno in _MEANS_ABSENT:
            return None
        raise unreadable_error(exc, path, tree) from exc
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise not_regular_error(tree.name_of(path))
    return status


def read_file(path: str | Path, tree: ProjectTree) -> bytes:
    """Return a file's bytes; SourceError, with its name in the *tree*, if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            file_access.refuse_larger(file.fileno(), read_limits.SOURCE)
            return file.read()
    except OSError as exc:
        raise unreadable_error(exc, path, tree) from exc


def size_and_time(path: str | Path) -> str:
    """Return a text that changes when a file is written, even with the same bytes; empty without a file."""
    try:
        return size_and_time_from_status(os.stat(path))
    except OSError:
        return ""


def size_and_time_from_status(status: os.stat_result) -> str:
    """Return the text that `size_and_time` returns, for a status that is already known."""
    return f"{status.st_size} {status.st_mtime_ns}"


def not_regular_error(name: str) -> SourceError:
    """Return the error for a pipe, a device or the like, which a compiler might read without end."""
    return SourceError(problem("not-a-regular-file", "is not a regular file", Location(name)))


def unreadable_error(exc: OSError, path: str | Path, tree: ProjectTree) -> SourceError:
    """Return the error for a file that cannot be read."""
    text = f"cannot be read: {exc.strerror}"
    return SourceError(problem("file-not-readable", text, Location(tree.name_of(path))))


def outside_link_error(tree: ProjectTree, path: str) -> SourceError:
    """Return the error for a file that is a link out of the project or out of its source root."""
    home, where = tree.source_root_of(path), Location(path)
    if home is not None:
        text = f"is a link to a place outside of the source root {home.name!r}"
        return SourceError(problem("link-leads-outside", text, where))
    text, hint = "is a link to a place outside the project", "'source-roots' can name folders above it"
    return SourceError(problem("link-leads-outside", text, where, hint))
