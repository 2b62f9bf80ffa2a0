"""The driver: what keeps it from being used is told, and what a fork does."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from tests.helpers import bundle, load_bundle, made
from tests.standin import ask, calls, make_half_a_driver


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    "names",
    [(), ("cuDeviceGetCount", "cuDriverGetVersion", "cuGetErrorName"), ("cuInit",)],
    ids=["empty", "without cuInit", "cuInit alone"],
)
def test_a_library_to_link_against_is_no_driver(tmp_path: Path, names: tuple[str, ...]) -> None:
    code = (
        "print(cubins.is_available())\n"
        "try: cubins.kernel('k')\nexcept cubins.CubinUnavailableError as exc: print(exc)"
    )
    available, said = ask(tmp_path, code, make_half_a_driver(tmp_path / "half", *names)).splitlines()
    assert available == "False"
    assert said.startswith("pkg._cubins: there is no CUDA driver; ")


OUT_OF_DESCRIPTORS = """
cubins._part("_loading")
import ctypes, difflib, hashlib, resource, threading
cubins.find('k', cc=(9, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
held = []
try:
    while True: held.append(os.open(os.devnull, os.O_RDONLY))
except OSError: pass
try: cubins.kernel('k')
except cubins.CubinUnavailableError as exc: said = str(exc)
available = cubins.is_available()
for each in held: os.close(each)
print(said)
print(available, cubins.is_available())
"""


@pytest.mark.gcc
@pytest.mark.linux
def test_a_driver_that_cannot_be_opened_now_is_not_said_to_be_missing(stub: Path, tmp_path: Path) -> None:
    said, available = ask(tmp_path, OUT_OF_DESCRIPTORS, stub).splitlines()
    fault = "libcuda.so.1: cannot open shared object file: Too many open files"
    assert said.startswith(f"pkg._cubins: the CUDA driver cannot be loaded: {fault} (bundle of ")
    assert available == "False True"


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param(
            {"STANDIN_FAULTS": "cuDeviceGetCount=forget"}, "the CUDA driver finds no device", id="no device"
        ),
        pytest.param(
            {"STANDIN_GPUS": ""},
            "the CUDA driver cannot be used: CUDA_ERROR_NO_DEVICE (100)",
            id="a known error",
        ),
        pytest.param(
            {"STANDIN_FAULTS": "cuInit=77777"},
            "the CUDA driver cannot be used: error (77777)",
            id="an unknown error",
        ),
        pytest.param(
            {"STANDIN_FAULTS": "cuDriverGetVersion=1"},
            "the CUDA driver cannot be used: error (1)",
            id="no version",
        ),
        pytest.param(
            {"STANDIN_FAULTS": "cuInit=3"},
            "error (3); perhaps CUDA was used before this process was forked: start processes with spawn",
            id="forked after another library used CUDA",
        ),
    ],
)
@pytest.mark.parametrize("call", ["kernel", "module", "find", "read"])
def test_a_driver_without_a_device_is_unavailable(
    stub: Path, tmp_path: Path, environ: dict[str, str], message: str, call: str
) -> None:
    code = f"try: cubins.{call}('k')\nexcept cubins.CubinUnavailableError as exc: print(exc)"
    assert message in ask(tmp_path, code, stub, **environ)


NO_DRIVER = "cubins._part('_loading')._driver_library = lambda: None\n"


@pytest.mark.parametrize("call", ["kernel", "module", "find", "read"])
def test_no_driver_is_unavailable(tmp_path: Path, call: str) -> None:
    code = f"{NO_DRIVER}try: cubins.{call}('k')\nexcept cubins.CubinUnavailableError as exc: print(exc)"
    assert "there is no CUDA driver" in ask(tmp_path, code, None)


FORK = """\
cubins._part("_loading")._driver_version()
child = os.fork()
if not child:
    try: cubins._part("_loading")._driver_version()
    except cubins.CubinUnavailableError as exc: print(exc, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.gcc
@pytest.mark.linux
def test_after_cuda_was_used_a_forked_child_is_told(stub: Path, tmp_path: Path) -> None:
    assert "CUDA was used before this process was forked: start processes with spawn" in ask(
        tmp_path, FORK, stub
    )


@pytest.mark.gcc
@pytest.mark.linux
def test_the_driver_is_started_once(stub: Path, tmp_path: Path) -> None:
    assert (
        ask(
            tmp_path,
            "print(cubins._part('_loading')._driver_version(), cubins._part('_loading')._driver_version())",
            stub,
        )
        == "13000 13000"
    )
    assert calls(tmp_path).count("cuInit") == 1


@pytest.mark.linux
def test_children_that_are_forked_while_threads_read_read_on(tmp_path: Path) -> None:
    """Whatever the loader holds at that moment, no child may wait for a lock of a thread that it lacks."""
    code = """\
import threading
cubins.read('k', cc=(9, 0))  # what is imported for the first time while it is forked Python itself locks
done = threading.Event()
def read():
    while not done.is_set():
        cubins._own.clear()
        assert cubins.read('k', cc=(9, 0)) == b'k for sm_90'
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
children = []
for _ in range(40):
    child = os.fork()
    if not child:
        os._exit(cubins.read('k', cc=(9, 0)) != b'k for sm_90' or len(cubins.archs()) != 2)
    children.append(child)
print(*{os.waitpid(child, 0)[1] for child in children})
done.set()
for thread in threads: thread.join()
"""
    assert ask(tmp_path, code, None) == "0"


def test_the_driver_is_looked_for_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    asked: list[str] = []

    def missing(name: str) -> None:
        asked.append(name)
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert cubins._part("_loading")._driver_library() is None
    assert cubins.is_available() is False
    assert asked == ["nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"] * 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO])
def test_a_driver_that_the_system_cannot_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    import ctypes

    fault = f"libcuda.so.1: cannot open shared object file: {os.strerror(number)}"

    def fail(_name: str) -> None:
        raise OSError(fault)

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", fail)
    with pytest.raises(cubins.CubinUnavailableError, match=f"the CUDA driver cannot be loaded: {fault}"):
        cubins.kernel("k")
    assert cubins.is_available() is False


def test_a_python_that_cannot_call_libraries_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setitem(sys.modules, "ctypes", None)
    with pytest.raises(cubins.CubinUnavailableError, match=r"cannot be loaded: import of ctypes"):
        cubins.kernel("k")
    assert cubins.is_available() is False


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (("STANDIN_FAULTS", "cuDeviceGetCount=forget"), "the CUDA driver finds no device"),
        (("STANDIN_GPUS", ""), r"cannot be used: CUDA_ERROR_NO_DEVICE \(100\)"),
        (("STANDIN_FAULTS", "cuInit=5"), r"cannot be used: error \(5\)"),
    ],
)
def test_a_failing_start_is_tried_again(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str], message: str
) -> None:
    import ctypes

    library = ctypes.CDLL(str(stub / "libcuda.so.1"))
    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._part("_loading")._driver_library = lambda: library
    monkeypatch.setenv(*answer)
    with pytest.raises(cubins.CubinUnavailableError, match=message):
        cubins._part("_loading")._driver_version()
    monkeypatch.delenv(answer[0])
    assert cubins._part("_loading")._driver_version() == 13000
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(cubins.CubinUnavailableError, match="before this process was forked"):
        cubins._part("_loading")._driver_version()


def test_no_driver_library_is_unavailable(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._part("_loading")._driver_library = lambda: None
    with pytest.raises(cubins.CubinUnavailableError, match="there is no CUDA driver"):
        cubins.kernel("k")
    with pytest.raises(cubins.CubinNotFoundError):  # a name is looked up first
        cubins.kernel("typo")
