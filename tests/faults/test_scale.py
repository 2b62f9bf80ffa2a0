"""Large projects: time and memory grow as the project does, and no faster."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fault_counts import Figures
from tests.helpers import REPOSITORY, SAXPY, make_project, run

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]

ARCHS = ("80", "86", "89", "90", "90a", "100", "100a", "100f", "120", "120a")
LINE = "// %060d\n__device__ int f%08d(int a) { return a; } /* a comment */\n"

# Plans a project, finds headers and keys, and lays out a bundle as if a compiler had answered each unit.
MEASURED = r"""
import json, re, time
import cuda.core.utils
from pathlib import Path
from hatch_cubin.bundle import layout
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.config.config import parse_config
from hatch_cubin.config.table_location import find_table
from hatch_cubin.toolkit.toolkit import Toolkit

def peak():  # of this process alone, in MiB
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024

table, place, _backend = find_table(Path.cwd())
project = Project(root=Path.cwd(), packages={"demo": "demo"}, config=parse_config(table, place, {}))
toolkit = Toolkit(None)
before, start = peak(), time.process_time()
jobs = make_jobs(project, read_sources(project), toolkit)
built = [layout.BuiltUnit(j.unit, Compiled(j.keys.key * 100, {"saxpy": "saxpy"}), j.keys) for j in jobs]
layout.bundle_files(built, {"data_model": "lp64", "toolchain": {"nvrtc": toolkit.nvrtc}}, 13)
seconds = time.process_time() - start
print(json.dumps({"units": len(jobs), "seconds": round(seconds, 2), "MiB": round(peak() - before)}))
"""


def measure(root: Path, files: Mapping[str, str], options: str) -> dict[str, float]:
    make_project(root, files, options)
    done = run(sys.executable, "-c", MEASURED, cwd=root, PYTHONPATH=str(REPOSITORY))
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_ten_times_the_units_cost_ten_times_the_time_and_little_memory(
    tmp_path: Path, figures: Figures
) -> None:
    found = {}
    for count in (figures.pick(400, 2000), figures.pick(4000, 20_000)):
        values = ", ".join(map(str, range(count // len(ARCHS))))
        options = f"archs = {[f'sm_{arch}' for arch in ARCHS]}\n[[tool.hatch.build.hooks.cubin.source]]\n"
        options += f'path = "demo/k.cu"\nvariants = {{ N = [{values}] }}\n'
        files = {"k.cu": '#include "a.h"\n' + SAXPY, "a.h": ""}
        found[count] = measure(tmp_path / str(count), files, options)
    few, many = found.values()
    figures.tell(**{f"{name}_of_{count}_units": one[name] for count, one in found.items() for name in one})
    assert [one["units"] for one in found.values()] == [*found]
    assert many["seconds"] < 20 * few["seconds"] + 0.2
    assert many["MiB"] < 64 + many["units"] * 0.02


def test_ten_times_the_source_costs_ten_times_the_time_and_memory(tmp_path: Path, figures: Figures) -> None:
    found = {}
    for size in (figures.pick(1, 6), figures.pick(10, 60)):  # 64 MiB of source are the limit
        text = "".join(LINE % (number, number) for number in range((size << 20) // 120)) + SAXPY
        found[size] = measure(tmp_path / str(size), {"k.cu": text}, 'archs = ["sm_90"]\n')
    small, large = found.values()
    figures.tell(**{f"{name}_of_{size}_MiB": one[name] for size, one in found.items() for name in one})
    assert large["seconds"] < 20 * small["seconds"] + 0.2
    assert large["MiB"] < 64 + 12 * max(found)
