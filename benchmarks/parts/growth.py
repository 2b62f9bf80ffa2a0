"""How a cold bake grows with cores and a warm one with headers; `warm` has how it grows with units."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from commands import CORES, bake, bake_cold, forget, nvrtc
from measuring import Goal, Row, environment, in_turn
from projects import ARCHS, headers_project, small_project, toolkit_project

_ALONE = """
import resource, sys
from hatch_cubin._cli import main
sys.argv[1:] = ["bake"]
code = main()
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
sys.exit(code)
"""
_PAPER = 64


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    yield from _cores(folder, quick=quick)
    yield from _headers(folder, quick=quick)


def _cores(folder: Path, *, quick: bool) -> Iterator[Row]:
    kernels = 8 if quick else 64
    root = small_project(folder / "cores", kernels)
    one, two, single = in_turn(
        lambda: bake_cold(root, 1), lambda: bake_cold(root, 2), lambda: nvrtc(root, "threads", 1), quick=quick
    )
    what, goal = f"cold bake, {kernels * len(ARCHS)} units", Goal(1.15, 0.6)
    yield Row(f"{what}, jobs = 1", "NVRTC in one thread", one.wall, single.wall, goal)
    yield Row(f"{what}, jobs = 2", "the same ÷ 2", two.wall, single.wall / 2, goal if CORES > 1 else None)
    serial = max(2 * two.wall - one.wall, own := _own_processor(root))
    yield Row(f"{what}: processor, compilers not counted", "", own, None)
    paper = serial + (one.wall - serial) / _PAPER
    against = f"the same ÷ {_PAPER}"
    yield Row(f"{what}, jobs = {_PAPER}, on paper (see NOTES)", against, paper, single.wall / _PAPER, goal)


def _own_processor(root: Path) -> float:
    """Return the processor time of a cold bake without its compilers': more cores do not share it."""
    forget(root)
    command = [sys.executable, "-c", _ALONE]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _headers(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Yield what headers add to a bake where every unit is cached."""
    counts = (0, 10, 100) if quick else (0, 10, 100, 1000)
    sources = 3
    roots = [headers_project(folder / f"headers-{count}", sources, count) for count in counts]
    toolkit = {"cuda/std/span": "span", "cub/block/block_reduce.cuh": "cub"}
    roots += [toolkit_project(folder / name, sources, header) for header, name in toolkit.items()]
    for root in roots:
        bake(root)
    none, *others = in_turn(*(lambda root=root: bake(root) for root in roots), quick=quick)
    units = sources * len(ARCHS)
    names = [f"{count} headers of the project" for count in counts[1:]] + [
        f"<{header}>" for header in toolkit
    ]
    for name, ours in zip(names, others, strict=True):
        yield Row(f"warm bake, {units} units that include {name}", "none but one", ours.wall, none.wall)
    kernels, count = (10, 10) if quick else (250, 100)
    many = headers_project(folder / "many", kernels, count)
    few = small_project(folder / "few", kernels)
    for root in (many, few):
        bake(root)
    ours, least = in_turn(lambda: bake(many), lambda: bake(few), quick=quick)
    what = f"warm bake, {kernels * len(ARCHS)} units that include the same {count} headers"
    yield Row(what, "none but one", ours.wall, least.wall)
