"""What the loader costs; `loader.py` alone has more of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import loader
from commands import build, bundle_of
from measuring import Cost, Goal, Row, cost, in_turn
from projects import alone, write_project

_COMPILE = """
import sys
from cuda.core import Program, ProgramOptions
source = open("bench/small_3.cu").read()
assert Program(source, "c++", ProgramOptions(arch="sm_90")).compile("cubin").code
"""
_READ = "from bench import _cubins; assert _cubins.read('small_3', cc=(9, 0))"


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    for count in loader.COUNTS[: 1 if quick else None]:
        yield from _rows(loader.measure_one(folder / str(count), count), count)
    yield _first(folder / "first", quick=quick)
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


def _first(folder: Path, *, quick: bool) -> Row:
    """Get one kernel's bytes in a new process: what comes after them, a GPU does in the same way."""
    root = write_project(folder, {"bench/small_3.cu": alone(3)}, ("sm_90",))
    build(root)
    for name, data in bundle_of(root).items():
        (root / "bench/_cubins").mkdir(exist_ok=True)
        (root / "bench/_cubins" / name).write_bytes(data)

    def python(code: str) -> Cost:
        return cost([sys.executable, "-c", code], root)

    ours, theirs = in_turn(lambda: python(_READ), lambda: python(_COMPILE), quick=quick)
    what, against = "a kernel's bytes, in a new process", "cuda.core compiles it"
    return Row(what, against, ours.wall, theirs.wall, peer="compiling at run time")


def _micro(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * 1000
