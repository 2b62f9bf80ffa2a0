"""Results of units as builds store them, but made without a compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from hatch_cubin.cache import exchange
from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import Record
from hatch_cubin.remote.packs import PackedResult


def item(name: str, size: int = 100) -> PackedResult:
    """Return the result of a unit: PTX of *size* bytes, with a kernel `k`."""
    key = hashlib.sha256(name.encode()).digest()
    data = f"// {name}: k\n".encode().ljust(size, b".")
    record = Record(key.hex(), hashlib.sha256(data).hexdigest(), len(data), {"k": "k"}, (), {})
    return PackedResult(key, record.encode(), data)


def folder_with(folder: Path, items: Iterable[PackedResult]) -> Cache:
    """Return a cache with these results in its folder."""
    for each in items:
        exchange.import_result(folder, *each)
    return Cache(folder, None, no_warning)


def no_warning(text: str) -> None:
    raise AssertionError(text)
