"""Loading through cuda.core: a stand-in for cuda.core, and a driver that answers as it is told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, write_tree

STUB = r"""
#include <stdio.h>
#include <stdlib.h>
static int answer(const char *name, int otherwise) {
  const char *text = getenv(name), *log = getenv("STUB_LOG");
  if (log) { FILE *file = fopen(log, "a"); fprintf(file, "%s\n", name); fclose(file); }
  return text ? atoi(text) : otherwise;
}
int cuInit(unsigned flags) { return answer("STUB_INIT", 0); }
int cuDeviceGetCount(int *count) { *count = answer("STUB_COUNT", 1); return 0; }
int cuDriverGetVersion(int *version) {
  *version = answer("STUB_VERSION", 13000);
  return answer("STUB_VERSION_STATUS", 0);
}
int cuGetErrorName(int status, const char **name) {
  *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : 0; return *name ? 0 : 1;
}
int nvmlInit_v2(void) { return answer("STUB_NVML", 0); }
int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = answer("STUB_COUNT", 1);
  return answer("STUB_NVML_COUNT", 0);
}
int nvmlShutdown(void) { return answer("STUB_NVML_SHUTDOWN", 0); }
"""


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver and an NVML whose answers the environment sets."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "stub.c").write_text(STUB)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", name, "stub.c"], cwd=folder, check=True)
    return folder


def ask(tmp_path: Path, code: str, libraries: Path | None, **environ: str) -> str:
    """Run *code* on a bundle in a process of its own and return what it printed."""
    package = tmp_path / "pkg"
    if not package.exists():
        files = bundle(made("k", "sm_90"), made("k", "compute_80"))
        write_tree(package, {"__init__.py": "", **{f"_cubins/{name}": data for name, data in files.items()}})
    clean = {
        name: text
        for name, text in os.environ.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
    }
    searched = {} if libraries is None else {"LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", f"import os\nfrom pkg import _cubins as cubins\n{code}"],
        cwd=tmp_path,
        env={**clean, **searched, "STUB_LOG": str(tmp_path / "calls"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def calls(tmp_path: Path) -> list[str]:
    log = tmp_path / "calls"
    return log.read_text().split() if log.exists() else []


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("environ", "available"),
    [
        pytest.param({}, "True", id="a device"),
        pytest.param({"STUB_COUNT": "0"}, "False", id="no device"),
        pytest.param({"STUB_NVML": "9"}, "False", id="NVML fails"),
        pytest.param({"STUB_NVML_COUNT": "9"}, "False", id="NVML does not count"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, "False", id="none visible"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "-1"}, "False", id="hidden"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, "True", id="visible"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1,0"}, "False", id="one that is not there"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-8a"}, "True", id="by its UUID"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "none"}, "False", id="no device's name"),
    ],
)
def test_is_available_starts_no_cuda(
    stub: Path, tmp_path: Path, environ: dict[str, str], available: str
) -> None:
    assert ask(tmp_path, "print(cubins.is_available())", stub, **environ) == available
    assert "STUB_INIT" not in calls(tmp_path)
    assert calls(tmp_path).count("STUB_NVML_SHUTDOWN") == ("STUB_NVML_COUNT" in calls(tmp_path))


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param({"STUB_COUNT": "0"}, "the CUDA driver finds no device", id="no device"),
        pytest.param(
            {"STUB_INIT": "100"},
            "the CUDA driver cannot be used: CUDA_ERROR_NO_DEVICE (100)",
            id="a known error",
        ),
        pytest.param(
            {"STUB_INIT": "77777"}, "the CUDA driver cannot be used: error (77777)", id="an unknown error"
        ),
        pytest.param(
            {"STUB_VERSION_STATUS": "1"}, "the CUDA driver cannot be used: error (1)", id="no version"
        ),
        pytest.param(
            {"STUB_INIT": "3"},
            "error (3); was CUDA used before this process was forked? start processes with spawn",
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


NO_DRIVER = "cubins._driver_library = lambda: None\n"


@pytest.mark.parametrize("call", ["kernel", "module", "find", "read"])
def test_no_driver_is_unavailable(tmp_path: Path, call: str) -> None:
    code = f"{NO_DRIVER}try: cubins.{call}('k')\nexcept cubins.CubinUnavailableError as exc: print(exc)"
    assert "there is no CUDA driver on this machine" in ask(tmp_path, code, None)


FORK = """\
cubins._driver_version()
child = os.fork()
if not child:
    try: cubins._driver_version()
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
def test_after_is_available_a_forked_child_can_use_cuda(stub: Path, tmp_path: Path) -> None:
    code = (
        "cubins.is_available()\nchild = os.fork()\nif not child:\n"
        "    print(cubins._driver_version(), flush=True)\n    os._exit(0)\nos.waitpid(child, 0)"
    )
    assert ask(tmp_path, code, stub) == "13000"


@pytest.mark.gcc
@pytest.mark.linux
def test_the_driver_is_started_once(stub: Path, tmp_path: Path) -> None:
    assert ask(tmp_path, "print(cubins._driver_version(), cubins._driver_version())", stub) == "13000 13000"
    assert calls(tmp_path).count("STUB_INIT") == 1


# --- with a stand-in for cuda.core ----------------------------------------------------------------


class Driver:
    """What the loader asks of the driver, answered by Python."""

    def __init__(self, version: int = 13000) -> None:
        self.version = version

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self.version
        return 0


class Device:
    def __init__(self, ordinal: int | None = None) -> None:
        if ordinal not in (None, 0, 1):
            raise ValueError(f"device_id must be within [0, 2), got {ordinal}")
        self.compute_capability = (8, 0) if ordinal == 1 else (9, 0)


class ObjectCode:
    made: list[ObjectCode]

    def __init__(self, kind: str, data: bytes, name: str, symbol_mapping: dict[str, bytes]) -> None:
        self.kind, self.data, self.name, self.symbols = kind, data, name, symbol_mapping
        type(self).made.append(self)

    @classmethod
    def from_cubin(cls, data: bytes, **how: Any) -> ObjectCode:
        return cls("cubin", data, **how)

    @classmethod
    def from_ptx(cls, data: bytes, **how: Any) -> ObjectCode:
        return cls("ptx", data, **how)

    def get_kernel(self, name: str) -> tuple[ObjectCode, str]:
        return self, name


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Put a cuda.core into place that records what it is given."""
    package, core = types.ModuleType("cuda"), types.ModuleType("cuda.core")
    recording = type("ObjectCode", (ObjectCode,), {"made": []})
    core.__dict__.update(Device=Device, ObjectCode=recording)
    package.__dict__.update(core=core)
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    return core


def load(tmp_path: Path, *built: Any, driver: int = 13000) -> Any:
    cubins = load_bundle(tmp_path, bundle(*built))
    cubins._driver_library = lambda: Driver(driver)
    return cubins


SCALE = {"scale<float, 4>": "_Z5scaleIfLi4EEvPT_"}


@pytest.mark.usefixtures("core")
def test_kernel_asks_for_the_symbol_of_the_verified_code(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels=SCALE))
    code, symbol = cubins.kernel("scale<float,4>")
    assert (code.kind, code.data, code.name) == ("cubin", b"m for sm_90", "m")
    assert symbol == "_Z5scaleIfLi4EEvPT_"


@pytest.mark.usefixtures("core")
def test_module_takes_the_names_of_templates_along_as_bytes(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels=SCALE))
    assert cubins.module("m").symbols == {"scale<float, 4>": b"_Z5scaleIfLi4EEvPT_"}


@pytest.mark.usefixtures("core")
def test_ptx_is_loaded_as_ptx_where_no_cubin_fits(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("k", "sm_100"), made("k", "compute_80"))
    code = cubins.module("k")
    assert (code.kind, code.data) == ("ptx", b".version 8.0\n// k for compute_80")


@pytest.mark.usefixtures("core")
def test_the_driver_decides_with(tmp_path: Path) -> None:
    built = made("k", "sm_90"), made("k", "compute_80")
    assert load(tmp_path, *built, driver=12040).find("k").arch == "compute_80"
    assert load(tmp_path, *built, driver=12040).find("k", driver=None).arch == "sm_90"
    assert load(tmp_path, *built, driver=13000).find("k").arch == "sm_90"


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("device", "arch"),
    [
        pytest.param(None, "sm_90", id="current"),
        pytest.param(0, "sm_90", id="ordinal"),
        pytest.param(1, "sm_80", id="another"),
        pytest.param(Device(1), "sm_80", id="Device"),
    ],
)
def test_the_device_is_an_ordinal_or_a_device(tmp_path: Path, device: Any, arch: str) -> None:
    cubins = load(tmp_path, made("k", "sm_80"), made("k", "sm_90"))
    assert cubins.find("k", device=device).arch == arch
    assert cubins.read("k", device=device) == f"k for {arch}".encode()
    assert cubins.module("k", device=device).data == f"k for {arch}".encode()
    assert cubins.kernel("k", device=device)[0].data == f"k for {arch}".encode()


@pytest.mark.usefixtures("core")
def test_a_device_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("k"))
    message = r"CUDA device 7 cannot be used: device_id must be within \[0, 2\), got 7"
    with pytest.raises(cubins.CubinUnavailableError, match=message):
        cubins.kernel("k", device=7)


def test_the_current_device_may_be_what_cannot_be_used(tmp_path: Path, core: types.ModuleType) -> None:
    def broken(_ordinal: object) -> None:
        raise SystemError("no context")

    cubins = load(tmp_path, made("k"))
    core.__dict__["Device"] = type("Broken", (), {"__new__": lambda _cls, ordinal: broken(ordinal)})
    with pytest.raises(
        cubins.CubinUnavailableError, match="the current CUDA device cannot be used: no context"
    ):
        cubins.kernel("k")


def test_no_cuda_core_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load(tmp_path, made("k"))
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.delitem(sys.modules, "cuda.core", raising=False)
    with pytest.raises(
        cubins.CubinUnavailableError,
        match=r"loading kernels needs cuda.core \(pip install .*, which cannot be imported",
    ):
        cubins.kernel("k")
    monkeypatch.setitem(sys.modules, "cuda.core.utils", None)
    with pytest.raises(
        cubins.CubinUnavailableError,
        match=r"cache\(\) needs cuda.core \(pip install .*, which cannot be imported",
    ):
        cubins.cache()


@pytest.mark.usefixtures("core")
def test_a_module_of_several_kernels_needs_a_kernels_name(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels={"f": "f", "g": "g"}), made("one", kernels={"h": "h"}))
    assert cubins.kernel("one")[1] == "h"
    assert cubins.kernel("f")[1] == "f"
    with pytest.raises(cubins.CubinNotFoundError, match="module 'm' has several kernels, name one: 'f', 'g'"):
        cubins.kernel("m")


@pytest.mark.usefixtures("core")
def test_a_module_without_a_kernel_says_so(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("none", kernels={}))
    assert cubins.module("none").name == "none"
    with pytest.raises(cubins.CubinNotFoundError, match="module 'none' has no kernel "):
        cubins.kernel("none")


@pytest.mark.usefixtures("core")
def test_module_and_variant_say_which(tmp_path: Path) -> None:
    variants = [made("red", kernels={"r": "r"}, variant={"device": value}) for value in ("1", "2")]
    cubins = load(tmp_path, made("a", kernels={"f": "f"}), made("b", kernels={"f": "f"}), *variants)
    assert cubins.module("f", module="b").name == "b"
    assert cubins.kernel("f", module="a")[0].name == "a"
    assert cubins.module("red", variant={"device": 2}).name == "red[device=2]"


def test_sixteen_threads_load_once(tmp_path: Path, core: types.ModuleType) -> None:
    cubins, barrier, got = load(tmp_path, made("k"), made("other")), threading.Barrier(16), []

    def ask_for_it() -> None:
        barrier.wait()
        got.append(cubins.kernel("k"))

    threads = [threading.Thread(target=ask_for_it) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 16
    assert [code.name for code in core.ObjectCode.made] == ["k"]
    cubins.kernel("k")
    cubins.module("other")
    assert [code.name for code in core.ObjectCode.made] == ["k", "other"]


def test_threads_that_ask_for_thousands_of_kernels_load_each_once(
    tmp_path: Path, core: types.ModuleType
) -> None:
    names = [f"k{number:04}" for number in range(3000)]
    cubins = load(tmp_path, *(made(name, data=name[-2:].encode()) for name in names))
    barrier, got = threading.Barrier(8), []

    def ask_for_all(first: int) -> None:
        barrier.wait()
        for name in (*names[first:], *names[:first]):
            code, symbol = cubins.kernel(name)
            got.append((code.name, symbol) == (name, name))

    threads = [threading.Thread(target=ask_for_all, args=(375 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [True] * 8 * 3000
    assert sorted(code.name for code in core.ObjectCode.made) == names


@pytest.mark.linux
def test_children_that_are_forked_while_threads_read_read_on(tmp_path: Path) -> None:
    """Whatever the loader holds at that moment, no child may wait for a lock of a thread that it lacks."""
    code = """\
import threading
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


@pytest.mark.usefixtures("core")
def test_two_modules_of_the_same_bytes_keep_their_own_names(tmp_path: Path) -> None:
    one, other = ({f"f<{number}>": "f"} for number in (1, 2))
    cubins = load(tmp_path, made("a", kernels=one, data=b"same"), made("b", kernels=other, data=b"same"))
    assert cubins.find("a").file == cubins.find("b").file == "a.sm_90.cubin"
    assert (cubins.module("a").symbols, cubins.module("b").symbols) == ({"f<1>": b"f"}, {"f<2>": b"f"})


def test_damage_reaches_no_driver(tmp_path: Path, core: types.ModuleType) -> None:
    cubins = load(tmp_path, made("k"))
    (tmp_path / "k.sm_90.cubin").write_bytes(b"wrong")
    for call in (cubins.kernel, cubins.module, cubins.read):
        with pytest.raises(cubins.CubinDamagedError):
            call("k")
    assert core.ObjectCode.made == []


def test_the_driver_is_looked_for_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    asked: list[str] = []

    def missing(name: str) -> None:
        asked.append(name)
        raise OSError(name)

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert cubins._driver_library() is None
    assert cubins.is_available() is False
    assert asked == ["nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"] * 2


@pytest.mark.parametrize("files", [(), ("/dev/dxg",), ("/dev/nvidia0",), ("/dev/nvhost-gpu",)])
def test_without_nvml_the_device_files_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    import ctypes

    def no_nvml(name: str) -> object:
        if "ml" in name:
            raise OSError(name)
        return object()

    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", no_nvml)
    monkeypatch.setattr(os.path, "exists", files.__contains__)
    assert cubins.is_available() is bool(files)


def test_is_available_never_raises(tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError

    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._driver_library = broken
    assert cubins.is_available() is False


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (("STUB_COUNT", "0"), "the CUDA driver finds no device"),
        (("STUB_INIT", "100"), r"cannot be used: CUDA_ERROR_NO_DEVICE \(100\)"),
        (("STUB_INIT", "5"), r"cannot be used: error \(5\)"),
    ],
)
def test_a_failing_start_is_tried_again(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str], message: str
) -> None:
    import ctypes

    library = ctypes.CDLL(str(stub / "libcuda.so.1"))
    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._driver_library = lambda: library
    monkeypatch.setenv(*answer)
    with pytest.raises(cubins.CubinUnavailableError, match=message):
        cubins._driver_version()
    monkeypatch.delenv(answer[0])
    assert cubins._driver_version() == 13000
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(cubins.CubinUnavailableError, match="before this process was forked"):
        cubins._driver_version()


def test_no_driver_library_is_unavailable(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._driver_library = lambda: None
    with pytest.raises(cubins.CubinUnavailableError, match="there is no CUDA driver on this machine"):
        cubins.kernel("k")
    with pytest.raises(cubins.CubinNotFoundError):  # a name is looked up first
        cubins.kernel("typo")


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.parametrize("name", ["STUB_NVML", "STUB_NVML_COUNT"])
def test_an_nvml_that_fails_counts_nothing(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import ctypes

    real = ctypes.CDLL
    cubins = load_bundle(tmp_path, bundle(made("k")))
    monkeypatch.setattr(ctypes, "CDLL", lambda library: real(str(stub / library)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv(name, "9")
    assert cubins._count_devices() == 0


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
    assert cubins._driver_version() == 13000
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "  ")
    assert not cubins.is_available()


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ("get_kernel", "the driver cannot load 'm': CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
        ("from_cubin", "cuda.core cannot take m.sm_90.cubin: CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    ],
)
def test_what_cuda_core_raises_comes_out_typed(
    tmp_path: Path, core: types.ModuleType, monkeypatch: pytest.MonkeyPatch, failing: str, message: str
) -> None:
    def fail(*_arguments: Any, **_named: Any) -> None:
        raise RuntimeError("CUDA_ERROR_JIT_COMPILER_NOT_FOUND")

    monkeypatch.setattr(core.ObjectCode, failing, fail)
    cubins = load(tmp_path, made("m"))
    with pytest.raises(cubins.CubinUnavailableError) as caught:
        cubins.kernel("m")
    assert message in str(caught.value)
