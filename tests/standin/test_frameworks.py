"""The guide's recipes up to the driver: what reaches it, and what it is told to launch.

CuPy's runtime asks the driver for a table that nobody documents, so it is not among them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import bundle, made, run, sha256
from tests.recipes import RECIPES

from . import codes, events, install
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

NUMBA = """
import numpy as np
from numba import cuda
x, y = (cuda.to_device(np.ones(4, dtype=np.float32)) for _ in range(2))
saxpy(2.0, x, y)
print(y.copy_to_host().tolist())
"""
CTYPES = """
context = ctypes.c_void_p()
check(driver().cuInit(0))
check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver().cuCtxSetCurrent(context))
saxpy(2.0, 0, 0, 4)
"""
CORE = """
from cuda.core import Device, LaunchConfig, launch
from mypkg import _cubins as cubins
Device(0).set_current()
launch(Device(0).create_stream(), LaunchConfig(grid=1, block=4), cubins.kernel("saxpy"))
"""
PROGRAMS = {
    "numba.cuda": RECIPES["numba.cuda"] + NUMBA,
    "ctypes": RECIPES["ctypes"] + CTYPES,
    "cuda.core": CORE,
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what puts numba-cuda on the path: installed beside the others it takes part in each start."""
    folder = tmp_path_factory.mktemp("numba")
    run(sys.executable, "-m", "uv", "pip", "install", "--target", folder, "numba-cuda", cwd=folder)
    return f"import site, sys; sys.path.insert(0, {str(folder)!r}); site.addsitedir({str(folder)!r})\n"


@pytest.fixture
def program(request: pytest.FixtureRequest, framework: str) -> str:
    """Return the program of a framework."""
    before = request.getfixturevalue("installed") if framework == "numba.cuda" else ""
    return before + PROGRAMS[framework]


@pytest.mark.parametrize(
    ("machine", "arch"),
    [
        ({"STANDIN_GPUS": "9.0"}, "sm_90"),
        ({"STANDIN_GPUS": "8.9"}, "sm_80"),
        ({"STANDIN_DRIVER": "12040"}, "compute_80"),
    ],
    ids=["exact", "lower minor", "PTX"],
)
@pytest.mark.parametrize("framework", PROGRAMS)
def test_the_right_bytes_are_launched(
    python: Run, tmp_path: Path, program: str, machine: dict[str, str], arch: str
) -> None:
    built = {each: made("saxpy", each) for each in ("sm_80", "sm_90", "compute_80")}
    install(tmp_path / "mypkg", bundle(*built.values()))
    python(program, **machine)
    assert codes(events(tmp_path)) == [sha256(built[arch].compiled.data)]
    assert [(each.device, each.detail) for each in events(tmp_path, "LAUNCH")] == [(0, "saxpy")]


@pytest.mark.parametrize("framework", ["ctypes", "numba.cuda"])
def test_strict_holds_whoever_loads(python: Run, tmp_path: Path, program: str) -> None:
    install(tmp_path / "mypkg", bundle(made("saxpy", "compute_80")))
    lines = program.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("saxpy("))
    lines[at] = f"try: {lines[at]}\nexcept cubins.CubinNotFoundError as exc: print(exc)"
    said = python("\n".join(lines), HATCH_CUBIN_STRICT="1")
    assert "is PTX (compute_80), and strict loading lets the driver translate none" in said
    assert codes(events(tmp_path)) == []
