"""What the loader costs, beside what others cost: one table, and JSON with `--json FILE`.

    python benchmarks/loader.py

Every number is of this machine and this run: compare within a run. "First" is what a new process waits, "CPU"
what it works of that: they part where others use the machine too. A row of what is not installed (cuda.core,
pyptx) is empty. NOTES.md has what was seen.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hatch_cubin import loader
from hatch_cubin.bundle import layout, loader_files, manifest

SIZE = 8192
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120")
COUNTS = (10, 10_000)
IMPORT, FIND, ALONE, READ, CORE, PYPTX, BARE = (
    *("loader: import", "loader: find", "loader: find, json and hashlib imported", "loader: read"),
    *("cuda.core FileStreamProgramCache.get", "pyptx CubinCache.get", "open, read, sha256"),
)


def make_bundle(folder: Path, count: int) -> None:
    """Write a bundle of *count* modules for seven archs; they share a few files."""
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name in loader_files.needed_by(units=count * len(ARCHS), packed=True, split=False):
        (folder / name).write_bytes(loader_files.read(name))
    modules = {}
    data = [hashlib.shake_256(bytes([number])).digest(SIZE) for number in range(10)]
    for number in range(count):
        name, code = f"module_{number:05}", data[number % len(data)]
        file = f"shared_{number % len(data)}.cubin"
        (folder / file).write_bytes(code)
        uses = {f"k_{name}": {"registers": 32, "shared": 1024, "spills": 0, "stack": 0}}
        entries = [
            {
                "arch": arch,
                "kind": "ptx" if arch.startswith("compute") else "cubin",
                "file": file,
                "size": SIZE,
                "sha256": hashlib.sha256(code).hexdigest(),
                "min_driver": 13000,
                "resources": uses,
            }
            for arch in ARCHS
        ]
        kernels = {f"k_{name}": f"k_{name}"}
        modules[name] = {
            "source": f"src/{name}.cu",
            "variant": {},
            "kernels": kernels,
            "options": {"std": "c++17"},
            "entries": entries,
        }
    header = {"format": loader.FORMAT, "generator": layout.GENERATOR, "toolchain": {"nvrtc": "13.0.88"}}
    index = {f"k_{name}": [name] for name in modules}
    lines = [manifest.module_line(name, module) for name, module in modules.items()]
    (folder / "manifest.json").write_bytes(b"".join(manifest.write_manifest(header, index, lines)))
    compileall.compile_dir(folder.parent, quiet=1)  # as pip does


def in_a_process(code: str, *arguments: str, path: Path, repeat: int = 15) -> list[float]:
    """Run *code* in processes of their own and return the median of each number that it prints."""
    environ = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-S", "-c", code, *arguments]
    printed = [
        [float(number) for number in subprocess.check_output(command, env=environ).split()]
        for _ in range(repeat)
    ]
    return [statistics.median(numbers) for numbers in zip(*printed, strict=True)]


def timed(action: Callable[[], object], number: int = 1000, repeat: int = 9) -> float:
    """Return the best mean CPU time of one call, in milliseconds: every file is in memory by then."""
    means = []
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(number):
            action()
        means.append((time.process_time() - start) / number * 1000)
    return min(means)


CLOCK = "import os, sys, time; start = time.perf_counter(), time.process_time()\n"
TELL = "\nprint((time.perf_counter() - start[0]) * 1000, (time.process_time() - start[1]) * 1000)"
MEMORY = (
    "import sys, json, hashlib\ndef used():\n"
    "    lines = open('/proc/self/status').read().splitlines()\n"
    "    return int(next(line for line in lines if line.startswith('VmRSS')).split()[1])\n"
    "from pkg import _cubins as cubins\nbefore = used()\n"
    "cubins.find(sys.argv[1], cc=(9, 0))\nprint((used() - before) / 1024)"
)


def bench_loader(folder: Path, count: int) -> dict[str, dict[str, float | None]]:
    """Return the loader's rows."""
    make_bundle(folder / "pkg" / "_cubins", count)
    last = f"k_module_{count - 1:05}"
    sys.path.insert(0, str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        del sys.modules[name]
    from pkg import _cubins as cubins  # type: ignore[import-not-found]

    def first(before: str, action: str) -> dict[str, float]:
        wall, cpu = in_a_process(f"{before}\n{CLOCK}{action}{TELL}", last, path=folder)
        return {"first": wall, "cpu": cpu}

    loaded, find = "from pkg import _cubins as cubins", "cubins.find(sys.argv[1], cc=(9, 0))"
    rows: dict[str, dict[str, float | None]] = {
        IMPORT: {**first("", loaded)},
        FIND: {**first(loaded, find), "repeated": timed(lambda: cubins.find(last, cc=(9, 0)))},
        ALONE: {**first(f"import json, hashlib\n{loaded}", find)},
        READ: {
            **first(loaded, find.replace("find", "read")),
            "repeated": timed(lambda: cubins.read(last, cc=(9, 0))),
        },
    }
    if os.path.exists("/proc/self/status"):
        (rows[FIND]["memory"],) = in_a_process(MEMORY, last, path=folder, repeat=3)
    sys.path.remove(str(folder))
    return rows


def bench_bare(folder: Path) -> dict[str, float | None]:
    """Return the row of what nothing that verifies can do without."""
    path = folder / "bare"
    path.write_bytes(hashlib.shake_256(b"").digest(SIZE))

    def action() -> str:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    return {"repeated": timed(action)}


def bench_core(folder: Path, count: int) -> dict[str, float | None]:
    """Return cuda.core's row: its cache on disk with as many entries, nothing verified."""
    try:
        from cuda.core.utils import FileStreamProgramCache
    except ImportError:
        return {}
    data, keys = hashlib.shake_256(b"").digest(SIZE), [number.to_bytes(32, "big") for number in range(count)]
    with FileStreamProgramCache(folder / "core") as cache:
        for key in keys:
            cache[key] = data
        return {"repeated": timed(lambda: cache.get(keys[-1]))}


def bench_pyptx(folder: Path) -> dict[str, float | None]:
    """Return pyptx's row: a new cache, which reads its three files; a second get is a dict's."""
    try:
        from pyptx.cache import CacheEntry, CacheKey, CubinCache  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return {}
    key = CacheKey(fn_id="k", template_kwargs=(), input_shapes=(), arch="sm_90")
    entry = CacheEntry(key=key, ptx_source="", cubin_bytes=hashlib.shake_256(b"").digest(SIZE))
    CubinCache(folder / "pyptx").put(entry)
    cache = CubinCache(folder / "pyptx")

    def from_disk() -> object:
        cache.clear()
        return cache.get(key)

    first = timed(from_disk)
    return {"first": first, "repeated": timed(lambda: cache.get(key))}


def measure_one(folder: Path, count: int) -> dict[str, dict[str, float | None]]:
    """Return every row of one count."""
    rows = bench_loader(folder / "loader", count)
    return {
        **rows,
        CORE: bench_core(folder, count),
        PYPTX: bench_pyptx(folder),
        BARE: bench_bare(folder),
    }


def measure() -> dict[str, Any]:
    """Return every row of every count."""
    results: dict[str, Any] = {}
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as name:
            results[str(count)] = measure_one(Path(name), count)
    return results


def show(results: dict[str, Any]) -> str:
    """Return the table, in milliseconds and MiB; ratios are to the bare read of the same run."""
    titles = ("first ms", "CPU ms", "repeated µs", "ratio", "MiB")
    lines = [f"{'modules':>7}  {'what':<42}" + "".join(f"{title:>13}" for title in titles)]
    for count, rows in results.items():
        bare = rows[BARE]["repeated"]
        for name, row in rows.items():
            repeated = row.get("repeated")
            numbers = (
                *(row.get("first"), row.get("cpu"), repeated and repeated * 1000),
                *(repeated and repeated / bare, row.get("memory")),
            )
            cells = "".join(" " * 13 if number is None else f"{number:>13.2f}" for number in numbers)
            lines.append(f"{count:>7}  {name:<42}{cells}".rstrip())
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers there, in ms and MiB")
    arguments = parser.parse_args()
    results = measure()
    print(show(results))
    if arguments.json:
        arguments.json.write_text(json.dumps({"python": sys.version, "results": results}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
