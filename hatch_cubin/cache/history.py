"""Notes about the last builds with a cache: time, project, hits and misses, and the keys that they used.

They are in the user's own folder, as the cache folder has only entries. If notes cannot be read or written,
builds go on without them.
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
_MAX_BUILDS = 10  # builds of each cache that are remembered
_MAX_CACHES = 50  # caches that are remembered
_FIELDS = {"time": str, "project": str, "hits": int, "misses": int, "fetched": int, "seconds": float}
_DEFAULTS = {"fetched": 0, "seconds": 0.0}  # for fields that older notes do not have


class Tier(TypedDict):
    """How much a part of the cache saved in the last builds."""

    hits: int
    rate: float  # of all units
    saved_s: float  # if these units would have compiled as fast as the others


class _CacheNotes(NamedTuple):
    """The notes about one cache."""

    builds: list[dict[str, Any]]
    keys: set[bytes]


def note(cache: Path, project: Path, counts: Mapping[str, float], keys: Iterable[bytes]) -> None:
    """Add a build to the notes: how many units were hits, and the keys of all units with a result.

    *counts* has `hits`, `fetched` (some of the hits), `misses`, and `seconds` (of compiling the misses).
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
    """Return the last builds with a cache, the latest first."""
    return [] if (found := _read(cache)) is None else found.builds


def tiers(builds: Sequence[Mapping[str, Any]]) -> dict[str, Tier]:
    """Return how much the local folder and the shared store saved. Pure."""
    hits, misses, fetched = (sum(build[name] for build in builds) for name in ("hits", "misses", "fetched"))
    each_s = sum(build["seconds"] for build in builds) / max(misses, 1)
    return {
        name: {"hits": count, "rate": count / max(hits + misses, 1), "saved_s": round(count * each_s, 3)}
        for name, count in (("local", hits - fetched), ("remote", fetched))
    }


def keys(cache: Path) -> set[bytes] | None:
    """Return the keys that the last build with a cache used; None if there are no notes."""
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
