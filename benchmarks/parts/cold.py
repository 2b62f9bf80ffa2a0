"""Compile 64 small kernels for four archs from nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from commands import CORES, bake_cold, cmake, cuda_core, nvcc_each, nvrtc
from measuring import Cost, Goal, Row, in_turn
from projects import ARCHS, small_project, tools


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    count = 8 if quick else 64
    what = f"cold bake, {count} small kernels × {len(ARCHS)} archs"
    root = small_project(folder / "small", count)
    ours, single, core = in_turn(
        lambda: bake_cold(root), lambda: nvrtc(root, "threads", 1), lambda: _core(root), quick=quick
    )
    limit = single.wall / CORES
    yield Row(what, f"NVRTC in one thread ÷ {CORES} cores", ours.wall, limit, Goal(1.15, 0.6))
    yield Row(what, f"cuda.core in a loop, {CORES} threads", ours.wall, core.wall)
    sources = [f"bench/small_{number}.cu" for number in range(count)]
    nvcc = next((nvcc_each(root, [path], sources).wall for path in tools("nvcc")), None)
    yield Row(what, f"nvcc -cubin for each unit, {CORES} at once", ours.wall, nvcc, Goal(0.2), peer="nvcc")
    made = cmake(root, folder / "cmake")
    against = "CMake and Ninja, the same archs, configured before"
    peer = "CMake and Ninja"
    yield Row(what, against, ours.wall, made.wall if made else None, Goal(0.2), peer=peer)


def _core(root: Path) -> Cost:
    cache = root.with_name("core-cache")
    shutil.rmtree(cache, ignore_errors=True)
    return cuda_core(root, cache)
