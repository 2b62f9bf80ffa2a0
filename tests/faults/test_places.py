"""Whole builds with the real compiler on disks, folders and clocks that are not as they should be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cache import housekeeping
from tests.build.projects import demo
from tests.capabilities import namespace
from tests.fault_counts import Figures
from tests.faults.harness.builds import UNITS, Builds
from tests.helpers import COPY_PTX, run, wheel_files

pytestmark = [pytest.mark.linux, pytest.mark.nvrtc]

OPTIONS = 'archs = ["sm_80", "sm_90", "compute_90"]\ncache-size = "1 MiB"\n'


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """Return the right wheel, and a cache with all that it needs."""
    folder = tmp_path_factory.mktemp("warm")
    wheel, _said, _compiled = build(demo(folder / "project", OPTIONS), folder / "cache")
    return wheel, folder / "cache"


def build(
    root: Path, cache: Path, *prefix: str, script: str = "", **environ: Any
) -> tuple[bytes, list[str], int]:
    """Build a wheel in another process; return it, the warnings, and how many units were compiled.

    *script* goes before it in the same shell, behind *prefix*.
    """
    (root / "dist").mkdir(exist_ok=True)
    command = [*prefix, "sh", "-ec", f'{script}\nexec "$0" -m hatchling build -t wheel', sys.executable]
    settings: dict[str, Any] = {
        "CACHE": str(cache),  # what scripts call it
        "HATCH_CUBIN_CACHE_DIR": str(cache),
        "HATCH_CUBIN_REPORT": str(root / "report.json"),
    }
    done = run(*command, cwd=root, **settings, **environ)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "warning: " in line]
    (wheel,) = (root / "dist").iterdir()
    data = wheel.read_bytes()
    wheel.unlink()
    return data, said, json.loads((root / "report.json").read_text())["compiled"]


# --- disks and folders --------------------------------------------------------------------------

FULL = 'mount -t tmpfs -o size=1m none "${CACHE:?}"; cat /dev/zero > "${CACHE:?}/filler" 2> /dev/null || true'
NO_INODES = 'mount -t tmpfs -o nr_inodes=4 none "${CACHE:?}"'
NO_TMP = 'rmdir "${CACHE:?}"/tmp; '
READ_ONLY = 'mount --bind "${CACHE:?}" "${CACHE:?}"; mount -o remount,bind,ro "${CACHE:?}"'


@pytest.mark.mounts
@pytest.mark.parametrize(
    ("script", "compiled"),
    [(FULL, 3), (NO_INODES, 3), (READ_ONLY, 1), (NO_TMP + READ_ONLY, 1)],
    ids=["full", "no inodes", "read-only", "read-only without tmp"],
)
def test_a_disk_that_takes_nothing_costs_one_warning(
    tmp_path: Path, warm: tuple[bytes, Path], script: str, compiled: int, figures: Figures
) -> None:
    right, cache = warm[0], tmp_path / "cache"
    shutil.copytree(warm[1], cache)
    min(cache.glob("entries/*/*")).unlink()
    root = demo(tmp_path / "project", OPTIONS)
    wheel, said, count = build(root, cache, *namespace(), script=script)
    figures.tell(builds=1, wrong=wheel != right, warnings=len(said), compiled=count)
    assert (wheel == right, count, len(said)) == (True, compiled, 1)
    assert f"warning: the cache at {cache} cannot be used fully: " in said[0]


def no_permissions(cache: Path) -> None:
    cache.chmod(0)


def of_another(cache: Path) -> None:
    cache.chmod(0o700)
    os.chown(cache, 65534, 65534)


def a_file(cache: Path) -> None:
    shutil.rmtree(cache)
    cache.write_text("")


def a_dangling_link(cache: Path) -> None:
    shutil.rmtree(cache)
    cache.symlink_to(cache.parent / "nowhere" / "deep")


@pytest.mark.parametrize("change", [no_permissions, of_another, a_file, a_dangling_link])
def test_a_folder_that_cannot_be_used_costs_one_warning(
    tmp_path: Path, warm: tuple[bytes, Path], change: Callable[[Path], None], figures: Figures
) -> None:
    right, cache = warm[0], tmp_path / "cache"
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    prefix = powerless if os.geteuid() == 0 and change in {no_permissions, of_another} else ()
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("this machine has no setpriv, which root needs to be refused anything")
    if change is of_another and os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    shutil.copytree(warm[1], cache)
    change(cache)
    wheel, said, compiled = build(demo(tmp_path / "project", OPTIONS), cache, *prefix)
    figures.tell(builds=1, wrong=wheel != right, warnings=len(said), compiled=compiled)
    assert (wheel == right, compiled, len(said)) == (True, 3, 1)
    assert f"warning: the cache at {cache} cannot be used fully: " in said[0]
    if cache.is_dir():
        cache.chmod(0o700)


# --- a cache that was saved and restored --------------------------------------------------------


def by_zip(cache: Path, restored: Path) -> None:
    """As artifacts are: no empty folders, no modes, no times."""
    with zipfile.ZipFile(restored.with_suffix(".zip"), "w") as archive:
        for path in (path for path in cache.rglob("*") if path.is_file()):
            archive.writestr(path.relative_to(cache).as_posix(), path.read_bytes())
    with zipfile.ZipFile(restored.with_suffix(".zip")) as archive:
        archive.extractall(restored)  # noqa: S202 - made three lines above


def by_tar(cache: Path, restored: Path) -> None:
    with tarfile.open(restored.with_suffix(".tar"), "w") as archive:
        archive.add(cache, ".")
    with tarfile.open(restored.with_suffix(".tar")) as archive:
        archive.extractall(restored, filter="data")


def by_cp(cache: Path, restored: Path) -> None:
    subprocess.run(["cp", "-r", cache, restored], check=True)


@pytest.mark.parametrize("restore", [by_zip, by_tar, by_cp])
def test_a_cache_that_was_restored_has_all_hits(
    tmp_path: Path, restore: Callable[[Path, Path], None], figures: Figures
) -> None:
    before = Builds(tmp_path / "project", tmp_path / "cache").build()
    restore(tmp_path / "cache", tmp_path / "restored")
    after = Builds(tmp_path / "elsewhere" / "project", tmp_path / "restored").build()
    figures.tell(units=UNITS, compiled_again=after.compiled, wrong=after.made != before.made)
    assert (before.compiled, after.compiled, after.warnings, after.made) == (UNITS, 0, (), before.made)


# --- limits ---------------------------------------------------------------------------------------

MARKS = 'extern "C" __global__ void plain(const char **x) { *x = __FILE__; }\n'
INCLUDES = (
    '#include <cstdint>\n#include "own.cuh"\nextern "C" __global__ void own(int32_t *x) { *x = twice(*x); }\n'
)
ASSERTS = '#include "asserts.cuh"\nextern "C" __global__ void checked(int *x) { check(*x); }\n'
FEW_FILES = {
    "demo/__init__.py": "",
    "demo/plain.cu": MARKS,
    "demo/own.cu": INCLUDES,
    "demo/own.cuh": "__device__ int twice(int x) { return 2 * x; }\n",
    "demo/copy.ptx": COPY_PTX,
}
LINES = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/plain.cu"\noptions = { lineinfo = true }\n'


@pytest.mark.parametrize("limit", ["ulimit -n 64", "ulimit -n 80", "ulimit -S -n 64"])
def test_few_open_files_change_no_byte(tmp_path: Path, limit: str) -> None:
    """The numbers that folders are named by are out of reach, but leave no trace in these."""
    root = demo(tmp_path / "project", f'archs = ["sm_90", "compute_90"]\n{LINES}', FEW_FILES)
    right, _said, _compiled = build(root, tmp_path / "one")
    assert build(root, tmp_path / "other", script=limit) == (right, [], 6)


def limited(limit: str, root: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Build a wheel under a limit, whatever comes of it."""
    command = ("sh", "-c", f'{limit}\nexec "$0" -m hatchling build -t wheel', sys.executable)
    return run(*command, cwd=root, check=False, HATCH_CUBIN_CACHE_DIR=str(cache))


def test_what_needs_more_open_files_is_named_and_fails_alone(tmp_path: Path) -> None:
    header = "#include <cassert>\n__device__ void check(int x) { assert(x); }\n"
    files = {**FEW_FILES, "demo/checked.cu": ASSERTS, "demo/asserts.cuh": header}
    root = demo(tmp_path / "project", f'archs = ["sm_90"]\n{LINES}', files)
    done = limited("ulimit -n 64", root, tmp_path / "cache")
    said = re.sub(r"\d+(?= open files)|(?<=NVRTC )[\d.]+", "…", done.stderr).splitlines()
    assert (done.returncode, said) == (
        1,
        [
            (
                "hatch-cubin: error: demo/checked.cu: "
                "the compile needs … open files, which is more than the limit, "
                "because hatch-cubin opens each folder to keep the folder's name out of the compiled code: "
                "use 'ulimit -n 1024', or '--ulimit nofile=1024' for containers [compiler-error]"
            ),
            "  while compiling checked for sm_90 (NVRTC …)",
            "hatch-cubin: 1 error, nothing was built",
        ],
    )
    assert housekeeping.stats(tmp_path / "cache").entries == 3


def test_an_error_in_a_header_is_told_with_few_open_files_too(tmp_path: Path) -> None:
    files = {**FEW_FILES, "demo/own.cuh": "__device__ int twice(int x) { return y; }\n"}
    root = demo(tmp_path / "project", 'archs = ["sm_90"]\n', files)
    said = [limited(limit, root, tmp_path / "cache").stderr for limit in ("", "ulimit -n 64")]
    assert said[0] == said[1]
    assert said[0].startswith('hatch-cubin: error: demo/own.cuh:1: identifier "y" is undefined [')


# --- clocks -------------------------------------------------------------------------------------

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long off(void) { const char *text = getenv("CLOCK_OFF_BY"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(which, now);
  if (!status && which == CLOCK_REALTIME) now->tv_sec += off();
  return status;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *out, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""
_DAY, _YEAR_1980, _YEAR_2107 = 86400, 315_532_800 + 86400, 4_323_283_200


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that sets the clock of a process that it is loaded into."""
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(CLOCK)
    run("gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl", cwd=folder)
    return folder / "clock.so"


@pytest.mark.gcc
@pytest.mark.parametrize(
    "when",
    [
        lambda now: now - 2 * _DAY,
        lambda now: now + 2 * _DAY,
        lambda _now: _YEAR_1980,
        lambda _now: _YEAR_2107,
    ],
    ids=["two days behind", "two days ahead", "1980", "2107"],
)
def test_no_clock_and_no_file_time_makes_a_difference(
    tmp_path: Path, warm: tuple[bytes, Path], clock: Path, when: Callable[[float], float], figures: Figures
) -> None:
    right, cache, root = warm[0], tmp_path / "cache", demo(tmp_path / "project", OPTIONS)
    now = float(run("date", "+%s", cwd=tmp_path).stdout)
    wrong_clock: dict[str, Any] = {"LD_PRELOAD": str(clock), "CLOCK_OFF_BY": str(int(when(now) - now))}
    told = run(sys.executable, "-c", "import time; print(time.time())", cwd=tmp_path, **wrong_clock)
    assert abs(float(told.stdout) - when(now)) < 3600
    for path in root.rglob("*"):
        os.utime(path, (when(now), when(now)))
    cold = build(root, cache, **wrong_clock)
    for path in cache.rglob("*"):
        os.utime(path, (when(now), when(now)))
    then = [build(root, cache), build(root, cache, **wrong_clock)]
    figures.tell(builds=3, wrong=sum(wheel != right for wheel, *_ in (cold, *then)))
    assert [cold, *then] == [(right, [], 3), (right, [], 0), (right, [], 0)]


def test_an_epoch_before_zip_files_is_no_failure(tmp_path: Path, warm: tuple[bytes, Path]) -> None:
    root = demo(tmp_path / "project", OPTIONS)
    wheels = [build(root, tmp_path / "cache", SOURCE_DATE_EPOCH="0")[0] for _ in range(2)]
    for number, wheel in enumerate((*wheels, warm[0])):
        (tmp_path / f"{number}.whl").write_bytes(wheel)
    assert wheels[0] == wheels[1]
    assert wheel_files(tmp_path / "0.whl") == wheel_files(tmp_path / "2.whl")
