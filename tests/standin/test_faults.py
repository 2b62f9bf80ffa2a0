"""A driver that refuses, forgets or crashes: what the loader says, and what it leaves behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.helpers import bundle, made

from . import events, install, run_beside
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

TRY = """
import sys
from pkg import _cubins as cubins
for call in (cubins.preload, lambda: cubins.kernel("k"), cubins.preload):
    try:
        call()
        print("no error")
    except cubins.CubinUnavailableError as exc:
        print(str(exc).partition(" (bundle of ")[0])
"""
# Out of memory, not initialized, a stub, no device, busy, an operating system's error, not permitted, not
# ready, a driver of another version, no compatibility, unknown.
INIT_FAILS = (1, 2, 3, 34, 46, 100, 101, 304, 800, 802, 803, 804, 999)


@pytest.fixture(autouse=True)
def package(tmp_path: Path) -> None:
    install(tmp_path / "pkg", bundle(made("k")))


@pytest.mark.parametrize("status", INIT_FAILS)
def test_each_error_of_its_start_is_told_each_time(python: Run, tmp_path: Path, status: int) -> None:
    said = python(TRY, STANDIN_FAULTS=f"cuInit={status}").splitlines()
    named = "CUDA_ERROR_NO_DEVICE" if status == 100 else "error"
    forked = (
        "; perhaps CUDA was used before this process was forked: start processes with spawn"
        if status == 3
        else ""
    )
    assert said == [f"pkg._cubins: the CUDA driver cannot be used: {named} ({status}){forked}"] * 3
    assert [each.what for each in events(tmp_path)] == ["cuInit"] * 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("cuLibraryLoadData", "the driver cannot load 'k': "),
        ("cuLibraryGetKernel", "the driver cannot load 'k': "),
        ("cuDevicePrimaryCtxRetain", "the driver cannot load 'k' on CUDA device 0: error (222)"),
        ("cuCtxPushCurrent_v2", "the driver cannot load 'k' on CUDA device 0: error (222)"),
        ("cuKernelGetFunction", "the driver cannot load 'k' on CUDA device 0: error (222)"),
        ("cuFuncLoad", "the driver cannot load 'k' on CUDA device 0: error (222)"),
        ("cuDeviceGetAttribute", "the current CUDA device cannot be used: "),
    ],
)
def test_each_call_that_fails_while_kernels_are_loaded_is_told(python: Run, call: str, said: str) -> None:
    first, _, again = python(TRY, STANDIN_FAULTS=f"{call}=222").splitlines()
    assert first.startswith(f"pkg._cubins: {said}")
    assert again == first


def test_a_driver_that_forgets_to_answer_is_told(python: Run) -> None:
    said = python(TRY, STANDIN_FAULTS="cuKernelGetFunction=forget").splitlines()
    told = "pkg._cubins: the driver cannot load 'k' on CUDA device 0: error (400)"
    assert said == [told, "no error", told]


def test_after_a_fault_the_next_call_loads_what_is_missing(python: Run, tmp_path: Path) -> None:
    healed = TRY.replace("import sys", "import os").replace("print(str", "os.environ.clear(); print(str")
    said = python(healed, STANDIN_FAULTS="cuFuncLoad=2").splitlines()
    assert said[1:] == ["no error"] * 2


@pytest.mark.parametrize("call", ["cuInit", "cuLibraryLoadData", "cuFuncLoad"])
def test_a_driver_that_crashes_takes_its_own_process_along_and_no_file(
    driver: Path, python: Run, tmp_path: Path, call: str
) -> None:
    (tmp_path / "program.py").write_text(TRY)
    done = run_beside(driver, tmp_path, "program.py", STANDIN_FAULTS=f"{call}=crash")
    assert done.returncode == -signal.SIGSEGV
    assert python(TRY).splitlines() == ["no error"] * 3


WHILE_IT_HANGS = """
import os, threading
import cuda.core  # which would be imported meanwhile
from pkg import _cubins as cubins
os.mkfifo("pipe")
threading.Thread(target=cubins.preload, daemon=True).start()
while not os.path.exists("log") or "cuLibraryLoadData" not in open("log").read():
    pass
print(cubins.is_available("k"), cubins.read("k", cc=(9, 0)), cubins.find("k").arch)
"""


def test_while_a_load_hangs_others_read_and_the_process_can_end(python: Run) -> None:
    said = python(WHILE_IT_HANGS, STANDIN_FAULTS="cuLibraryLoadData=hang")
    assert said == "True b'k for sm_90' sm_90"
