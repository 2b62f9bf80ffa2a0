"""The day a GPU is there: run what only a device can tell, and write down what it said.

    python3 FOLDER/day.py [--report report.json] [--total 540]

FOLDER is what `python -m tests.gpu.pack_day` packed. Python 3.10 or newer, numpy and cuda-core are needed;
torch, jax, cupy, numba-cuda and triton are compared with where they work. No network is used.
Each step is a process of its own with a limit, so that one that crashes or hangs costs the others nothing.
What is not begun when the time for all is over is skipped. It ends with 0 if no step failed. With --dry-run,
kernels need compute nothing: for the tests' stand-in driver.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 120.0  # seconds for a step: the rest is to be run in any case
TOTAL = 540.0  # seconds for all steps
COUNT = 1 << 16
DRY_RUN = "HATCH_CUBIN_DRY_RUN"
ROUNDS = "HATCH_CUBIN_ROUNDS"  # how often a first kernel is timed
SOURCE = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""


class SkippedError(Exception):
    """The machine lacks what a step needs."""


def needs(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise SkippedError(str(exc)) from exc


def check(found: list[float], expected: list[float]) -> None:
    if DRY_RUN not in os.environ and found != expected:
        wrong = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
        raise AssertionError(f"element {wrong} is {found[wrong]}, and should be {expected[wrong]}")


class Saxpy:
    """Memory and a launch for the kernel that all packages have: y += a * x."""

    def __init__(self) -> None:
        np = needs("numpy")
        core = needs("cuda.core")
        self.device = core.Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.buffers = [core.LegacyPinnedMemoryResource().allocate(4 * COUNT) for _ in range(2)]
        self.x, self.y = (np.from_dlpack(buffer).view(np.float32) for buffer in self.buffers)
        self.x[:], self.y[:] = np.arange(COUNT) % 1024, 1
        config = core.LaunchConfig(grid=-(-COUNT // 256), block=256)
        arguments = (np.float32(2), *self.buffers, np.int32(COUNT))
        self.launch: Callable[[Any, Any], None] = lambda to, kernel: core.launch(
            to, config, kernel, *arguments
        )

    def works(self, kernel: Any, times: int = 1) -> None:
        self.y[:] = 1
        self.launch(self.stream, kernel)
        self.stream.sync()
        check(self.y.tolist(), [1 + 2 * times * value for value in self.x.tolist()])


def bundle(package: str) -> Any:
    if not (HERE / "site" / package / "_cubins").is_dir():
        raise SkippedError(f"{package} was not brought along")
    return importlib.import_module(f"{package}._cubins")


def loads(package: str) -> dict[str, Any]:
    """Load and launch what a package has for this GPU."""
    cubins, saxpy = bundle(package), Saxpy()
    began = time.perf_counter()
    kernel = cubins.kernel("saxpy")
    saxpy.works(kernel)
    entry = cubins.find("saxpy")
    return {"arch": entry.arch, "rule": entry.rule, "seconds": time.perf_counter() - began}


# --- the steps ---


def machine() -> dict[str, Any]:
    cubins = bundle("mypkg")
    device = needs("cuda.core").Device(0)
    found: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform()}
    found["gpu"], found["capability"] = device.name, ".".join(map(str, device.compute_capability))
    found["driver"], found["available"] = (
        cubins._part("_loading")._driver_version(),
        cubins.is_available("saxpy"),
    )
    for name in ("numpy", "cuda-core", "cuda-bindings", "torch", "jax", "cupy-cuda13x", "cupy-cuda12x"):
        found[name] = version(name)
    return {**found, "numba-cuda": version("numba-cuda"), "triton": version("triton")}


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def example() -> dict[str, Any]:
    np = needs("numpy")
    bundle("waves")
    waves = importlib.import_module("waves")
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    check(waves.saxpy(2.0, x, y).tolist(), (2 * x + 1).tolist())
    return {"loaded": len(waves._cubins.preload().loaded)}


GIVE = {"cupy": "asarray", "torch": "as_tensor", "jax.numpy": "asarray", "numba.cuda": "to_device"}
HOST = {"cupy": "get", "torch": "cpu", "jax.numpy": "__array__", "numba.cuda": "copy_to_host"}


def recipe(name: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    bundle("mypkg")
    needs({"ctypes": "cuda.core", "jax": "jax_tvm_ffi"}.get(name, name))
    exec(compile(json.loads((HERE / "recipes.json").read_text())[name], name, "exec"), namespace)  # noqa: S102
    np, saxpy = needs("numpy"), namespace["saxpy"]
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    if name == "ctypes":
        ready = Saxpy()
        saxpy(2.0, *(int(buffer.handle) for buffer in ready.buffers), COUNT)
        namespace["check"](namespace["driver"]().cuCtxSynchronize())
        check(ready.y.tolist(), [1 + 2 * value for value in ready.x.tolist()])
        return {}
    name = {"jax": "jax.numpy"}.get(name, name)
    where = {"device": "cuda"} if name == "torch" else {}
    there = [getattr(importlib.import_module(name), GIVE[name])(each, **where) for each in (x, y)]
    result = saxpy(2.0, *there)
    back = getattr(there[1] if result is None else result, HOST[name])()
    check(back.tolist(), (2 * x + 1).tolist())
    return {}


def translated() -> dict[str, Any]:
    cubins, refused = bundle("translated"), None
    with cubins.use(strict=True):
        try:
            cubins.kernel("saxpy")
        except cubins.CubinNotFoundError as exc:
            refused = str(exc)
    return {"refused": refused, "reported": len(cubins.translated()), **loads("translated")}


def suffixed() -> dict[str, Any]:
    cubins = bundle("suffixed")
    try:
        cubins.find("saxpy")
    except cubins.CubinNotFoundError as exc:
        raise SkippedError(str(exc)) from exc
    return loads("suffixed")


def captured() -> dict[str, Any]:
    """Capture a graph of 32 modules that nothing has launched, after preload."""
    cubins, saxpy = bundle("many"), Saxpy()
    report = cubins.preload()
    kernels = [cubins.kernel("saxpy", TIMES=times) for times in range(1, 33)]
    builder = saxpy.stream.create_graph_builder()
    builder.begin_building()
    for kernel in kernels:
        saxpy.launch(builder, kernel)
    graph = builder.end_building().complete()
    saxpy.y[:] = 1
    graph.launch(saxpy.stream)
    saxpy.stream.sync()
    check(saxpy.y.tolist(), [1 + 2 * sum(range(1, 33)) * value for value in saxpy.x.tolist()])
    seconds = [each.seconds for each in report.loaded]
    again = [each.seconds for each in cubins.preload().loaded]
    return {"modules": len(seconds), "preload_seconds": sum(seconds), "preload_again_seconds": sum(again)}


def captured_unloaded() -> dict[str, Any]:
    """Say what a capture without preload ends with, whatever that is."""
    cubins, saxpy = bundle("many"), Saxpy()
    builder = saxpy.stream.create_graph_builder()
    builder.begin_building()
    try:
        saxpy.launch(builder, cubins.kernel("saxpy", TIMES=1))
        builder.end_building().complete()
    except Exception as exc:  # noqa: BLE001 - that is what is asked
        return {"ended_with": f"{type(exc).__name__}: {exc}"}
    return {"ended_with": None}


FIRST = {
    "hatch-cubin": "from mypkg import _cubins\nkernel = _cubins.kernel('saxpy')\nlaunch_core(kernel)",
    "cuda.core": (
        "from cuda.core import Program, ProgramOptions\nmajor, minor = device.compute_capability\n"
        "options = ProgramOptions(arch=f'sm_{major}{minor}')\n"
        "launch_core(Program(SOURCE, 'c++', options).compile('cubin').get_kernel('saxpy'))"
    ),
    "cupy": (
        "import cupy\nx = cupy.ones(1024, cupy.float32)\n"
        "cupy.RawKernel(SOURCE, 'saxpy')((4,), (256,), (cupy.float32(2), x, x, cupy.int32(1024)))\n"
        "cupy.cuda.Device().synchronize()"
    ),
    "numba-cuda": (
        "import numpy\nfrom numba import cuda\nx = cuda.to_device(numpy.ones(1024, numpy.float32))\n"
        "def saxpy(a, x, y):\n    i = cuda.grid(1)\n    if i < x.size: y[i] += a * x[i]\n"
        "cuda.jit(saxpy)[4, 256](numpy.float32(2), x, x)\ncuda.synchronize()"
    ),
}
TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def saxpy(a, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, i < n) + a * tl.load(x + i, i < n), i < n)
x = torch.ones(1024, device="cuda")
saxpy[(4,)](2.0, x, x, 1024, BLOCK=256)
torch.cuda.synchronize()
"""
BEFORE = """
import sys, time
sys.path.insert(0, {site!r})
SOURCE = {source!r}
began = time.perf_counter()
def launch_core(kernel):
    import numpy
    from cuda.core import LaunchConfig, LegacyPinnedMemoryResource, launch
    x, stream = LegacyPinnedMemoryResource().allocate(4096), device.create_stream()
    launch(stream, LaunchConfig(grid=4, block=256), kernel, numpy.float32(2), x, x, numpy.int32(1024))
    stream.sync()
if {core}:
    from cuda.core import Device
    device = Device(0)
    device.set_current()
"""


def first(name: str) -> dict[str, Any]:
    """Time a new process from its first line to the end of its first kernel, imports and compile and all."""
    code = TRITON if name == "triton" else FIRST[name]
    needs({"hatch-cubin": "cuda.core", "numba-cuda": "numba.cuda"}.get(name, name))
    before = BEFORE.format(site=str(HERE / "site"), source=SOURCE, core=name in ("hatch-cubin", "cuda.core"))
    program = HERE / f"first-{name}.py"
    program.write_text(f"{before}{code}\nprint(time.perf_counter() - began)\n")
    empty = {"CUPY_CACHE_IN_MEMORY": "1", "NUMBA_CACHE_DIR": "", "CUDA_CACHE_DISABLE": "1"}
    taken = []
    for number in range(int(os.environ.get(ROUNDS, "5"))):
        scratch = {"TRITON_CACHE_DIR": str(HERE / f"triton-{os.getpid()}-{number}")}
        command = [sys.executable, str(program)]
        done = subprocess.run(
            command, env={**os.environ, **empty, **scratch}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            ended = f"{name} ended with {done.returncode}: {done.stderr[-500:]}"
            raise RuntimeError(ended) if name == "hatch-cubin" else SkippedError(ended)
        taken.append(float(done.stdout.split()[-1]))
    return {"seconds": taken, "median": statistics.median(taken)}


def overhead() -> dict[str, Any]:
    """Time launches: a kernel that is held, and one that is asked for each time, by us and by cuda.core."""
    cubins, saxpy = bundle("mypkg"), Saxpy()
    core = needs("cuda.core")
    held, code = cubins.kernel("saxpy"), core.ObjectCode.from_cubin(cubins.read("saxpy"))
    ways: dict[str, Callable[[], Any]] = {
        "a held kernel of ours": lambda: held,
        "kernel() each time": lambda: cubins.kernel("saxpy"),
        "get_kernel() of cuda.core each time": lambda: code.get_kernel("saxpy"),
    }
    found = {}
    for name, ask in ways.items():
        rounds = []
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(1000):
                saxpy.launch(saxpy.stream, ask())
            rounds.append((time.perf_counter() - began) / 1000)
            saxpy.stream.sync()
        found[name] = statistics.median(rounds)
    return found


STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "machine": machine,
    "example": example,
    **{
        f"recipe {name}": functools.partial(recipe, name)
        for name in ("cupy", "torch", "jax", "numba.cuda", "ctypes")
    },
    "cubin": lambda: loads("mypkg"),
    "cubin of CUDA 12": lambda: loads("cuda12"),
    "arch-specific cubin": suffixed,
    "PTX": translated,
    "graph after preload": captured,
    "graph without preload": captured_unloaded,
    "launch overhead": overhead,
    **{f"first kernel {name}": functools.partial(first, name) for name in (*FIRST, "triton")},
}


def run_step(name: str) -> None:
    """Run a step in this process and print its outcome as the last line."""
    sys.path.insert(0, str(HERE / "site"))
    try:
        outcome = {"outcome": "passed", "found": STEPS[name]()}
    except SkippedError as exc:
        outcome = {"outcome": "skipped", "why": str(exc)}
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
        outcome = {"outcome": "failed", "why": f"{type(exc).__name__}: {exc}"}
    sys.stdout.write(f"\n{json.dumps(outcome)}\n")


def outcome_of(name: str, limit: float) -> dict[str, Any]:
    """Run a step in a process of its own and return its outcome."""
    began = time.perf_counter()
    if limit <= 0:
        return {"outcome": "skipped", "why": "the time for all steps was over"}
    command, pipe = [sys.executable, str(HERE / "day.py"), "--step", name], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as step:
        try:
            out, told = step.communicate(timeout=limit)
            lines = out.splitlines()
            outcome = json.loads(lines[-1]) if not step.returncode and lines else None
            crashed = {"outcome": "failed", "why": f"ended with {step.returncode}: {told[-2000:]}"}
        except subprocess.TimeoutExpired:
            os.killpg(step.pid, signal.SIGKILL)  # what it started has the device, too
            outcome, crashed = None, {"outcome": "failed", "why": f"not done after {limit:.0f} s"}
    return {**(outcome or crashed), "wall": time.perf_counter() - began}


def main() -> None:
    """Run every step and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--report", type=Path, default=Path("report.json"))
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a step")
    parser.add_argument("--total", type=float, default=TOTAL, help="seconds for all steps")
    parser.add_argument("--dry-run", action="store_true", help="kernels need compute nothing")
    parser.add_argument("--only", action="append", choices=STEPS, help="this step, and others so named")
    parser.add_argument("--step", choices=STEPS, help="run this one here, and print its outcome")
    given = parser.parse_args()
    if given.step:
        run_step(given.step)
        return
    if given.dry_run:
        os.environ[DRY_RUN] = "1"
    report: dict[str, Any] = {"dry_run": given.dry_run, "steps": {}}
    end = time.monotonic() + given.total
    for name in given.only or STEPS:
        report["steps"][name] = outcome_of(name, min(given.limit, end - time.monotonic()))
        given.report.write_text(json.dumps(report, indent=2))  # what was found stays, whatever comes
        outcome = report["steps"][name]
        sys.stdout.write(f"{outcome['outcome']:8} {name}  {outcome.get('why', '')[:200]}\n")
    sys.exit(any(each["outcome"] == "failed" for each in report["steps"].values()))


if __name__ == "__main__":
    main()
