"""The script for the day a GPU is there, run against the stand-in: it packs, runs alone, and reports."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.pack_day import LARGEST, pack_day

from . import events, run_beside

pytestmark = [pytest.mark.gcc, pytest.mark.linux, pytest.mark.nvrtc]

PASSING = [
    *("machine", "example", "recipe ctypes", "cubin", "arch-specific cubin", "PTX", "graph after preload"),
    *("graph without preload", "launch overhead", "first kernel hatch-cubin", "first kernel cuda.core"),
]
OF_OTHERS = [
    *("recipe cupy", "recipe torch", "recipe jax", "recipe numba.cuda", "cubin of CUDA 12"),
    *("first kernel cupy", "first kernel numba-cuda", "first kernel triton"),
]


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("brought")
    assert pack_day(folder, cuda12=False) < LARGEST
    return folder


def reported(
    driver: Path, brought: Path, folder: Path, *only: str, given: tuple[str, ...] = (), **environ: str
) -> tuple[int, Any]:
    """Run the script as it is run that day, but for the driver; return its exit code and its report."""
    arguments = (str(brought / "day.py"), "--dry-run", *given, *(f"--only={name}" for name in only))
    environ.update(STANDIN_DRIVER="13000", HATCH_CUBIN_ROUNDS="1")
    done = run_beside(driver, folder, *arguments, **environ)
    return done.returncode, json.loads((folder / "report.json").read_text())


def outcomes(report: Any, names: list[str]) -> set[str]:
    return {report["steps"][name]["outcome"] for name in names}


def test_it_runs_unattended_and_every_step_is_in_its_report(
    driver: Path, brought: Path, tmp_path: Path
) -> None:
    code, report = reported(driver, brought, tmp_path)
    assert (code, report["dry_run"]) == (0, True)
    steps = report["steps"]
    assert steps.keys() == {*PASSING, *OF_OTHERS}
    assert outcomes(report, PASSING) == {"passed"}
    assert outcomes(report, OF_OTHERS) <= {"passed", "skipped"}
    assert all(each["why"] for each in steps.values() if each["outcome"] == "skipped")
    assert steps["machine"]["found"]["gpu"] == "stand-in 0"
    assert steps["arch-specific cubin"]["found"]["arch"] == "sm_90a"
    assert steps["PTX"]["found"]["arch"] == "compute_75"
    assert "which strict loading refuses" in steps["PTX"]["found"]["refused"]
    assert steps["graph after preload"]["found"]["modules"] == 32
    assert "STREAM_CAPTURE_UNSUPPORTED" in steps["graph without preload"]["found"]["ended_with"]
    assert len(steps["first kernel hatch-cubin"]["found"]["seconds"]) == 1
    assert len(steps["launch overhead"]["found"]) == 3


def test_a_driver_that_crashes_costs_the_steps_that_load_and_no_other(
    driver: Path, brought: Path, tmp_path: Path
) -> None:
    steps, faults = ("cubin", "machine", "PTX"), "cuLibraryLoadData=crash"
    code, report = reported(driver, brought, tmp_path, *steps, STANDIN_FAULTS=faults)
    found = {name: each["outcome"] for name, each in report["steps"].items()}
    assert (code, found) == (1, {"cubin": "failed", "machine": "passed", "PTX": "failed"})
    assert report["steps"]["cubin"]["why"].startswith("ended with -11")


def has_ended(process: int) -> bool:
    """Wait for a process that was killed: whoever kills it need not be told at once."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return select.select([handle], [], [], 60)[0] == [handle]
    finally:
        os.close(handle)


def test_a_step_that_hangs_is_ended_with_what_it_started_and_the_rest_is_skipped_in_time(
    driver: Path, brought: Path, tmp_path: Path
) -> None:
    steps, faults = ("first kernel hatch-cubin", "cubin"), "cuLibraryLoadData=hang"
    report: dict[str, Any] = {}
    total, code, hanging = 0, 0, set[int]()
    while not hanging and total < 100:  # seconds: as many as it needs here to get that far
        total = 4 * total or 3
        folder = tmp_path / str(total)
        folder.mkdir()
        os.mkfifo(folder / "pipe")
        given = (f"--total={total}",)
        code, report = reported(driver, brought, folder, *steps, given=given, STANDIN_FAULTS=faults)
        hanging = {each.process for each in events(folder, "cuLibraryLoadData")}
    hung, late = (report["steps"][name] for name in steps)
    assert (code, hung["outcome"], hung["why"]) == (1, "failed", f"not done after {total} s")
    assert late == {"outcome": "skipped", "why": "the time for all steps was over"}
    (process,) = hanging
    assert has_ended(process)
