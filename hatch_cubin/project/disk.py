"""Look for files and read them: one that cannot be read is an error, and never counts as missing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..common import file_access, read_limits
from ..errors import Location, SourceError, problem
from .source_roots import ProjectTree

TIMESTAMP_STEP_NS = (
    2 * 10**9
)  # the coarsest step of a file's times: one that is written twice in it may keep its times

_MEANS_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_file(path: str | Path, tree: ProjectTree) -> bool:
    """Say whether there is a file at *path*; SourceError, with its name in the *tree*, where nothing tells.

    To a compiler a folder is no file either. It would read a pipe or a device to an end that may never come.
    """
    status = _status(path, tree)
    return status is not None and stat.S_ISREG(status.st_mode)


def file_state(path: str | Path, tree: ProjectTree) -> str:
    """Return the state of the file at *path*, nothing where there is none; SourceError as above."""
    status = _status(path, tree)
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""
    return state_from_status(status)


def state_from_status(status: os.stat_result) -> str:
    """Return a text that changes when a file's content does, even if its size and time are set back.

    It can change although the content does not: a file's ctime moves with each hard link to it.
    """
    return f"{size_and_time_from_status(status)} {status.st_ino} {status.st_ctime_ns}"


def are_settled(states: Iterable[str], now_ns: int) -> bool:
    """Say whether files were last changed so long before a time that another change gives another state."""
    newest = max((int(time) for state in states if state for time in state.split()[1::2]), default=0)
    return newest < now_ns - TIMESTAMP_STEP_NS


def _status(path: str | Path, tree: ProjectTree) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except ValueError:  # no path at all
        return None
    except OSError as exc:
        if exc.errno in _MEANS_ABSENT:
            return None
        raise unreadable_error(exc, path, tree) from exc
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise not_regular_error(tree.name_of(path))
    return status


def read_file(path: str | Path, tree: ProjectTree) -> bytes:
    """Return a file's bytes; SourceError, with its name in the *tree*, where it cannot be read."""
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
    """Return the same of a file that was looked at."""
    return f"{status.st_size} {status.st_mtime_ns}"


def not_regular_error(name: str) -> SourceError:
    """Return the error for a pipe, a device or the like, which a compiler might read without end."""
    return SourceError(problem("not-a-regular-file", "is not a regular file", Location(name)))


def unreadable_error(exc: OSError, path: str | Path, tree: ProjectTree) -> SourceError:
    """Return the error for a file that cannot be read."""
    text = f"cannot be read: {exc.strerror}"
    return SourceError(problem("file-not-readable", text, Location(tree.name_of(path))))


def outside_link_error(tree: ProjectTree, path: str) -> SourceError:
    """Return the error for a file of the project that is a link to a place outside of where its name says."""
    home, where = tree.source_root_of(path), Location(path)
    if home is not None:
        text = f"is a link to a place outside of the source root {home.name!r}"
        return SourceError(problem("link-leads-outside", text, where))
    text, hint = "is a link to a place outside the project", "'source-roots' can name folders above it"
    return SourceError(problem("link-leads-outside", text, where, hint))
