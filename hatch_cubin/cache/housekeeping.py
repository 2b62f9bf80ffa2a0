"""Count, trim and clear what is in a cache folder, even while builds use it.

Only files that the store makes are touched; they are known by their names and places.
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
from ..common.file_lock import Lock, try_lock, wait_for_lock
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

_NAME = re.compile("[0-9a-f]{64}")  # the folder's two digits, then the file's
_TEMPORARY = re.compile("entry-[a-z0-9_]{8}")
_ABANDONED_AFTER_S = 3600  # no write takes that long
LOCK_WAIT_S = 10.0  # with another process that trims the same folder
_RECORD = re.compile(rb"[0-9a-f]{64}\n\{")
RECORD_HEAD = 66  # bytes, by which it is known


class Stats(NamedTuple):
    """What is in a cache folder."""

    entries: int  # that have their record
    unproven: int  # entries without a record that fits, and records without an entry: each is a miss
    temporaries: int  # being written, or left by a build that was killed
    bytes: int


class Removed(NamedTuple):
    """What was removed from a cache folder."""

    entries: int  # with their records
    temporaries: int
    bytes: int


class _StoredEntry(NamedTuple):
    """An entry with its record, or one of the two that lacks the other."""

    files: Mapping[str, int]  # sizes by path
    used: float
    key: bytes | None

    @property
    def size(self) -> int:
        return sum(self.files.values())

    def was_used(self) -> bool:
        """Say whether a build has read or written it since it was looked at."""
        return any(_last_use(status) > self.used for path in self.files if (status := _status(path)))


def stats(folder: Path) -> Stats:
    """Say what is in *folder*."""
    items, temporaries = _stored_entries(folder), list(_temporary_files(folder))
    return Stats(
        entries=sum(item.key is not None for item in items),
        unproven=sum(item.key is None for item in items),
        temporaries=len(temporaries),
        bytes=sum(item.size for item in items) + sum(status.st_size for _path, status in temporaries),
    )


def records(folder: Path) -> Iterator[Record]:
    """Yield the record of every entry."""
    return (record for path in _files(folder) if (record := _read_record(path)) is not None)


def clear(folder: Path) -> Removed:
    """Remove all that the store made."""
    return _remove(folder, _stored_entries(folder))


def trim(
    folder: Path,
    *,
    size: int | None = None,
    unused_for: float | None = None,
    keep: Collection[bytes] = frozenset(),
) -> Removed:
    """Shrink *folder* to *size* bytes, and remove what was unused for so many seconds.

    What was used longest ago goes first; the keys to *keep* stay. An entry that alone is larger than *size*
    takes no room from the others: the last such entry that was used stays beside them.
    """
    with wait_for_lock(folder / "entries", LOCK_WAIT_S):  # two at a time would each keep what the other drops
        fits = size is None or sum(status.st_size for status in _files(folder).values()) <= size
        if fits and unused_for is None:  # records need not be read
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
    # All who write share this lock. Where it can be had alone, no temporary file is in use.
    with try_lock(folder / "tmp") or Lock(None) as lock, contextlib.suppress(PermissionError):
        for path, status in _temporary_files(folder):
            if (lock.real or time.time() - status.st_mtime > _ABANDONED_AFTER_S) and _unlink(path):
                temporaries += 1
                freed += status.st_size
    return Removed(entries, temporaries, freed)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:  # another process was faster
        return False
    return True


def _stored_entries(folder: Path) -> list[_StoredEntry]:
    """CacheEntry each entry with its record; what has no partner is an item of its own."""
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
    except OSError:  # gone by now, or not ours to read
        return None


def is_record(head: bytes) -> bool:
    """Say whether a file that begins so is meant to be a record."""
    return _RECORD.fullmatch(head) is not None


def open_unnoticed(path: str) -> BinaryIO:
    """Open what is known to be a file so that it does not count as used, where the system can do that."""
    return open(path, "rb", opener=_without_access_time)


def _without_access_time(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0) | user_folders.AT_ONCE)
    except PermissionError:  # only the owner of a file may read it unseen
        return os.open(path, flags | user_folders.AT_ONCE)


def _files(folder: Path) -> dict[str, os.stat_result]:
    """Return every file that the store keeps something in."""
    found = {}
    for parent, _folders, names in os.walk(folder / "entries", onerror=_raise_unless_missing):
        for name in names:
            if _NAME.fullmatch(os.path.basename(parent) + name):
                path = os.path.join(parent, name)
                if (status := _status(path)) is not None:
                    found[path] = status
    return found


def _raise_unless_missing(exc: OSError) -> None:
    """Raise what is told of a folder that is there: nothing that cannot be read is empty."""
    if exc.errno not in MISSING_ERRNOS:
        raise exc


def _temporary_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    try:
        names = os.listdir(folder / "tmp")
    except OSError:  # none, or another user's
        return
    for name in names:
        path = str(folder / "tmp" / name)
        if _TEMPORARY.fullmatch(name) and (status := _status(path)) is not None:
            yield path, status


def _last_use(status: os.stat_result) -> float:
    return max(status.st_atime, status.st_mtime)


def _status(path: str) -> os.stat_result | None:
    """Return the status of a file; None where there is no file, or something else stands."""
    try:
        file = stat_file(path)
    except NotAFileError:
        return None
    return None if file is None else file.status
