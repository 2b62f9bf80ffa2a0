"""Count, trim and clear the entries of a cache folder, even while builds use the folder.

Housekeeping removes only files whose paths have the form of cache files.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..common import user_folders
from ..common.file_lock import FileLock, try_lock, wait_for_lock
from ..errors import Location, Problem, problem
from .records import (
    MAX_RECORD_SIZE,
    MISSING_ERRNOS,
    NotAFileError,
    Record,
    decode,
    entry_path,
    record_key,
    stat_file,
)

# The key of an entry: its first two digits are the name of the folder, the other 62 digits are the file name.
_NAME = re.compile("[0-9a-f]{64}")
_TEMPORARY = re.compile("entry-[a-z0-9_]{8}")
# In seconds: temporary files that are older are unused, because no write takes an hour.
_ABANDONED_AFTER_S = 3600
LOCK_WAIT_S = 10.0  # how many seconds to wait for another process that trims the same cache folder
_RECORD = re.compile(rb"[0-9a-f]{64}\n\{")
_OF_PROJECTS = ("pyproject.toml", "setup.py", ".git")
RECORD_HEAD = 66  # this many bytes at the beginning of a file show whether the file is a cache record


class Stats(NamedTuple):
    """The number of files in a cache folder, and their size."""

    entries: int  # entries with a matching record.
    # Entries without a matching cache record, and records without an entry. Builds do not use unmatched
    # entries and records.
    unproven: int
    temporaries: int  # temporary files that a running build is writing, or that a killed build has left
    bytes: int


class Removed(NamedTuple):
    """The number of files that were removed from a cache folder, and their size."""

    entries: int  # cache entries that were removed together with their records
    temporaries: int
    bytes: int


class _StoredEntry(NamedTuple):
    """A cache entry with its record, an entry without a record, or a record without an entry."""

    files: Mapping[str, int]  # sizes by path
    used: float
    key: bytes | None

    @property
    def size(self) -> int:
        return sum(self.files.values())

    def was_used(self) -> bool:
        """Return whether a build has used the entry since housekeeping looked at the entry."""
        return any(_last_use(status) > self.used for path in self.files if (status := _status(path)))


def shared_folder(folder: Path) -> Iterator[Problem]:
    """Yield a warning if the cache's folder is also the folder of a project, or the user's home folder."""
    home = os.path.expanduser("~")
    if os.path.abspath(folder) == home or any(os.path.exists(folder / name) for name in _OF_PROJECTS):
        what = "is the cache's folder, but also contains files that do not belong to the cache"
        hint = "set HATCH_CUBIN_CACHE_DIR or cache-dir to an empty folder"
        yield problem("foreign-file-in-cache", what, Location(str(folder)), hint)


def stats(folder: Path) -> Stats:
    """Return how many files a cache folder contains, and their size."""
    items, temporaries = _stored_entries(folder), list(_temporary_files(folder))
    return Stats(
        entries=sum(item.key is not None for item in items),
        unproven=sum(item.key is None for item in items),
        temporaries=len(temporaries),
        bytes=sum(item.size for item in items) + sum(status.st_size for _path, status in temporaries),
    )


def is_empty(folder: Path) -> bool:
    """Return whether a cache folder has no entries, for example because the folder does not exist."""
    return not _files(folder)


def records(folder: Path) -> Iterator[Record]:
    """Yield every cache record in a cache folder."""
    return (record for path in _files(folder) if (record := _read_record(path)) is not None)


def clear(folder: Path) -> Removed:
    """Remove all entries, cache records and temporary files of a cache folder."""
    return _remove(folder, _stored_entries(folder))


def trim(
    folder: Path,
    *,
    size: int | None = None,
    unused_for: float | None = None,
    keep: Collection[bytes] = frozenset(),
) -> Removed:
    """Remove entries that were not used for *unused_for* seconds, and shrink the folder to *size* bytes.

    The least recently used entries are removed first. Entries whose cache keys are in *keep* are not removed.
    An entry that is larger than *size* does not displace smaller entries. Of the entries that are larger than
    *size*, the most recently used one stays, because the next build may need it.
    """
    # the folder is locked, because two processes that trim it at the same time would remove too much
    with wait_for_lock(folder / "entries", LOCK_WAIT_S):
        fits = size is None or sum(status.st_size for status in _files(folder).values()) <= size
        if fits and unused_for is None:  # there is nothing to trim; this check does not read any cache record
            return _remove(folder, [])
        return _remove(folder, _entries_to_remove(_stored_entries(folder), size, unused_for, keep))


def _entries_to_remove(
    items: Collection[_StoredEntry], size: int | None, unused_for: float | None, keep: Collection[bytes]
) -> Iterator[_StoredEntry]:
    now = time.time()
    room = float("inf") if size is None else size - sum(item.size for item in items if item.key in keep)
    large = full = False
    for item in sorted(items, key=lambda item: item.used, reverse=True):
        if item.key in keep:
            continue
        if unused_for is not None and now - item.used > unused_for:
            yield item
        elif size is not None and item.size > size:
            if large:
                yield item
            large = True
        elif full or item.size > room:
            full = True
            yield item
        else:
            room -= item.size


def _remove(folder: Path, items: Iterable[_StoredEntry]) -> Removed:
    entries = freed = temporaries = 0
    for item in items:
        if not item.was_used():
            freed += sum(size for path, size in item.files.items() if _unlink(path))
            entries += 1
    # All processes that write temporary files share the lock on this folder. If this process gets an
    # exclusive lock, no other process uses a temporary file.
    with try_lock(folder / "tmp") or FileLock(None) as lock, contextlib.suppress(PermissionError):
        for path, status in _temporary_files(folder):
            if (lock.real or time.time() - status.st_mtime > _ABANDONED_AFTER_S) and _unlink(path):
                temporaries += 1
                freed += status.st_size
    return Removed(entries, temporaries, freed)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:  # another process has already removed the file
        return False
    return True


def _stored_entries(folder: Path) -> list[_StoredEntry]:
    """Return all cache entries with their records, entries without a record, and records without an entry."""
    files = _files(folder)
    pairs = {}
    for path in files:
        record = _read_record(path)
        if record is None or entry_path(folder, record_key(key := bytes.fromhex(record.key))) != path:
            continue
        entry = entry_path(folder, key)
        if entry in files and files[entry].st_size == record.size:
            pairs[entry, path] = key
    alone = files.keys() - {path for pair in pairs for path in pair}
    return [
        _StoredEntry(
            {path: files[path].st_size for path in paths},
            max(_last_use(files[path]) for path in paths),
            key,
        )
        for paths, key in [*pairs.items(), *(((path,), None) for path in alone)]
    ]


def _read_record(path: str) -> Record | None:
    try:
        with open_unnoticed(path) as file:
            head = file.read(RECORD_HEAD)
            return decode(head + file.read(MAX_RECORD_SIZE)) if is_record(head) else None
    except OSError:  # another process has just removed the file, or the file cannot be read
        return None


def is_record(head: bytes) -> bool:
    """Return whether a file that begins with *head* is a cache record, which may still be damaged."""
    return _RECORD.fullmatch(head) is not None


def open_unnoticed(path: str) -> BinaryIO:
    """Open a cache file without changing the access time, because housekeeping does not count as a use."""
    return open(path, "rb", opener=_without_access_time)


def _without_access_time(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0) | user_folders.NONBLOCKING)
    except PermissionError:  # O_NOATIME is allowed only for the owner of a file
        return os.open(path, flags | user_folders.NONBLOCKING)


def _files(folder: Path) -> dict[str, os.stat_result]:
    """Return the status of each entry and each cache record in a cache folder, by path."""
    found = {}
    for parent, _folders, names in os.walk(folder / "entries", onerror=_raise_unless_missing):
        for name in names:
            if _NAME.fullmatch(os.path.basename(parent) + name):
                path = os.path.join(parent, name)
                if (status := _status(path)) is not None:
                    found[path] = status
    return found


def _raise_unless_missing(exc: OSError) -> None:
    """Raise the error unless the folder is missing, because an unreadable folder must not count as empty."""
    if exc.errno not in MISSING_ERRNOS:
        raise exc


def _temporary_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    try:
        names = os.listdir(folder / "tmp")
    except OSError:  # the cache folder does not exist, or belongs to another user
        return
    for name in names:
        path = str(folder / "tmp" / name)
        if _TEMPORARY.fullmatch(name) and (status := _status(path)) is not None:
            yield path, status


def _last_use(status: os.stat_result) -> float:
    return max(status.st_atime, status.st_mtime)


def _status(path: str) -> os.stat_result | None:
    """Return the status of a regular file; None if the path does not exist or is not a regular file."""
    try:
        file = stat_file(path)
    except NotAFileError:
        return None
    return None if file is None else file.status
