"""Notes about the last builds with a cache folder: time, project, cache hits and misses, and cache keys.

The notes are in the user's cache folder, not in the project's cache folder, which contains only entries and
cache records. If the notes cannot be read or written, a build continues without notes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from ..common import user_folders
from ..common.digest import file_digest

_FORMAT = 1
_MAX_BUILDS = 10  # the maximum number of builds in the notes of one cache folder
_MAX_CACHES = 50  # the maximum number of cache folders that have notes
_FIELDS = {"time": str, "project": str, "hits": int, "misses": int, "fetched": int, "seconds": float}
# Values for the fields that are missing in notes of earlier versions of hatch-cubin.
_DEFAULTS = {"fetched": 0, "seconds": 0.0}


class Tier(TypedDict):
    """The number of cache hits in the last builds, and the compile time that these hits avoided.

    The hits come either from the local cache folder or from the remote store.
    """

    hits: int
    rate: float  # the number of cache hits divided by the number of all units
    saved_s: float  # an estimate: the number of cache hits times the average duration of a compile


class _CacheNotes(NamedTuple):
    """The notes about the last builds with one cache folder."""

    builds: list[dict[str, Any]]
    keys: set[bytes]


def note(cache: Path, project: Path, counts: Mapping[str, float], keys: Iterable[bytes]) -> None:
    """Add a build to the notes about a cache folder: its cache hits and misses, and the keys of all units.

    *counts* contains the numbers of cache hits (`hits`) and cache misses (`misses`), and the duration of
    compiling the cache misses (`seconds`). `fetched` is the number of cache hits that came from a remote
    store.
    """
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    latest = {"time": now, "project": str(project), **counts}
    with contextlib.suppress(OSError, RuntimeError):
        path = _path(cache)
        known = {
            "format": _FORMAT,
            "builds": [latest, *builds(cache)][:_MAX_BUILDS],
            "keys": sorted(key.hex() for key in keys),
        }
        user_folders.write_retained(path, json.dumps(known).encode(), _MAX_CACHES)


def builds(cache: Path) -> list[dict[str, Any]]:
    """Return the notes about the last builds with a cache folder, beginning with the latest build."""
    return [] if (found := _read(cache)) is None else found.builds


def tiers(builds: Sequence[Mapping[str, Any]]) -> dict[str, Tier]:
    """Return the cache hits from the local cache folder and from the shared store, and the saved time."""
    hits, misses, fetched = (sum(build[name] for build in builds) for name in ("hits", "misses", "fetched"))
    each_s = sum(build["seconds"] for build in builds) / max(misses, 1)
    return {
        name: {"hits": count, "rate": count / max(hits + misses, 1), "saved_s": round(count * each_s, 3)}
        for name, count in (("local", hits - fetched), ("remote", fetched))
    }


def keys(cache: Path) -> set[bytes] | None:
    """Return the cache keys that the last build with a cache folder used; None if there are no notes."""
    return None if (found := _read(cache)) is None else found.keys


def _read(cache: Path) -> _CacheNotes | None:
    try:
        with user_folders.open_retained(_path(cache)) as file:
            found = json.load(file)
        if found["format"] != _FORMAT:
            return None
        return _CacheNotes(
            [
                {name: kind({**_DEFAULTS, **build}[name]) for name, kind in _FIELDS.items()}
                for build in found["builds"]
            ],
            {bytes.fromhex(key) for key in found["keys"]},
        )
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, OverflowError):
        return None


def _path(cache: Path) -> Path:
    name = file_digest(os.fsencode(os.path.realpath(cache)))
    return user_folders.own_folder() / "builds" / f"{name[:32]}.json"
