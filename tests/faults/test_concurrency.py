"""Any number of builds on one cache folder, beside those who clear and trim it; two builds of one bundle.

Every build here is a process of its own. With --long the numbers are those of a release.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from hatch_cubin.bundle import layout
from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.entries import Cache
from tests.fault_counts import Figures
from tests.helpers import load_bundle, pyproject, write_tree

from . import builders

pytest.importorskip("cuda.core")
pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("unmeasured")]


# --- whole builds -------------------------------------------------------------------------------

ARCHS = [f"sm_{number}" for number in (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)]


def kernels(count: int) -> dict[str, str]:
    code = 'extern "C" __global__ void k{0}(float *x) {{ x[threadIdx.x] += {0}; }}\n'
    return {f"demo/k{number}.cu": code.format(number) for number in range(count)}


@pytest.mark.nvrtc
def test_builds_of_one_project_share_the_work_and_give_one_wheel(tmp_path: Path, figures: Figures) -> None:
    builds, sources, archs = figures.pick(4, 32), figures.pick(6, 40), ARCHS[: figures.pick(4, 12)]
    root = write_tree(
        tmp_path / "project",
        {
            "pyproject.toml": pyproject(f"archs = {json.dumps(archs)}\n"),
            "demo/__init__.py": "",
            **kernels(sources),
        },
    )
    started = time.monotonic()
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "wheel",
                "-d",
                str(tmp_path / f"dist{number}"),
            ],
            cwd=root,
            env={**os.environ, "HATCH_CUBIN_REPORT": str(tmp_path / f"report{number}.json")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(builds)
    ]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * builds, "\n".join(said)
    assert [line for text in said for line in text.splitlines() if "warning" in line] == []
    wheels = {next((tmp_path / f"dist{number}").iterdir()).read_bytes() for number in range(builds)}
    compiled = Counter(
        (unit["module"], unit["arch"])
        for number in range(builds)
        for unit in json.loads((tmp_path / f"report{number}.json").read_text())["units"]
        if unit["state"] == "compiled"
    )
    figures.tell(
        builds=builds,
        units=len(compiled),
        compiles=compiled.total(),
        most_of_a_unit=max(compiled.values()),
        wheels=len(wheels),
        seconds=round(time.monotonic() - started),
    )
    assert (len(compiled), len(wheels)) == (sources * len(archs), 1)
    assert max(compiled.values()) <= 2
    folder = Path(os.environ["HATCH_CUBIN_CACHE_DIR"])
    assert housekeeping.stats(folder).entries == sources * len(archs)
    assert sorted(os.listdir(folder)) == ["entries", "tmp"]


# --- a stub of a build ----------------------------------------------------------------------------


def run_all(*processes: BaseProcess) -> None:
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def total(logs: list[Path]) -> Counter[str]:
    figures: Counter[str] = Counter()
    for log in logs:
        figures.update({name: count for name, count in json.loads(log.read_text()).items() if name != "said"})
    return figures


def test_clearing_and_trimming_beside_builds_reaches_none_of_them(tmp_path: Path, figures: Figures) -> None:
    """Those who clear and trim end only when each has removed something."""
    folder, seconds = tmp_path / "cache", figures.pick(3, 60)
    logs = [tmp_path / f"log{number}" for number in range(10)]
    run_all(
        *(
            builders.start(builders.build_again_and_again, folder, 40, None, seconds, log, *logs[:2])
            for log in logs[2:]
        ),
        builders.start(builders.clear_again_and_again, folder, seconds, logs[0]),
        builders.start(builders.trim_again_and_again, folder, seconds, logs[1]),
    )
    built = total(logs[2:])
    figures.tell(**built, clears=total(logs[:1])["clears"], trims=total(logs[1:2])["trims"])
    assert (built["wrong"], built["damaged"], built["warnings"]) == (0, 0, 0)


def test_a_cap_is_kept_by_many_and_a_large_entry_evicts_no_other(tmp_path: Path, figures: Figures) -> None:
    folder, seconds = tmp_path / "cache", figures.pick(3, 60)
    with Cache(folder, None, pytest.fail) as cache:
        builders.take_all(cache, builders.keys(100), lambda _counts: None)
    whole = housekeeping.stats(folder).bytes
    cap = whole // 10
    large = hashlib.sha256(b"large").digest()
    logs = [tmp_path / f"log{number}" for number in range(16)]
    run_all(*(builders.start(builders.build_again_and_again, folder, 100, cap, seconds, log) for log in logs))
    with Cache(folder, cap, pytest.fail) as cache:
        cache.put(large, builders.result_of(large, 2 * cap), {})
    left = housekeeping.stats(folder)
    figures.tell(**total(logs), cap=cap, left=left.bytes, largest=2 * cap, entries=left.entries)
    assert (total(logs)["wrong"], total(logs)["warnings"]) == (0, 0)
    others = left.bytes - sum(record.size for record in housekeeping.records(folder) if record.size > cap)
    assert 0.5 * cap < others <= cap + 1000  # its record is an entry's as well
    with Cache(folder, None, pytest.fail) as cache:
        assert cache.get(large) == builders.result_of(large, 2 * cap)


# --- one bundle, two builds -----------------------------------------------------------------------


@pytest.fixture
def fighting(tmp_path: Path) -> Iterator[Path]:
    """Return a bundle's folder which two builds write without end, each its own version."""
    folder, end = tmp_path / "demo" / "_cubins", tmp_path / "end"
    layout.write(builders.editable(b"1"), folder)
    builds = [
        builders.start(builders.write_again_and_again, folder, version, str(end))
        for version in builders.VERSIONS
    ]
    yield folder
    end.touch()
    run_all(*builds)
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert held in [builders.editable(version) for version in builders.VERSIONS]


def test_a_reader_beside_two_builds_meets_one_of_their_bundles(
    tmp_path: Path, fighting: Path, figures: Figures
) -> None:
    reads, seen = figures.pick(100, 1000), Counter[str]()
    for _ in range(reads):
        cubins = load_bundle(tmp_path / "nothing", {})
        cubins._HERE = str(fighting)
        cubins._compared.append(True)
        for name in builders.NAMES:
            try:
                data = cubins.read(name, cc=(9, 0)).decode()
            except cubins.CubinDamagedError:
                data = "torn"
            seen[data.removeprefix(name)] += 1
    figures.tell(reads=reads, of_one=seen["1"], of_the_other=seen["2"], torn=seen["torn"])
    assert seen.keys() == {"1", "2"}
