"""What a build costs, beside what others cost: one table, and JSON with `--json FILE`.

    hatch run bench:builds

Cold and warm builds against NVRTC itself, nvcc, CMake and Ninja, ccache and sccache; what starting costs; the
size of the wheel. Ratios are of this run: numbers of two runs are not to be compared. A peer that is not
installed leaves its cell empty. `--only PART` runs one part, `--quick` smaller ones.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Cost, Row, cost, in_turn, seconds, table
from projects import (
    ARCHS,
    VARIANTS,
    plain_project,
    small_project,
    tool,
    variants_project,
    write_project,
)

COMMAND = (sys.executable, "-m", "hatch_cubin")
BUILD = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
CORES = len(os.sched_getaffinity(0))
_LOOP = Path(__file__).with_name("nvrtc_loop.py")


def _bake(root: Path, *, cold: bool) -> Cost:
    if cold:
        shutil.rmtree(root.with_name(f"{root.name}-cache"), ignore_errors=True)
    return cost([*COMMAND, "bake"], root)


def _nvrtc(root: Path, kind: str, count: int) -> Cost:
    """Compile every unit of a project with nothing around NVRTC, so many at once."""
    command = [sys.executable, str(_LOOP), kind, str(count)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return Cost(float(done.stdout.split()[0]), 0.0, 0.0)


def cold(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Compile 64 small kernels for four archs from nothing."""
    count, repeat = (16, 1) if quick else (64, 3)
    what = f"cold bake, {count} small kernels × {len(ARCHS)} archs"
    root = small_project(folder / "cold", count)
    ours, single = in_turn(repeat, lambda: _bake(root, cold=True), lambda: _nvrtc(root, "threads", 1))
    limit = single.wall / CORES
    yield Row(what, f"NVRTC in one thread ÷ {CORES} cores", ours.wall, limit, "≤ 1.15 × + 0.6 s")
    nvcc = tool("nvcc")
    theirs = nvcc and _nvcc_each(root, [nvcc], count)
    yield Row(what, f"nvcc -cubin for each unit, {CORES} at once", ours.wall, theirs or None, "≤ 0.2 ×")
    yield Row(what, "CMake and Ninja, the same archs", ours.wall, _cmake(root, folder), "≤ 0.2 ×")


def _nvcc_each(root: Path, nvcc: Sequence[str], count: int, environ: dict[str, str] | None = None) -> float:
    """Return the seconds that nvcc takes for each unit, as many at once as there are cores."""
    out = root / "out"
    out.mkdir(exist_ok=True)

    def compile_one(unit: tuple[int, str]) -> None:
        number, arch = unit
        source, target = f"bench/small_{number}.cu", out / f"{number}.{arch}.cubin"
        command = [*nvcc, "-cubin", f"-arch={arch}", "-o", str(target), source]
        subprocess.run(command, cwd=root, env={**os.environ, **(environ or {})}, check=True)

    units = list(itertools.product(range(count), ARCHS))

    def all_of_them() -> object:
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            return list(pool.map(compile_one, units))

    return seconds(all_of_them)


def _cmake(root: Path, folder: Path) -> float | None:
    cmake, ninja, nvcc = tool("cmake"), tool("ninja"), tool("nvcc")
    if not (cmake and ninja and nvcc):
        return None
    build = folder / "cmake"
    shutil.rmtree(build, ignore_errors=True)
    archs = ";".join(f"{arch[3:]}-real" for arch in ARCHS)
    (root / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(bench LANGUAGES CUDA)\n"
        'file(GLOB sources "bench/*.cu")\nadd_library(bench OBJECT ${sources})\n'
    )
    settings = [f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_CUDA_ARCHITECTURES={archs}"]
    settings += [f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_CUDA_COMPILER_WORKS=1"]
    configured = cost([cmake, "-G", "Ninja", "-S", root, "-B", build, *settings], root)
    return configured.wall + cost([ninja, "-C", build, "-j", str(CORES)], root).wall


def variants(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Compile 24 variants of a kernel with heavy headers for four archs."""
    for kernel in ("cub",) if quick else ("cub", "cutlass"):
        root = variants_project(folder / kernel, kernel)
        ours, threads, processes = in_turn(
            1,
            lambda: _bake(root, cold=True),
            lambda: _nvrtc(root, "threads", CORES),
            lambda: _nvrtc(root, "processes", CORES),
        )
        what = f"cold bake, {VARIANTS} variants × {len(ARCHS)} archs of a {kernel.upper()} kernel"
        yield Row(what, f"NVRTC alone, {CORES} threads", ours.wall, threads.wall, "≤ 0.59 ×")
        yield Row(what, f"NVRTC alone, {CORES} processes", ours.wall, processes.wall, "≤ 0.59 ×")


def warm(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Build a wheel whose every unit is cached, beside one that simply includes the finished files."""
    for units in (400,) if quick else (1000, 10_000):
        root = small_project(folder / f"warm-{units}", units // len(ARCHS))
        _bake(root, cold=False)
        cost(BUILD, root)
        plain = plain_project(folder / f"plain-{units}", _bundle_of(root))
        ours, theirs = in_turn(3, lambda: cost(BUILD, root), lambda: cost(BUILD, plain))
        allowed = 0.5 + 0.05e-3 * units
        what = f"warm build, {units} units"
        yield Row(what, "the same files simply included", ours.wall, theirs.wall, f"≤ {allowed:.2f} s more")
        yield Row(f"{what}: memory", "the same", ours.memory, theirs.memory, "≤ 1.5 ×", "MiB")
        yield Row(f"{what}: processor", "the same", ours.cpu, theirs.cpu, "")
        if units <= 1000:
            yield from _wrapped(root, units, ours)
            yield _edited(root, folder, units)


def _bundle_of(root: Path) -> dict[str, bytes]:
    (wheel,) = (root / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {
            name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if "/_cubins/" in name
        }


def _wrapped(root: Path, units: int, ours: Cost) -> Iterator[Row]:
    """Yield the rows of compiler caches in front of nvcc, which is called for each unit all the same."""
    nvcc = tool("nvcc")
    for name, folder in (("ccache", "CCACHE_DIR"), ("sccache", "SCCACHE_DIR")):
        wrapper, theirs = tool(name), None
        if wrapper and nvcc:
            environ = {folder: str(root.with_name(f"{root.name}-{name}"))}
            command = [wrapper, nvcc]
            _nvcc_each(root, command, units // len(ARCHS), environ)
            theirs = _nvcc_each(root, command, units // len(ARCHS), environ)
        if name == "sccache" and wrapper:
            subprocess.run([wrapper, "--stop-server"], capture_output=True, check=False)
        what = f"warm build, {units} units"
        yield Row(what, f"{name} in front of nvcc, all hits", ours.wall, theirs, "≤ 0.1 ×")


def _edited(root: Path, folder: Path, units: int) -> Row:
    """Edit the header of one in twenty sources, beside a project that has those sources alone."""
    some = [f"bench/small_{number}.cu" for number in range(0, units // len(ARCHS), 20)]
    for path in some:
        text = (root / path).read_text().replace("common.cuh", "rare.cuh")
        (root / path).write_text(text)
    header = "#pragma once\n__device__ inline float twice(float x) { return 2.0f * x; }\n"
    (root / "bench/rare.cuh").write_text(header)
    _bake(root, cold=False)
    alone = {path: (root / path).read_text() for path in some}
    few = write_project(folder / "few", alone, ARCHS)

    def edited(number: int) -> str:
        return header + f"// {number}\n"

    counter = itertools.count()

    def ours() -> Cost:
        (root / "bench/rare.cuh").write_text(edited(next(counter)))
        return _bake(root, cold=False)

    def theirs() -> Cost:
        (few / "bench/rare.cuh").write_text(edited(next(counter)))
        return _bake(few, cold=False)

    mine, limit = in_turn(3, ours, theirs)
    against = f"a project of only the {len(some) * len(ARCHS)} units that it affects"
    return Row(f"one header edited, {units} units", against, mine.wall, limit.wall, "≤ 1.2 ×")


def starts(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Start the command line, and the hook where everything is cached."""
    repeat = 5 if quick else 21
    root = small_project(folder / "three", 3)
    wrong = write_project(folder / "wrong", {}, ("sm_9x",))
    helped, bare = in_turn(
        repeat,
        lambda: cost([*COMMAND, "--help"], folder),
        lambda: cost([sys.executable, "-c", "pass"], folder),
    )
    yield Row("hatch-cubin --help", "python -c pass", helped.wall, bare.wall, "≤ 3 ×")
    refused = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], stderr=-3) != 1)"
    command = [sys.executable, "-S", "-c", refused]
    failed, passed = in_turn(
        repeat,
        lambda: cost([*command, *COMMAND, "plan"], wrong),
        lambda: cost([*command, sys.executable, "-c", "raise SystemExit(1)"], wrong),
    )
    extra = passed.wall - bare.wall  # what the process around it takes
    yield Row("a configuration error", "python -c pass", failed.wall - extra, bare.wall, "≤ 3 ×")
    cost(BUILD, root)
    plain = plain_project(folder / "three-plain", _bundle_of(root))
    ours, theirs = in_turn(5 if quick else 9, lambda: cost(BUILD, root), lambda: cost(BUILD, plain))
    what = "hook, 3 kernels, all cached"
    yield Row(what, "the same build without the hook", ours.wall, theirs.wall, "≤ 0.5 s more")


def sizes(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Weigh the wheel of 200 kernels for six archs, beside the cubins deflated one by one."""
    archs = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
    count = 20 if quick else 200
    root = small_project(folder / "sizes", count, archs)
    cost(BUILD, root)
    (wheel,) = (root / "dist").glob("*.whl")
    files = _bundle_of(root)
    cubins = {name: data for name, data in files.items() if name.endswith(".cubin")}
    alone = sum(len(zlib.compress(data, wbits=-15)) for data in cubins.values())
    what = f"wheel of {count} kernels × {len(archs)} archs"
    yield Row(what, "cubins deflated one by one", wheel.stat().st_size / 1024, alone / 1024, "≤ 1 ×", "KiB")
    index = sum(len(zlib.compress(files[name], wbits=-15)) for name in ("manifest.json", "keys.json"))
    yield Row("manifest and keys in it", "the cubins", index / 1024, alone / 1024, "", "KiB")


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    part.__name__: part for part in (cold, variants, warm, starts, sizes)
}


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; repeatable")
    parser.add_argument("--quick", action="store_true", help="smaller projects, fewer repetitions")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for part in arguments.only or PARTS:
            folder = Path(name) / part
            folder.mkdir()
            for row in PARTS[part](folder, quick=arguments.quick):
                print(table([row]).splitlines()[-1], file=sys.stderr, flush=True)
                rows.append(row)
    print(table(rows))
    if arguments.json:
        facts = {"python": sys.version, "machine": platform.platform(), "cores": CORES}
        text = json.dumps({**facts, "rows": [row.facts() for row in rows]}, indent=1)
        arguments.json.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
