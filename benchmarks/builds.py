"""What a build costs, beside what others cost: one table, and JSON with `--json FILE`.

    hatch run bench:builds

Cold and warm builds against NVRTC itself, cuda.core, nvcc, CMake and Ninja, ccache and sccache; how both grow
with units, cores and headers; what starting and loading cost; the size of the wheel. Ratios are of this run:
numbers of two runs are not to be compared. A peer that is not installed, or does not work here, leaves its
cell empty. `--only PART` runs one part, `--quick` smaller ones. At the end stands what a user gains, a line
for each peer; `--plot FILE` draws it. NOTES.md has what was seen.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import gains
from commands import CORES, version
from measuring import Row, table
from parts import cold, crew, growth, loading, sizes, starts, store, variants, warm

PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "cold": cold.rows,
    "variants": variants.rows,
    "warm": warm.rows,
    "store": store.rows,
    "growth": growth.rows,
    "crew": crew.rows,
    "starts": starts.rows,
    "loader": loading.rows,
    "sizes": sizes.rows,
}
_PACKAGES = (
    "cuda-core",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cutlass",
    "pyptx",
    "sccache",
    "moto",
    "obstore",
    "hatchling",
)


def machine() -> dict[str, Any]:
    """Return what the numbers depend on: where they were measured, and beside what."""
    facts: dict[str, Any] = {"python": sys.version, "machine": platform.platform(), "cores": CORES}
    facts["load before"] = os.getloadavg()
    for name in _PACKAGES:
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = None
    return {**facts, **{name: version(name) for name in ("nvcc", "cmake", "ninja", "ccache")}}


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; repeatable")
    parser.add_argument("--quick", action="store_true", help="smaller projects, fewer repetitions")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows there")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw what a user gains there, as SVG")
    arguments = parser.parse_args()
    facts, rows = machine(), []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/user"  # of a user who has built nothing yet
        for part in arguments.only or PARTS:
            folder, start = Path(name) / part, time.perf_counter()
            folder.mkdir()
            for row in PARTS[part](folder, quick=arguments.quick):
                print(table([row]).splitlines()[-1], file=sys.stderr, flush=True)
                rows.append(row)
            facts[f"seconds of {part}"] = round(time.perf_counter() - start)
    print(table(rows))
    print("", *gains.lines(rows), sep="\n")
    if arguments.plot:
        arguments.plot.write_text(gains.plot(rows), "utf-8")
    if arguments.json:
        text = json.dumps({**facts, "rows": [row.facts() for row in rows]}, indent=1)
        arguments.json.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
