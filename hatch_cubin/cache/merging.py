"""Merge cache folders: copy entries from one folder to another, if the entries match their cache records."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..common import file_access
from . import exchange
from .audit import Finding, audit
from .entries import Cache
from .records import Record, split_signature


class MergeResult(NamedTuple):
    """The number of entries that a merge copied from a folder, and the problems with files of this folder."""

    entries: int  # entries that were copied
    there: int  # the number of entries that the cache already had
    bytes: int  # the size of the copied entries and their cache records
    found: list[Finding]  # problems with files, which were not copied because of the problems


def merge(cache: Cache, folder: Path) -> MergeResult:
    """Copy from *folder* the entries and signatures that *cache* does not contain."""
    sizes: list[int] = []
    there = 0

    def take(record: Record, written: bytes, data: bytes) -> None:
        nonlocal there
        key = bytes.fromhex(record.key)
        if cache.get(key) is not None and not _adds_only_a_signature(cache, key, written):
            there += 1
        else:
            cache.import_result(key, written, data)
            sizes.append(len(written) + len(data))

    found = audit(folder, take).found
    return MergeResult(len(sizes), there, sum(sizes), found)


def _adds_only_a_signature(cache: Cache, key: bytes, written: bytes) -> bool:
    """Return whether the record *written* differs from the record in *cache* only by an added signature."""
    ours = cache.attempt(partial(exchange.read_entry, cache.folder, key), None)
    return ours is not None and ours[0] == split_signature(written)[0] != written


def why_not_mergeable(cache: Path, folder: Path) -> str | None:
    """Return the reason why *folder* cannot be merged into *cache*; None if a merge is possible."""
    try:
        mode = file_access.status_of(folder).st_mode
    except OSError as exc:
        return f"is not a cache folder: {exc.strerror}"
    if not os.path.isdir(folder):
        return f"is not a cache folder: it {file_access.kind(mode)}"
    if os.path.realpath(folder) == os.path.realpath(cache):
        return "is the cache's own folder, which cannot be merged into itself"
    if not os.path.isdir(folder / "entries"):
        return "is not a cache folder: it has no folder 'entries'"
    return None
