"""Unite cache folders: whatever their records prove is copied, and nothing is believed."""

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
    """What became of the entries of a folder."""

    entries: int  # that were copied
    there: int  # that were there already
    bytes: int  # of those copied, with their records
    found: list[Finding]  # what is wrong in the folder, and was not copied


def merge(cache: Cache, folder: Path) -> MergeResult:
    """Copy to *cache* what it has not of *folder*, which stays as it is; to what it has, a signature only."""
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
    """Say whether a record is what the cache has of *key* but for a signature, which that lacks."""
    ours = cache.attempt(partial(exchange.read_entry, cache.folder, key), None)
    return ours is not None and ours[0] == split_signature(written)[0] != written


def why_not_mergeable(cache: Path, folder: Path) -> str | None:
    """Say why *folder* cannot be merged into *cache*; None where it can."""
    try:
        mode = file_access.looked_at(folder).st_mode
    except OSError as exc:
        return f"is no cache folder: {exc.strerror}"
    if not os.path.isdir(folder):
        return f"is no cache folder: it {file_access.kind(mode)}"
    if os.path.realpath(folder) == os.path.realpath(cache):
        return "is the cache itself, into which others are merged"
    if not os.path.isdir(folder / "entries"):
        return "is no cache folder: it has no folder 'entries'"
    return None
