"""Compile 24 variants of kernels with heavy headers for four archs, from nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from commands import CORES, bake_cold, build, bundle_of, nvrtc, script, unpack_headers
from measuring import Cost, Goal, Row
from projects import ARCHS, variants_project

_FASTER = Goal(round(1 / 1.7, 2))


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    for kernel in ("cub",) if quick else ("cub", "cutlass"):
        count = 6 if quick else 24
        root = variants_project(folder / kernel, kernel, count)
        unpack_headers(root)
        what = f"cold bake, {count} variants × {len(ARCHS)} archs of a {kernel.upper()} kernel"
        ours = bake_cold(root)
        threads = script(root, "nvrtc_loop.py", "threads", CORES)
        yield Row(what, f"NVRTC alone, {CORES} threads", ours.wall, threads["seconds"], _FASTER)
        processes: Cost = nvrtc(root, "processes", CORES)
        yield Row(what, f"NVRTC alone, {CORES} processes", ours.wall, processes.wall, _FASTER)
        build(root)
        plain = set(threads["digests"])
        same = [digest in plain for digest in _digests(root)]
        yield Row(f"{what}: identical to NVRTC's", "all", sum(same), len(same), None, "units")


def _digests(root: Path) -> list[str]:
    modules = json.loads(bundle_of(root)["manifest.json"])["modules"]
    return [entry["sha256"] for module in modules.values() for entry in module["entries"]]
