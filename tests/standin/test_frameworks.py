"""The guide's recipes up to the driver: what reaches it, and what it is told to launch.

CuPy's runtime asks the driver for a table that is not documented, and PyTorch is not installed. Small modules
of the same names take their place here: they show what the recipes ask for, not what CuPy and PyTorch do.
JAX is the real JAX. Its backend for GPUs cannot start here, so the recipe is registered for its CPU backend.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.guide_recipes import RECIPES
from tests.helpers import bundle, made, run, sha256

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
FAKE_CUPY = """
import ctypes, sys, types
cu = ctypes.CDLL("libcuda.so.1")
contexts, chosen = {}, [0]

def use(device):
    chosen[0] = device
    if device not in contexts:
        contexts[device] = ctypes.c_void_p()
        assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[device]), device)
    assert not cu.cuCtxSetCurrent(contexts[device])

class Module:
    def load(self, code):
        self.ptr = ctypes.c_void_p()
        assert not cu.cuModuleLoadData(ctypes.byref(self.ptr), code)
    def get_function(self, name):
        return Function(self, name)
    def __del__(self):
        cu.cuModuleUnload(self.ptr)

class Function:
    def __init__(self, module, name):
        self.module, self.ptr = module, ctypes.c_void_p()
        assert not cu.cuModuleGetFunction(ctypes.byref(self.ptr), module.ptr, name.encode())
    def __call__(self, grid, block, arguments):
        assert not cu.cuLaunchKernel(self.ptr, *grid, 1, 1, *block, 1, 1, 0, None, None, None)

class Device:
    compute_capability = "90"
    def __init__(self, id=None):
        self.id = chosen[0] if id is None else id

cuda = types.SimpleNamespace(
    Device=Device,
    function=types.SimpleNamespace(Module=Module),
    runtime=types.SimpleNamespace(driverGetVersion=lambda: 13000),
)
sys.modules["cupy"] = types.SimpleNamespace(cuda=cuda)
"""
FAKE_TORCH = """
import sys, types
from cuda.core import Device

class Tensor:
    def __init__(self, index):
        self.device = types.SimpleNamespace(index=index)
    def numel(self): return 4
    def data_ptr(self): return 0

streams = {}
def current_stream(device):
    Device(device.index).set_current()
    stream = streams.setdefault(device.index, Device(device.index).create_stream())
    return types.SimpleNamespace(cuda_stream=int(stream.handle))

sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=current_stream))
"""
JAX_ON_THE_CPU = """
import jax_tvm_ffi
register = jax_tvm_ffi.register_ffi_target
jax_tvm_ffi.register_ffi_target = lambda *given, platform: register(*given, platform={"gpu": "cpu"}[platform])
"""
JAX = """
x, y = jax.numpy.arange(4.0), jax.numpy.ones(4)
compiled = jax.jit(saxpy, static_argnums=0)
for _ in range(CALLS):
    assert saxpy(2.0, x, y).tolist() == compiled(2.0, x, y).tolist() == [1.0] * 4  # no kernel runs
"""
WARNINGS_ARE_ERRORS = "import warnings\nwarnings.simplefilter('error', DeprecationWarning)\n"
ON_EACH_DEVICE = """
for device in (0, 1, 0):
    CALL
    CALL
"""
SIZED = "types.SimpleNamespace(size=4)"
SEVERAL_CALLS = {
    "cupy": FAKE_CUPY
    + RECIPES["cupy"]
    + ON_EACH_DEVICE.replace("CALL", f"use(device); saxpy(2.0, {SIZED}, {SIZED})"),
    "torch": FAKE_TORCH
    + RECIPES["torch"]
    + ON_EACH_DEVICE.replace("CALL", "saxpy(2.0, Tensor(device), Tensor(device))"),
    "jax": JAX_ON_THE_CPU + RECIPES["jax"] + JAX.replace("CALLS", "3"),
    "numba.cuda": RECIPES["numba.cuda"]
    + NUMBA.replace("saxpy(2.0, x, y)", "for _ in range(6): saxpy(2.0, x, y)"),
    "ctypes": RECIPES["ctypes"]
    + """
contexts = [ctypes.c_void_p(), ctypes.c_void_p()]
check(driver().cuInit(0))
for device, context in enumerate(contexts):
    check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
"""
    + ON_EACH_DEVICE.replace(
        "CALL", "check(driver().cuCtxSetCurrent(contexts[device])); saxpy(2.0, 0, 0, 4)"
    ),
}
LOADS = {
    "cupy": 2,
    "torch": 1,
    "jax": 1,
    "numba.cuda": 1,
    "ctypes": 1,
}  # CuPy's modules have one context
UNLOADS = {"cuModuleUnload", "cuLibraryUnload"}
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


# With numba-cuda before 0.30, uv would choose a cuda.core before 1.0.
PACKAGES = {"numba.cuda": ("numba-cuda>=0.30",), "jax": ("jax>=0.12", "jax-tvm-ffi>=0.1.3")}
_folders: dict[str, Path] = {}


def installed(framework: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return code that puts a framework on the path, and makes errors of warnings after the import.

    The environment of the tests has no frameworks, because each start of Python would import a part of them.
    """
    if framework not in PACKAGES:
        return WARNINGS_ARE_ERRORS
    if framework not in _folders:
        folder = tmp_path_factory.mktemp(framework)
        install = ("uv", "pip", "install", "--target", folder, "--only-binary", ":all:")
        done = run(sys.executable, "-m", *install, *PACKAGES[framework], cwd=folder, check=False)
        if "No solution found" in done.stderr:
            pytest.skip(f"{framework} has no wheels for this Python")
        assert not done.returncode, done.stderr
        _folders[framework] = folder
    place = str(_folders[framework])
    path = f"import site, sys; sys.path.insert(0, {place!r}); site.addsitedir({place!r})\n"
    return f"{path}import {framework}\n{WARNINGS_ARE_ERRORS}"


def test_each_recipe_is_called_several_times() -> None:
    assert SEVERAL_CALLS.keys() == LOADS.keys() == RECIPES.keys()


@pytest.mark.parametrize("framework", SEVERAL_CALLS)
def test_a_recipe_loads_once_and_keeps_what_it_loaded(
    tmp_path_factory: pytest.TempPathFactory, python: Run, tmp_path: Path, framework: str
) -> None:
    install(tmp_path / "mypkg", bundle(made("saxpy", "sm_90")))
    before = installed(framework, tmp_path_factory)
    python(before + SEVERAL_CALLS[framework], STANDIN_GPUS="9.0 9.0")
    log = events(tmp_path)
    assert len(codes(log)) == LOADS[framework]
    assert [each.detail for each in log if each.what == "LAUNCH"] == ["saxpy"] * 6
    last = max(number for number, each in enumerate(log) if each.what == "LAUNCH")
    assert not UNLOADS & {each.what for each in log[:last]}


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory, framework: str) -> str:
    """Return the program of a framework."""
    return installed(framework, tmp_path_factory) + PROGRAMS[framework]


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
    assert "is PTX (compute_80), which strict loading refuses" in said
    assert codes(events(tmp_path)) == []
