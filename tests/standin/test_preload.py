"""After preload nothing is left to load: for launches, graphs, contexts, threads, processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import bundle, made, sha256

from . import Event, codes, events, install
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

NAMES = ["a", "b<float>", "b<int>", "r", "s"]
LOADS = ("CODE", "LIBRARY", "FUNCTION")

BEGIN = """
import ctypes, os
from cuda.core import Device, LaunchConfig, launch
from pkg import _cubins as cubins

driver = ctypes.CDLL("libcuda.so.1")
mark = driver.cuCtxSynchronize

def launch_all(stream):
    for name in cubins.names():
        for module in ("r[N=1]", "r[N=2]") if name == "r" else (None,):
            launch(stream, LaunchConfig(grid=1, block=1), cubins.kernel(name, module=module))
"""


@pytest.fixture
def package(tmp_path: Path) -> list[str]:
    """Install a package and return the digests of what the default device gets of it."""
    built = [
        made("a"),
        made("b", kernels={"b<float>": "_Z1bIfE", "b<int>": "_Z1bIiE"}),
        *(made("r", kernels={"r": "r"}, variant={"N": number}) for number in "12"),
        made("s", "compute_80"),
    ]
    install(tmp_path / "pkg", bundle(*built))
    return [sha256(each.compiled.data) for each in built]


def after_mark(log: list[Event]) -> list[str]:
    """Return what the driver was asked and did behind the mark of the program."""
    return [each.what for each in log][[each.what for each in log].index("cuCtxSynchronize") + 1 :]


def loads_of(log: list[Event]) -> dict[str, int]:
    return {kind: sum(each.what == kind for each in log) for kind in LOADS}


def test_a_launch_without_it_loads_and_one_after_it_does_not(
    python: Run, tmp_path: Path, package: list[str]
) -> None:
    program = f"{BEGIN}Device(0).set_current()\nstream = Device(0).create_stream()\n"
    python(f"{program}mark()\nlaunch_all(stream)")
    assert loads_of(events(tmp_path)) == {"CODE": 5, "LIBRARY": 5, "FUNCTION": 6}
    assert set(LOADS) <= set(after_mark(events(tmp_path)))
    (tmp_path / "log").unlink()
    python(f"{program}cubins.preload()\ncubins.preload('r', 'b*')\nmark()\nlaunch_all(stream)")
    assert loads_of(events(tmp_path)) == {"CODE": 5, "LIBRARY": 5, "FUNCTION": 6}
    assert not set(LOADS) & set(after_mark(events(tmp_path)))
    assert after_mark(events(tmp_path)).count("LAUNCH") == 6
    assert codes(events(tmp_path)) == package


CAPTURE = """
Device(0).set_current()
stream = Device(0).create_stream()
builder = stream.create_graph_builder()
builder.begin_building()
launch_all(builder)
graph = builder.end_building().complete()
graph.launch(stream)
"""


@pytest.mark.usefixtures("package")
def test_a_graph_can_be_captured(python: Run, tmp_path: Path) -> None:
    told = "try: launch_all(builder)\nexcept cubins.CubinUnavailableError as exc: print(exc)"
    unloaded = CAPTURE.replace("launch_all(builder)", told)
    assert "the driver cannot load 'a'" in python(BEGIN + unloaded)
    assert python(f"{BEGIN}cubins.preload(){CAPTURE}") == ""
    assert [each.what for each in events(tmp_path, "GRAPH")] == ["GRAPH", "GRAPH"]


@pytest.mark.usefixtures("package")
def test_what_is_preloaded_without_a_context_is_loaded_for_the_primary_one(
    python: Run, tmp_path: Path
) -> None:
    program = "report = cubins.preload(device=[1, 0])\nmark()\nfor device in (0, 1):\n"
    launches = "    Device(device).set_current()\n    launch_all(Device(device).create_stream())\n"
    python(f"{BEGIN}{program}{launches}", STANDIN_GPUS="9.0 9.0")
    log = events(tmp_path)
    assert loads_of(log) == {"CODE": 5, "LIBRARY": 10, "FUNCTION": 12}
    assert [each.device for each in log if each.what == "FUNCTION"] == [1] * 6 + [0] * 6
    assert not set(LOADS) & set(after_mark(log))


@pytest.mark.usefixtures("package")
def test_the_context_that_was_current_is_current_again(python: Run) -> None:
    code = """
def current():
    context = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    return context.value
Device(0).set_current()
before = current()
cubins.preload(device=[0, 1])
print(current() == before)
"""
    assert python(BEGIN + code, STANDIN_GPUS="9.0 8.0") == "True"


OTHER_CONTEXT = """
context = ctypes.c_void_p()
Device(0).set_current()
cubins.preload()
driver.cuCtxCreate_v4(ctypes.byref(context), None, 0, 0)
"""


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "change",
    [OTHER_CONTEXT, "Device(0).set_current()\ncubins.preload()\ndriver.cuDevicePrimaryCtxReset_v2(0)\n"],
    ids=["another context", "a reset"],
)
def test_another_context_and_one_that_was_reset_are_loaded_into_anew(
    python: Run, tmp_path: Path, change: str
) -> None:
    launches = "function = lambda name: int(cubins.kernel(name).handle)\n" + "".join(
        f"driver.cuLaunchKernel(ctypes.c_void_p(function({name!r})), *[1] * 7, None, None, None)\n"
        for name in ("a", "b<int>")
    )
    python(f"{BEGIN}{change}cubins.preload()\nmark()\n{launches}")
    log = events(tmp_path)
    assert loads_of(log) == {"CODE": 5, "LIBRARY": 10, "FUNCTION": 12}
    assert not set(LOADS) & set(after_mark(log))
    assert after_mark(log).count("LAUNCH") == 2


@pytest.mark.usefixtures("package")
def test_threads_that_preload_at_once_load_each_module_once(python: Run, tmp_path: Path) -> None:
    code = """
import threading
barrier = threading.Barrier(8)
def preload():
    Device(0).set_current()
    barrier.wait()
    cubins.preload()
    launch_all(Device(0).create_stream())
threads = [threading.Thread(target=preload) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    python(BEGIN + code)
    log = events(tmp_path)
    assert loads_of(log) == {"CODE": 5, "LIBRARY": 5, "FUNCTION": 6}
    assert len({each.thread for each in log if each.what == "LAUNCH"}) == 8
    assert sum(each.what == "LAUNCH" for each in log) == 8 * 6


# cuda.core 1.2.2 replaces its `__spec__` while it is imported, and with it what other threads would wait for.
WHILE_CUDA_CORE_IS_IMPORTED = """
import sys, threading
from pkg import _cubins as cubins

waits_or_ended = threading.Event()
said = []

class Lock:
    def __init__(self): self.lock = threading.RLock()
    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            waits_or_ended.set()
            self.lock.acquire()
    def __exit__(self, *_raised): self.lock.release()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "cuda.core._module" and not waits_or_ended.is_set():
            thread.start()
            waits_or_ended.wait()

def ask():
    try: said.append(cubins.kernel("a").handle is not None)
    except cubins.CubinError as exc: said.append(str(exc))
    waits_or_ended.set()

thread = threading.Thread(target=ask)
cubins._fork_lock.append(Lock())
sys.meta_path.insert(0, Finder())
cubins.preload()
thread.join()
print(said)
"""


@pytest.mark.usefixtures("package")
def test_a_thread_that_asks_while_another_imports_cuda_core_gets_its_kernel(python: Run) -> None:
    assert python(WHILE_CUDA_CORE_IS_IMPORTED) == "[True]"


# --- processes ---

WORKER = """
def work():
    Device(0).set_current()
    cubins.preload()
    mark()
    launch_all(Device(0).create_stream())
"""
FORKS = """
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    children.append(child)
print({os.waitpid(child, 0)[1] for child in children})
"""
SPAWNS = """
import multiprocessing
if __name__ == "__main__":
    workers = [multiprocessing.get_context("spawn").Process(target=work) for _ in range(8)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print({worker.exitcode for worker in workers})
"""


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(f"print(cubins.is_available('a', strict=True), flush=True)\n{FORKS}", id="fork"),
        pytest.param(
            f"if __name__ == '__main__': print(bool(cubins.preload().loaded))\n{SPAWNS}", id="spawn"
        ),
    ],
)
def test_eight_workers_load_each_module_once_and_launch_everything(
    python: Run, tmp_path: Path, package: list[str], start: str
) -> None:
    assert python(BEGIN + WORKER + start) == "True\n{0}"
    by_process: dict[int, list[Event]] = {}
    for each in events(tmp_path):
        by_process.setdefault(each.process, []).append(each)
    workers = [log for log in by_process.values() if "LAUNCH" in {each.what for each in log}]
    assert len(workers) == 8
    for log in workers:
        assert codes(log) == package
        assert loads_of(log) == {"CODE": 5, "LIBRARY": 5, "FUNCTION": 6}
        assert not set(LOADS) & set(after_mark(log))
        assert after_mark(log).count("LAUNCH") == 6


ASKED_IN_A_FORK = """
cubins.preload()
mark()
asked = [
    cubins.preload, cubins.translated, lambda: cubins.preload("a", device=0),
    *(lambda call=call: call("a") for call in (cubins.kernel, cubins.module, cubins.find, cubins.read)),
]
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        said = set()
        for call in asked:
            try:
                call()
            except cubins.CubinUnavailableError as exc:
                said.add(str(exc).partition(" (bundle")[0])
        ok = said == {"pkg._cubins: CUDA was used before this process was forked: start processes with spawn"}
        ok = ok and cubins.read("a", cc=(9, 0)) == b"a for sm_90"
        os._exit(0 if ok else 1)
    children.append(child)
print({os.waitpid(child, 0)[1] for child in children})
cubins.preload()
Device(0).set_current()
launch_all(Device(0).create_stream())
"""


@pytest.mark.usefixtures("package")
def test_workers_that_are_forked_after_it_are_told_whatever_they_ask_and_load_nothing(
    python: Run, tmp_path: Path
) -> None:
    assert python(BEGIN + ASKED_IN_A_FORK) == "{0}"
    log = events(tmp_path)
    assert len({each.process for each in log}) == 1
    assert loads_of(log) == {"CODE": 5, "LIBRARY": 5, "FUNCTION": 6}
