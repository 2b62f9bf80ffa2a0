"""How a cold bake grows with cores and a warm one with headers; `warm` has how it grows with units."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from commands import CORES, bake, bake_cold, build, build_locked, forget, lock, nvrtc
from measuring import Cost, Goal, Row, environment, in_turn, line
from projects import ARCHS, deep_project, headers_project, small_project, toolkit_project

_ALONE = """
import resource, sys
from hatch_cubin.cli.main import main
sys.argv[1:] = ["bake"]
code = main()
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
sys.exit(code)
"""
_PAPER = (2, 64)  # the first of them to see how far off the paper is


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    yield from _cores(folder, quick=quick)
    yield from _headers(folder, quick=quick)
    yield from _different(folder, quick=quick)
    yield from _locked(folder, quick=quick)


def _cores(folder: Path, *, quick: bool) -> Iterator[Row]:
    kernels = 8 if quick else 64
    few, root = (small_project(folder / f"cores-{count}", count) for count in (kernels // 8, kernels))
    one, two, single = in_turn(
        lambda: bake_cold(root, 1), lambda: bake_cold(root, 2), lambda: nvrtc(root, "threads", 1), quick=quick
    )
    units = kernels * len(ARCHS)
    what, goal = f"cold bake, {units} units", Goal(1.15, 0.6)
    yield Row(f"{what}, jobs = 1", "NVRTC in one thread", one.wall, single.wall, goal)
    yield Row(f"{what}, jobs = 2", "the same ÷ 2", two.wall, single.wall / 2, goal if CORES > 1 else None)
    own = in_turn(lambda: _without_compilers(few), lambda: _without_compilers(root), quick=quick)
    fixed, each, _off = line([(units / 8, own[0].wall), (units, own[1].wall)])
    yield Row(f"{what}: processor without the compilers, fixed", "", fixed, None)
    yield Row(f"{what}: the same, each unit", "", each * 1e3, None, unit="ms")
    for jobs in _PAPER:
        paper = fixed + max(units * each, single.wall / jobs)
        yield Row(f"{what}, jobs = {jobs}, on paper", f"the same ÷ {jobs}", paper, single.wall / jobs, goal)


def _without_compilers(root: Path) -> Cost:
    """Return the processor time of the first process of a cold bake: more cores do not share it."""
    forget(root)
    command = [sys.executable, "-c", _ALONE]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=True)
    return Cost(float(done.stdout.split()[-1]))


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


def _different(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Yield what headers take that lead to others for each source, each into the depths of the toolkit."""
    few, many = (4, 8) if quick else (64, 512)
    whole, alike = deep_project(folder / "deep", few), small_project(folder / "alike", few)
    ends = [deep_project(folder / f"deep-{count}", count, ARCHS[:2]) for count in (few, many)]
    for root in (whole, alike, *ends):
        bake(root)
    ours, least, *costs = in_turn(
        *(lambda root=root: bake(root) for root in (whole, alike, *ends)), quick=quick
    )
    what = f"warm bake, {few} sources × {len(ARCHS)} archs, each with its own headers of the toolkit"
    yield Row(what, "the same with one header", ours.wall, least.wall, Goal(0, 0.25))
    yield Row(f"{what}: processor", "the same", ours.cpu, least.cpu)
    _fixed, each, _off = line([(few, costs[0].cpu), (many, costs[1].cpu)])
    what = f"the same from {few} to {many} sources × 2 archs: processor, each source"
    yield Row(
        what, "a stat of each of its files", each * 1e3, _stats(ends[1]) / many * 1e3, Goal(0, 0.8), "ms"
    )


def _locked(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Yield what a warm wheel takes with a lock, and how both grow with the sources."""
    counts = (8, 32) if quick else (500, 2000)
    archs = ARCHS[:2]
    with_lock, without = list[Cost](), list[Cost]()
    for count in counts:
        free, locked = (
            small_project(folder / f"{kind}-{count}", count, archs) for kind in ("free", "locked")
        )
        build(free)
        lock(locked)
        build_locked(locked)
        ours, least = in_turn(partial(build_locked, locked), partial(build, free), quick=quick)
        with_lock.append(ours)
        without.append(least)
        what = f"warm wheel with a lock, {count} sources × {len(archs)} archs: processor"
        yield Row(what, "the same without a lock", ours.cpu, least.cpu, Goal(1.25, 0.3))
    what = f"the same from {counts[0]} to {counts[1]} sources: processor, each source"
    ours_ms, least_ms = (
        (costs[1].cpu - costs[0].cpu) / (counts[1] - counts[0]) * 1e3 for costs in (with_lock, without)
    )
    yield Row(what, "the same without a lock", ours_ms, least_ms, Goal(1.25, 0.1), "ms")


def _stats(root: Path) -> float:
    """Return the processor time of looking at each source and header of a project: no build can take less."""
    paths = [os.fspath(path) for path in root.glob("bench/*.cu*")]
    start = time.process_time()
    for path in paths:
        os.stat(path)
    return time.process_time() - start
