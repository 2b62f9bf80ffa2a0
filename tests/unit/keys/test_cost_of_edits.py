"""What an edit costs: a byte of a header changes the units that can see it, and where it all lies none.

This asks whole plans and builds: a key holds only where all rooms below the pipeline agree.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import platformdirs
import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import tasks
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.headers.search_path import toolkit_roots
from hatch_cubin.keys import jobs as jobs_module
from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.project.project import read_sources
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, install_wheel, make_project

pytestmark = pytest.mark.nvrtc

WHEEL = {
    "tiles/include/tiles/tile.hpp": '#pragma once\n#include "detail/inner.hpp"\n',
    "tiles/include/tiles/other.hpp": "#pragma once\n#include <tiles/detail/inner.hpp>\n",
    "tiles/include/tiles/detail/inner.hpp": """\
#pragma once
#ifdef __CUDA_ARCH__
__device__ inline int checked(int x) { assert(x > 0); return x; }
#endif
""",
    "tiles/include/tiles/unused.hpp": "",
}
FILES = {
    "plain.cu": SAXPY,
    "grid.cu": '#include <tiles/other.hpp>\nextern "C" __global__ void grid(int *x) { *x = checked(*x); }\n',
    "half.cu": """\
#include <cuda_fp16.h>
#include <shared/config.cuh>
extern "C" __global__ void halve(__half *x) { *x = __hmul(*x, __float2half(1.0f / FACTOR)); }
""",
    "reduce.cu": """\
#include "parts/sum.cuh"
#include <tiles/tile.hpp>
extern "C" __global__ void reduce(int *x) {
  cooperative_groups::this_thread_block().sync();
  *x = checked(sum(x));
}
""",
    "parts/sum.cuh": """\
#pragma once
#include "block.cuh"
#if FACTOR > 1000
#include "rare.cuh"
#endif
__device__ inline int sum(int *x) { return block_sum(x[threadIdx.x]) * FACTOR; }
""",
    "parts/block.cuh": """\
#pragma once
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
#include <shared/config.cuh>
__device__ inline int block_sum(int x) {
  using Reduce = cub::BlockReduce<int, 128>;
  __shared__ typename Reduce::TempStorage storage;
  return Reduce(storage).Sum(x);
}
""",
    "parts/rare.cuh": "",
    "parts/unused.cuh": "",
    "readme.md": "",
    "../include/shared/config.cuh": '#pragma once\n#include "../factor.h"\n',
    "../include/factor.h": "#define FACTOR 2\n",
    "../include/unused.h": "",
}
OPTIONS = """\
archs = ["sm_90"]
include-dirs = ["include"]
header-packages = ["tiles"]
"""
UNITS = {"grid", "half", "plain", "reduce"}

# Every header of the project and of the wheel: the units that can see it.
SEEN_BY: Mapping[str, set[str]] = {
    "project/demo/parts/sum.cuh": {"reduce"},
    "project/demo/parts/block.cuh": {"reduce"},
    "project/demo/parts/rare.cuh": {"reduce"},  # a conditional is followed whatever it says
    "project/demo/parts/unused.cuh": set(),
    "project/demo/readme.md": set(),
    "project/include/shared/config.cuh": {"half", "reduce"},
    "project/include/factor.h": {"half", "reduce"},
    "project/include/unused.h": set(),
    "tiles/tiles/include/tiles/tile.hpp": {"reduce"},
    "tiles/tiles/include/tiles/other.hpp": {"grid"},
    "tiles/tiles/include/tiles/detail/inner.hpp": {"grid", "reduce"},
    "tiles/tiles/include/tiles/unused.hpp": set(),
}


@dataclasses.dataclass(frozen=True)
class TableLocation:
    """A project in a folder, header wheels in another, the toolkit's headers in a third."""

    root: Path
    site: Path

    def path(self, logical: str) -> Path:
        owner, _slash, path = logical.partition("/")
        return (self.root if owner == "project" else self.site) / path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableLocation:
    return _enter(tmp_path, monkeypatch)


def _enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TableLocation:
    """Make a fresh environment in *folder* the one of this process."""
    found = TableLocation(folder / "project", folder / "site")
    install_wheel(found.site, "tiles", WHEEL)
    monkeypatch.syspath_prepend(str(found.site))
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_args, **_options: str(folder / "home"))
    return found


@pytest.fixture(scope="module")
def toolkit() -> Toolkit:
    return Toolkit(None)


def keys(place: TableLocation, toolkit: Toolkit) -> dict[str, tuple[bytes, Mapping[str, str]]]:
    """Return each unit's key and the headers in it."""
    project = make_project(place.root, {}, OPTIONS)
    jobs = make_jobs(project, read_sources(project), toolkit)
    return {job.unit.module.name: (job.keys.key, job.closure.files) for job in jobs}


def changed_by_a_byte(
    path: Path, place: TableLocation, toolkit: Toolkit, before: Mapping[str, object]
) -> set[str]:
    """Return the units with other keys while one byte more is in a file."""
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    after = keys(place, toolkit)
    path.write_bytes(content)
    return {name for name in UNITS if before[name] != after[name][0]}


def only_keys(found: Mapping[str, tuple[bytes, object]]) -> dict[str, bytes]:
    return {name: key for name, (key, headers_module) in found.items()}


def test_a_byte_of_a_header_changes_exactly_the_units_that_can_see_it(
    place: TableLocation, toolkit: Toolkit
) -> None:
    make_project(place.root, FILES, OPTIONS)
    before = only_keys(keys(place, toolkit))
    assert before.keys() == UNITS
    found = {logical: changed_by_a_byte(place.path(logical), place, toolkit, before) for logical in SEEN_BY}
    assert found == SEEN_BY
    assert only_keys(keys(place, toolkit)) == before


def copy_toolkit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the toolkit's headers be copies of theirs, below *folder* by their logical names."""
    real = toolkit_roots

    def copied(toolkit: Toolkit, *, system: bool) -> list[SearchFolder]:
        roots = real(toolkit, system=system)
        for root in roots:
            if not (folder / root.logical).exists():  # a folder that lies in another is there already
                shutil.copytree(root.path, folder / root.logical)
        return [root._replace(path=folder / root.logical) for root in roots]

    monkeypatch.setattr(jobs_module, "toolkit_roots", copied)


def test_a_byte_of_a_toolkits_header_changes_the_units_whose_closure_has_it(
    tmp_path: Path, place: TableLocation, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "toolkit"
    copy_toolkit(copies, monkeypatch)
    make_project(place.root, FILES, OPTIONS)
    before = keys(place, toolkit)
    headers = {
        name: {each for each in found if (copies / each).is_file()} for name, (_, found) in before.items()
    }
    assert [name for name in sorted(headers) if headers[name]] == ["half", "reduce"]
    everything = sorted(headers["half"] | headers["reduce"])
    unseen = next(path for path in copies.rglob("*.cuh") if str(path.relative_to(copies)) not in everything)
    sample = [*everything[:: len(everything) // 5], str(unseen.relative_to(copies))]
    seen_by = {path: {name for name in headers if path in headers[name]} for path in sample}
    assert {len(units) for units in seen_by.values()} >= {0, 1}
    assert {
        path: changed_by_a_byte(copies / path, place, toolkit, only_keys(before)) for path in sample
    } == seen_by


def build(place: TableLocation, options: str, cache: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the files of a bundle, and how many units were found and compiled."""
    report = place.root / "report.json"
    environ = {"HATCH_CUBIN_CACHE_DIR": str(cache), "HATCH_CUBIN_REPORT": str(report)}
    bundle = pipeline.build(make_project(place.root, FILES, OPTIONS + options, **environ))
    counted = json.loads(report.read_text("utf-8"))
    return bundle, {name: counted[name] for name in ("hits", "compiled")}


def test_another_folder_and_another_environment_hit_for_every_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    for name in ("here", "the re/ünd"):
        with monkeypatch.context() as patched:
            place = _enter(tmp_path / name, patched)
            copy_toolkit(tmp_path / name / "toolkit", patched)
            built.append(build(place, "", tmp_path / "cache"))
    assert [counts for _bundle, counts in built] == [
        {"hits": 0, "compiled": 4},
        {"hits": 4, "compiled": 0},
    ]
    assert built[0][0] == built[1][0]


@pytest.mark.linux
@pytest.mark.parametrize("option", ["lineinfo", "debug"])
@pytest.mark.parametrize("copied", [tasks._FIRST_WITHOUT_TIMES, (99, 0)], ids=["as it is", "copied"])
def test_what_shows_lines_and_files_shows_no_folder_and_no_time_of_a_build_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, copied: tuple[int, int]
) -> None:
    bundles = []
    for name in ("here", "the re/ünd"):
        with monkeypatch.context() as patched:
            patched.setattr(tasks, "_FIRST_WITHOUT_TIMES", copied)
            place = _enter(tmp_path / name, patched)
            copy_toolkit(tmp_path / name / "toolkit", patched)
            for header in place.site.rglob("*.hpp"):
                os.utime(header, (86400 * len(name),) * 2)
            options = f'sources = ["demo/grid.cu", "demo/half.cu"]\noptions = {{ {option} = true }}\n'
            bundles.append(build(place, options, tmp_path / name / "cache")[0])
    assert bundles[0] == bundles[1]
    assert b"inner.hpp" in bundles[0]["grid.sm_90.cubin"]
    assert not [name for name, data in bundles[0].items() if os.fsencode(tmp_path) in data]
