"""What the loader costs; `loader.py` alone has more of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import loader
from measuring import Goal, Row


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    for count in loader.COUNTS[: 1 if quick else None]:
        yield from _rows(loader.measure_one(folder / str(count), count), count)
    yield Row("loader: first kernel on a GPU", "needs a GPU", None, None)


def _rows(found: dict[str, dict[str, float | None]], count: int) -> Iterator[Row]:
    what = f"loader, {count} modules"
    bare = found[loader.BARE]["repeated"]
    core, pyptx = (found[name].get("repeated") for name in (loader.CORE, loader.PYPTX))
    imported, find, read = found[loader.IMPORT], found[loader.FIND], found[loader.READ]
    yield Row(f"{what}: import, processor", "", imported["cpu"], None, Goal(0, 5), "ms")
    yield Row(f"{what}: first find, processor", "", find["cpu"], None, Goal(0, 10), "ms")
    for name, theirs, goal in (
        ("open, read, SHA-256", bare, Goal(1.5)),
        ("cuda.core FileStreamProgramCache.get, which verifies nothing", core, None),
        ("pyptx CubinCache.get, a dict's", pyptx, None),
    ):
        yield Row(f"{what}: repeated read", name, _micro(read["repeated"]), _micro(theirs), goal, "µs")


def _micro(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * 1000
