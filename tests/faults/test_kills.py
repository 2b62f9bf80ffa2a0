"""Builds that are killed or interrupted, at any moment, leave nothing that is wrong and little that is left.

With --long the numbers are those of a release.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import decode, entry_path, record_key
from tests.fault_counts import Figures
from tests.helpers import SAXPY, pyproject, run, wheel_files, write_tree

from . import builders

pytest.importorskip("cuda.core")
pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("unmeasured")]

CHANCE = random.Random(0)  # noqa: S311 - a test wants the same moments each time
CAP = builders.LARGE * 50_000  # half of what is stored
HATCHLING = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")


# --- killed in the middle of writing ----------------------------------------------------------------


def start_writer(folder: Path) -> BaseProcess:
    """Start a build with a stub of a compiler; it is at work when this returns."""
    heard, spoken = builders.pipe()
    process = builders.start(builders.build_until_killed, folder, CAP, spoken)
    spoken.close()
    assert heard.recv_bytes() == b"ready"
    heard.close()
    return process


def torn(folder: Path) -> int:
    """Count what stands where a result should, and is none: halves may be missing, but never cut."""
    wrong = 0
    for key in builders.keys(builders.LARGE):
        with contextlib.suppress(FileNotFoundError):
            wrong += Path(entry_path(folder, key)).read_bytes() != builders.result_of(key, 100_000).data
        with contextlib.suppress(FileNotFoundError):
            wrong += decode(Path(entry_path(folder, record_key(key))).read_bytes()) is None
    return wrong


def temporary_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "tmp").iterdir())


def test_killed_writers_tear_nothing(tmp_path: Path, figures: Figures) -> None:
    folder, kills, wrong, most = tmp_path / "cache", figures.pick(40, 1000), 0, 0
    writers = [start_writer(folder), start_writer(folder)]
    for number in range(kills):
        time.sleep(CHANCE.uniform(0, 0.05))
        writer = writers[number % 2]
        writer.kill()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        wrong += torn(folder)
        with contextlib.suppress(FileNotFoundError):  # the other one sweeps
            most = max(most, temporary_bytes(folder))
        writers[number % 2] = start_writer(folder)
    for writer in writers:
        writer.kill()
        writer.join()
    left, counts = temporary_bytes(folder), dict[str, int]()
    with Cache(folder, None, pytest.fail) as cache:
        builders.take_all(cache, builders.keys(builders.LARGE), counts.update, size=100_000)
    figures.tell(
        kills=kills, torn=wrong, wrong=counts["wrong"], most_temporary_mb=most / 1e6, left_mb=left / 1e6
    )
    assert (wrong, cache.damaged, counts["wrong"]) == (0, 0, 0)
    assert most <= 100_000_000
    assert os.listdir(folder / "tmp") == []
    assert housekeeping.stats(folder).unproven == 0


@pytest.mark.nvrtc
def test_a_build_that_is_killed_at_any_time_is_gone_on_with(tmp_path: Path, figures: Figures) -> None:
    kills, archs = figures.pick(3, 20), ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
    sources = {
        f"demo/k{number}.cu": SAXPY.replace("saxpy", f"k{number}") for number in range(figures.pick(6, 40))
    }
    root = write_tree(
        tmp_path / "project",
        {"pyproject.toml": pyproject(f"archs = {json.dumps(archs)}\n"), "demo/__init__.py": "", **sources},
    )
    report = tmp_path / "report.json"
    clean = run(*HATCHLING, "-d", tmp_path / "clean", cwd=root, HATCH_CUBIN_CACHE_DIR=str(tmp_path / "other"))
    assert clean.returncode == 0
    kept = [0]
    for _ in range(kills):
        with started(root, tmp_path / "dist") as build:
            wait_until(lambda: housekeeping.stats(cache_folder()).entries > kept[-1], seconds=60)
            time.sleep(CHANCE.uniform(0, 0.05))
            build.kill()
        kept.append(housekeeping.stats(cache_folder()).entries)
    run(*HATCHLING, "-d", tmp_path / "dist", cwd=root, HATCH_CUBIN_REPORT=str(report))
    facts = json.loads(report.read_text())
    figures.tell(kills=kills, kept=kept[-1], compiled_at_last=facts["compiled"], units=len(facts["units"]))
    assert kept == sorted(kept)
    assert facts["hits"] == kept[-1]
    (one,), (other,) = (list((tmp_path / name).glob("*.whl")) for name in ("clean", "dist"))
    assert wheel_files(one) == wheel_files(other)


def cache_folder() -> Path:
    return Path(os.environ["HATCH_CUBIN_CACHE_DIR"])


@contextlib.contextmanager
def started(root: Path, into: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a build as a front end does; no process of it is left when the block ends."""
    build = subprocess.Popen(
        [*HATCHLING, "-d", str(into)], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with build:
        try:
            yield build
        finally:
            build.kill()
            build.communicate()
    wait_until(lambda: compilers(cache_folder()) == [], seconds=10)


def compilers(folder: Path) -> list[int]:
    """Return the processes that compile for a build with that cache folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = b"worker.py" in (process / "cmdline").read_bytes()
            if named and os.fsencode(folder) in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def wait_until(happened: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- interrupted ------------------------------------------------------------------------------------

SLOW = """\
extern "C" __global__ void slow(float *x) {
#pragma unroll
  for (int i = 0; i < 100000; ++i) x[i] = sinf(x[i + 1]) * cosf(x[i + 2]);
}
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def slow_project(root: Path) -> Path:
    """Write a project two kernels of which are compiled soon, and one is not."""
    files = {"demo/__init__.py": "", "demo/a.cu": SAXPY, "demo/b.cu": SAXPY, "demo/slow.cu": SLOW}
    return write_tree(root, {"pyproject.toml": pyproject('archs = ["sm_90"]\n'), **files})


@pytest.mark.nvrtc
@pytest.mark.parametrize(("name", "end"), [("SIGINT", 130), ("SIGTERM", -15), ("SIGHUP", -1)])
def test_an_interrupted_build_ends_at_once_and_keeps_what_it_has(
    tmp_path: Path, temporary: Path, name: str, end: int, figures: Figures
) -> None:
    root = slow_project(tmp_path / "project")
    with started(root, tmp_path / "dist") as build:
        wait_until(lambda: housekeeping.stats(cache_folder()).entries == 2, seconds=60)
        assert compilers(cache_folder()) != []
        begun = time.monotonic()
        build.send_signal(signal.Signals[name])
        code = build.wait(timeout=10)
        seconds = time.monotonic() - begun
        wait_until(lambda: compilers(cache_folder()) == [], seconds=2)
    figures.tell(exit_code=code, seconds=seconds)
    assert seconds < 2
    assert code == end
    assert list((tmp_path / "dist").glob("*.whl")) == []
    assert list(temporary.iterdir()) == []
    left = housekeeping.stats(cache_folder())
    assert (left.entries, left.unproven, left.temporaries) == (2, 0, 0)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "sweep",
    [
        (*HATCHLING, "-d", "dist"),
        (sys.executable, "-m", "hatch_cubin", "bake", "--only", "a"),
        (sys.executable, "-m", "hatch_cubin", "cache", "clear"),
        (sys.executable, "-m", "hatch_cubin", "cache", "gc", "--unused-for=1d"),
    ],
    ids=["hatchling", "bake", "clear", "gc"],
)
def test_what_a_killed_build_staged_goes_with_the_next(
    tmp_path: Path, temporary: Path, sweep: tuple[str, ...]
) -> None:
    """What it staged are links to the cache's entries: as long as they are there, nothing is freed."""
    root = slow_project(tmp_path / "project")
    with started(root, tmp_path / "dist") as build:
        wait_until(lambda: housekeeping.stats(cache_folder()).entries == 2, seconds=60)
        build.kill()
        build.wait()
        assert [path.suffix for path in temporary.iterdir()] == [".held"]
    (root / "demo/slow.cu").unlink()
    run(*sweep, cwd=root)
    assert list(temporary.iterdir()) == []
