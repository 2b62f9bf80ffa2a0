"""Build wheels whose every unit is cached; how that grows with units; edit one header of many."""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from commands import CORES, bake, build, bundle_of, cached_nvcc, cuda_core, in_front, version, wheel_of
from measuring import Cost, Goal, Row, in_turn, line
from projects import ARCHS, plain_project, small_project, write_project

_FIXED, _EACH = 0.5, 0.05e-3  # seconds more than the peer, and more with each unit
_MANY = 1000  # units from which on memory is compared
_AFFECTED = 20  # one source in so many includes the header that is edited


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    points, counts = [], (3, 10, 100) if quick else (3, 25, 250, 2500)
    for kernels in counts:
        units = kernels * len(ARCHS)
        root, plain = _pair(folder / f"units-{units}", kernels)
        ours, theirs = in_turn(lambda: build(root), lambda: build(plain), quick=quick)
        points.append((units, ours.wall - theirs.wall))
        what, against = f"warm build, {units} units", "the same files simply included"
        yield Row(what, against, ours.wall, theirs.wall, Goal(1, _FIXED + _EACH * units))
        if units >= _MANY:
            yield Row(f"{what}: memory", against, ours.memory, theirs.memory, Goal(1.5), "MiB")
            yield Row(f"{what}: processor", against, ours.cpu, theirs.cpu)
    fixed, slope, furthest = line(points)
    what = f"warm build, line through {' '.join(str(units) for units, _more in points)} units"
    yield Row(f"{what}: fixed", "what it takes more than the peer", fixed, None)
    yield Row(f"{what}: each unit", "the same", slope * 1e3, None, unit="ms")
    yield Row(f"{what}: furthest point", "the line", furthest, None)
    few, some = counts[-3:-1]  # a hit takes sccache half a second
    yield from _caches(folder / f"units-{some * len(ARCHS)}", some, ("cuda.core", "ccache"), quick=quick)
    yield from _caches(folder / f"units-{few * len(ARCHS)}", few, ("sccache",), quick=quick)
    yield _edited(folder / f"units-{some * len(ARCHS)}", some, quick=quick)


def _pair(root: Path, kernels: int) -> tuple[Path, Path]:
    """Return a project whose every unit is cached, and one that has the same files and no hook."""
    small_project(root, kernels)
    build(root)
    plain = plain_project(_plain(root), bundle_of(root))
    build(plain)
    if _packed(root) != _packed(plain):
        raise RuntimeError("the wheel of the peer has other files, or packs them in another way")
    return root, plain


def _plain(root: Path) -> Path:
    return root.with_name(f"plain-{root.name}")


def _packed(root: Path) -> set[tuple[str, int, int, int]]:
    with zipfile.ZipFile(wheel_of(root)) as archive:
        return {
            (each.filename, each.CRC, each.compress_size, each.compress_type)
            for each in archive.infolist()
            if each.filename.startswith("bench/")
        }


def _caches(root: Path, kernels: int, names: tuple[str, ...], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of what keeps results too, but is asked for each unit by itself."""
    for name in names:
        units = kernels * len(ARCHS)
        what = f"warm build, {units} units"
        against, ask = _cache(name, root, kernels)
        goal = None if name == "cuda.core" else Goal(0.1)
        if not ask:
            yield Row(what, against, None, None, goal)
            continue
        ask()  # and fill it
        ours, baked, theirs, wheel = in_turn(
            lambda: build(root), lambda: bake(root), ask, lambda: build(_plain(root)), quick=quick
        )
        peer = "" if name == "cuda.core" else name
        both = f"{against}, then the plain wheel"
        yield Row(what, both, ours.wall, theirs.wall + wheel.wall, goal, peer=peer)
        yield Row(f"warm bake, {units} units", against, baked.wall, theirs.wall, goal)


def _cache(name: str, root: Path, kernels: int) -> tuple[str, Callable[[], Cost] | None]:
    folder = root.with_name(f"{root.name}-{name}")
    if name == "cuda.core":
        return f"cuda.core in a loop with its cache, {CORES} threads", lambda: cuda_core(root, folder)
    sources = [f"bench/small_{number}.cu" for number in range(kernels)]
    if not (command := in_front(name)):
        return f"{name} in front of nvcc", None
    against = f"{name} in front of nvcc {version('nvcc', command[1])}, {CORES} at once"
    return against, lambda: cached_nvcc(name, root, sources, folder)


def _edited(root: Path, kernels: int, *, quick: bool) -> Row:
    """Edit the header of one in twenty sources, beside a project that has those sources alone."""
    some = [f"bench/small_{number}.cu" for number in range(0, kernels, _AFFECTED)]
    header = "#pragma once\n__device__ inline float twice(float x) {{ return 2.0f * x; }}\n// {}\n"
    for path in some:
        (root / path).write_text((root / path).read_text().replace("common.cuh", "rare.cuh"))
    alone = {path: (root / path).read_text() for path in some}
    few = write_project(root.with_name("few"), alone, ARCHS)
    turns = itertools.count()

    def edit(project: Path) -> Cost:
        (project / "bench/rare.cuh").write_text(header.format(next(turns)))
        return bake(project)

    mine, limit = in_turn(lambda: edit(root), lambda: edit(few), quick=quick)
    affected, units = len(some) * len(ARCHS), kernels * len(ARCHS)
    against = f"a project of only the {affected} units that it affects"
    return Row(f"one header edited, {units} units", against, mine.wall, limit.wall, Goal(1.2))
