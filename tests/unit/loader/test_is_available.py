"""Whether a driver and a device are there: an answer in time, without CUDA being started."""

from __future__ import annotations

import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made
from tests.standin import ask, calls, install, make_half_a_driver

from .doubles import Driver, load


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("environ", "available"),
    [
        pytest.param({}, "True", id="a device"),
        pytest.param({"STANDIN_GPUS": ""}, "False", id="no device"),
        pytest.param({"STANDIN_FAULTS": "nvmlInit_v2=9"}, "False", id="NVML fails"),
        pytest.param({"STANDIN_FAULTS": "nvmlDeviceGetCount_v2=9"}, "False", id="NVML does not count"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, "False", id="none visible"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "-1"}, "False", id="hidden"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, "True", id="visible"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1,0"}, "False", id="one that is not there"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-00"}, "True", id="by its UUID"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-8a"}, "False", id="by another's UUID"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "MIG-8a"}, "True", id="a part of it"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "none"}, "False", id="no device's name"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "+0gpu,-1"}, "True", id="as CUDA reads numbers"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0, 0"}, "False", id="one that is named twice"),
        pytest.param({"STANDIN_FAULTS": "nvmlInit_v2=18"}, "False", id="a driver of another version"),
    ],
)
def test_is_available_starts_no_cuda(
    stub: Path, tmp_path: Path, environ: dict[str, str], available: str
) -> None:
    assert ask(tmp_path, "print(cubins.is_available())", stub, **environ) == available
    assert "cuInit" not in calls(tmp_path)
    assert calls(tmp_path).count("nvmlShutdown") == ("nvmlDeviceGetCount_v2" in calls(tmp_path))


HANGING = """
cubins._part("_loading")._ANSWER_SECONDS = 0.1
os.mkfifo('pipe')
print(cubins.is_available(), cubins.is_available(), flush=True)
"""


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize("call", ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlShutdown"])
def test_a_driver_that_hangs_is_none_and_keeps_nobody_from_forking_or_ending(
    stub: Path, tmp_path: Path, call: str
) -> None:
    code = (
        f"{HANGING}child = os.fork()\nif not child: print(cubins.is_available())\nelse: os.waitpid(child, 0)"
    )
    assert ask(tmp_path, code, stub, STANDIN_FAULTS=f"{call}=hang") == "False False\nFalse"


@pytest.mark.gcc
@pytest.mark.linux
def test_while_it_hangs_it_is_asked_no_more_and_once_it_answers_again(stub: Path, tmp_path: Path) -> None:
    code = f"""{HANGING}
(hanging,) = cubins._part("_loading")._hanging
os.close(os.open('pipe', os.O_WRONLY))
hanging.join()
del os.environ['STANDIN_FAULTS']
print(cubins.is_available())
"""
    assert ask(tmp_path, code, stub, STANDIN_FAULTS="nvmlDeviceGetCount_v2=hang") == "False False\nTrue"
    assert calls(tmp_path).count("nvmlInit_v2") == 2


def test_one_question_at_a_time_waits_for_a_driver_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins, answered, asked = load_bundle(tmp_path, bundle(made("k"))), threading.Event(), list[str]()

    def question() -> bool:
        asked.append("question")
        return answered.wait()

    with monkeypatch.context() as impatient:
        impatient.setattr(cubins._part("_loading"), "_ANSWER_SECONDS", 0)
        assert [
            cubins._part("_loading")._in_time(question),
            cubins._part("_loading")._in_time(question),
            len(asked),
        ] == [False, False, 1]
    (hanging,) = cubins._part("_loading")._hanging
    answered.set()
    hanging.join()
    assert [cubins._part("_loading")._in_time(question), len(asked)] == [True, 2]


def test_a_driver_that_hangs_while_it_is_loaded_is_none(tmp_path: Path) -> None:
    cubins, loaded = load_bundle(tmp_path, bundle(made("k"))), threading.Event()
    cubins._part("_loading")._ANSWER_SECONDS = 0
    cubins._part("_loading")._driver_library = lambda: loaded.wait(60)
    assert cubins.is_available() is False
    (hanging,) = cubins._part("_loading")._hanging
    loaded.set()
    hanging.join()


def test_the_thread_that_may_hang_imports_nothing(tmp_path: Path) -> None:
    code = "import sys\ncubins._part('_loading')._in_time = lambda _: 'ctypes' in sys.modules\n"
    code += "print(cubins.is_available())"
    assert ask(tmp_path, code, None) == "True"


@pytest.mark.parametrize("answer", [True, False])
def test_where_no_thread_can_start_the_callers_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, answer: bool
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(threading.Thread, "start", fail)
    assert cubins._part("_loading")._in_time(lambda: answer) is answer


@pytest.mark.gcc
@pytest.mark.linux
def test_a_device_is_available_as_long_as_python_runs_anything(stub: Path, tmp_path: Path) -> None:
    code = "import atexit\natexit.register(lambda: print(cubins.is_available()))"
    assert ask(tmp_path, code, stub) == "True"


@pytest.mark.gcc
@pytest.mark.linux
def test_after_is_available_nobody_is_warned_of_a_fork(stub: Path, tmp_path: Path) -> None:
    code = """
import warnings
warnings.simplefilter("error")
for _ in range(30):
    cubins.is_available()
    child = os.fork()
    if not child: os._exit(0)
    os.waitpid(child, 0)
"""
    assert ask(tmp_path, code, stub) == ""


def test_nobody_waits_for_ever_until_the_system_has_ended_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins, asked = load_bundle(tmp_path, bundle(made("k"))), list[str]()

    def exists(path: str) -> bool:
        asked.append(path)
        return True

    monkeypatch.setattr(os.path, "exists", exists)
    assert cubins._part("_loading")._in_time(lambda: True) is True
    assert (len(asked), len(set(asked))) == (1000, 1)


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize("names", [(), ("nvmlInit_v2", "nvmlShutdown")], ids=["empty", "that cannot count"])
def test_an_nvml_to_link_against_is_none(tmp_path: Path, names: tuple[str, ...]) -> None:
    code = "os.listdir = lambda _: ['nvidia0']\ncubins._part('_loading')._driver_library = object\n"
    code += "print(cubins.is_available())"
    assert ask(tmp_path, code, make_half_a_driver(tmp_path / "half", *names)) == "True"


@pytest.mark.gcc
@pytest.mark.linux
def test_after_is_available_a_forked_child_can_use_cuda(stub: Path, tmp_path: Path) -> None:
    code = (
        "cubins.is_available()\nchild = os.fork()\nif not child:\n"
        "    print(cubins._part('_loading')._driver_version(), flush=True)\n"
        "    os._exit(0)\nos.waitpid(child, 0)"
    )
    assert ask(tmp_path, code, stub) == "13000"


DEVICE_FILES = {
    (): 0,
    ("dxg",): 1,
    ("nvhost-gpu", "nvgpu"): 1,
    ("nvidia0", "nvidiactl", "nvidia-uvm"): 1,
    ("nvidia3", "dxg"): 1,
    ("nvidia-caps", "nvidiactl"): 0,
    ("nvidia1", "nvidia12"): 2,
}


@pytest.mark.parametrize("visible", [None, "0", "1", "GPU-8a"])
@pytest.mark.parametrize("files", DEVICE_FILES)
def test_without_nvml_the_device_files_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], visible: str | None
) -> None:
    import ctypes

    def no_nvml(name: str) -> object:
        if "ml" in name:
            raise OSError(name)
        return types.SimpleNamespace(
            cuInit=None, cuDeviceGetCount=None, cuDriverGetVersion=None, cuGetErrorName=None
        )

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", no_nvml)
    monkeypatch.setattr(os, "listdir", lambda folder: {"/dev": files}[folder])
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cubins.is_available() is (DEVICE_FILES[files] > (visible == "1"))
    monkeypatch.setattr(os, "listdir", lambda _folder: os.scandir(tmp_path / "nothing"))
    assert cubins.is_available() is False


@pytest.mark.parametrize("broken", ["_driver_library", "_ask_nvml"])
def test_is_available_never_raises(tmp_path: Path, broken: str) -> None:
    def fail(**_how: bool) -> None:
        raise RuntimeError

    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._part("_loading")._driver_library = object
    setattr(cubins, broken, fail)
    assert cubins.is_available() is False
    cubins._part("_loading")._in_time = lambda question: question()  # as where no thread can start
    assert cubins.is_available() is False


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize("name", ["nvmlInit_v2", "nvmlDeviceGetCount_v2"])
def test_an_nvml_that_fails_counts_nothing(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import ctypes

    real = ctypes.CDLL
    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", lambda library: real(str(stub / library)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("STANDIN_FAULTS", f"{name}=9")
    assert cubins.is_available() is False


@pytest.mark.gcc
@pytest.mark.linux
def test_devices_are_counted_through_nvml(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    real = ctypes.CDLL
    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: real(str(stub / name)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cubins.is_available()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "  ")
    assert not cubins.is_available()


TWO = {"STANDIN_GPUS": "7.5 9.0"}
BY_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("environ", "available"),
    [
        pytest.param({}, "False", id="one of two runs it not"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1"}, "False", id="in an order that only CUDA knows"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1", **BY_ORDER}, "True", id="the one that runs it"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0", **BY_ORDER}, "False", id="the other one"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-01"}, "True", id="that one by its UUID"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "MIG-01"}, "False", id="a part of any"),
        pytest.param(
            {"CUDA_VISIBLE_DEVICES": "1", **BY_ORDER, "STANDIN_FAULTS": "nvmlDeviceGetHandleByIndex_v2=15"},
            "False",
            id="one that is lost",
        ),
    ],
)
def test_a_kernel_is_available_if_each_gpu_runs_it_that_cuda_would_show(
    stub: Path, tmp_path: Path, environ: dict[str, str], available: str
) -> None:
    install(tmp_path / "pkg", bundle(made("k", "sm_90")))
    assert ask(tmp_path, "print(cubins.is_available('k'))", stub, **TWO, **environ) == available


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("faults", "available"),
    [("nvmlInit_v2=3", "True True"), ("nvmlInit_v2=3 cuDeviceGetAttribute=1", "True False")],
    ids=["described", "not described"],
)
def test_once_cuda_was_started_here_the_driver_is_asked(
    stub: Path, tmp_path: Path, faults: str, available: str
) -> None:
    code = (
        "cubins._part('_loading')._driver_version()\nprint(cubins.is_available(), cubins.is_available('k'))"
    )
    assert ask(tmp_path, code, stub, STANDIN_FAULTS=faults) == available


@pytest.mark.gcc
@pytest.mark.linux
def test_a_child_that_cannot_use_cuda_is_told_so(stub: Path, tmp_path: Path) -> None:
    code = (
        "cubins._part('_loading')._driver_version()\nchild = os.fork()\n"
        "if child: os.waitpid(child, 0)\nelse: print(cubins.is_available())"
    )
    assert ask(tmp_path, code, stub) == "False"


SUBINTERPRETER = """
import sys
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
code = '''
import sys
sys.path[:] = {path}
from pkg import _cubins as cubins
print(cubins.read("k", cc=(9, 0)), cubins.is_available(), flush=True)
try: print(cubins._part("_loading")._driver_version(), flush=True)
except cubins.CubinUnavailableError as exc: print(exc, flush=True)
'''
failed = interpreters.run_string(interpreters.create(), code.replace("{path}", repr(sys.path)))
print(failed, flush=True)
os._exit(0)
"""


@pytest.mark.gcc
@pytest.mark.linux
def test_an_isolated_subinterpreter_has_what_its_python_lets_it_have(stub: Path, tmp_path: Path) -> None:
    read, *rest = ask(tmp_path, SUBINTERPRETER, stub).splitlines()
    if sys.version_info[:2] == (3, 12):  # whose ctypes cannot be imported there
        assert read == "b'k for sm_90' False"
        assert "module _ctypes does not support loading in subinterpreters" in rest[0]
    else:
        assert (read, rest[0]) == ("b'k for sm_90' True", "13000")
    assert rest[1:] == ["None"]


A, B = ((9, 0), 13000), ((7, 5), 13000)


@pytest.mark.parametrize(
    ("names", "order", "visible"),
    [
        ("0", "PCI_BUS_ID", [A]),
        ("1,0", "PCI_BUS_ID", [B, A]),
        ("1st,0", "PCI_BUS_ID", [B, A]),
        (" +1 ", "PCI_BUS_ID", [B]),
        ("1,-1,0", "PCI_BUS_ID", [B]),
        ("1,2,0", "PCI_BUS_ID", [B]),
        ("2,0", "PCI_BUS_ID", []),
        ("0,1,0", "PCI_BUS_ID", []),
        ("1", "FASTEST_FIRST", [A, B]),
        ("", "FASTEST_FIRST", []),
        ("NoDevFiles", "FASTEST_FIRST", []),
        ("GPU-b", "FASTEST_FIRST", [B]),
        ("GPU-b,GPU-a", "FASTEST_FIRST", [B, A]),
        ("GPU-b,GPU-b", "FASTEST_FIRST", []),
        ("GPU-c", "FASTEST_FIRST", []),
        ("MIG-a/1/2", "FASTEST_FIRST", [A, B]),
    ],
)
def test_what_cuda_visible_devices_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, order: str, visible: list[object]
) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
    monkeypatch.setattr(cubins._part("_loading"), "_driver_library", object)
    monkeypatch.setattr(
        cubins._part("_loading"), "_ask_nvml", lambda describe: [("GPU-a1", A), ("GPU-b2", B)]
    )
    gpus: list[object] = []
    assert cubins._part("_loading")._add_visible_gpus(gpus, describe=True) is bool(visible)
    assert gpus == visible


@pytest.mark.parametrize("lacking", ["", "cuDeviceGetAttribute"])
def test_a_driver_that_runs_in_this_process_describes_its_devices(tmp_path: Path, lacking: str) -> None:
    def describe(part: Any, attribute: int, ordinal: int) -> int:
        part._obj.value = {75: 9 - ordinal, 76: 0}[attribute]
        return 0

    driver = Driver(lacking=lacking)
    driver.__dict__["cuDeviceGetAttribute"] = describe
    cubins = load(tmp_path, made("k", "sm_80"), made("k"), driver=driver)
    assert cubins._part("_loading")._driver_version() == 13000
    gpus: list[object] = []
    assert cubins._part("_loading")._add_visible_gpus(gpus, describe=True)
    assert gpus == ([None, None] if lacking else [((9, 0), 13000), ((8, 0), 13000)])
    assert cubins.is_available("k") is not bool(lacking)


def test_where_cuda_was_used_before_the_fork_it_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins = load(tmp_path, made("k"))
    assert cubins._part("_loading")._driver_version() == 13000
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert cubins.is_available() is False


def test_a_start_that_fails_beside_one_that_worked_forgets_nothing(tmp_path: Path) -> None:
    driver = Driver()
    cubins = load(tmp_path, made("k"), driver=driver)
    assert cubins._part("_loading")._driver_version() == 13000
    driver.__dict__["cuInit"] = lambda _flags: 999
    with pytest.raises(cubins.CubinUnavailableError):
        cubins._part("_loading")._start_driver(os.getpid())  # as of a thread that asked at the same time
    assert cubins._part("_loading")._driver_version() == 13000


@pytest.mark.parametrize("status", [3, 9, 18, 999])
def test_an_nvml_that_fails_says_whether_there_is_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    import ctypes

    nvml = types.SimpleNamespace(nvmlInit_v2=lambda: status, nvmlShutdown=None)
    cubins = load(tmp_path, made("k"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: nvml)
    monkeypatch.setattr(os, "listdir", lambda _folder: ["nvidia1"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cubins.is_available() is (status not in (9, 18))
    del nvml.nvmlInit_v2  # a library to link against says nothing
    assert cubins.is_available() is True
