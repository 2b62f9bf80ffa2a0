"""Strict loading: what the driver would have to translate is not found, and can be asked about before."""

from __future__ import annotations

import ctypes
import os
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, write_tree
from tests.standin import ask

from .doubles import Driver, load

CALLS = {
    "kernel": lambda cubins: cubins.kernel("k"),
    "module": lambda cubins: cubins.module("k"),
    "preload all": lambda cubins: cubins.preload(),
    "preload": lambda cubins: cubins.preload("k"),
    "preload like": lambda cubins: cubins.preload("*"),
    "find": lambda cubins: cubins.find("k"),
    "read": lambda cubins: cubins.read("k"),
    "find by capability": lambda cubins: cubins.find("k", cc=(9, 0)),
    "read by capability": lambda cubins: cubins.read("k", cc=(9, 0)),
}
OTHER = made("other", "sm_90")
FRESH = b".version 8.0\n.entry k("
ARCHS_OF_K = "the archs of 'k' (demo/k.cu)"


@pytest.mark.parametrize("call", CALLS)
def test_what_would_be_translated_is_not_found_and_nothing_is_loaded(
    tmp_path: Path, core: types.ModuleType, call: str
) -> None:
    cubins = load(tmp_path, made("k", "sm_100"), made("k", "compute_80"), OTHER)
    CALLS[call](cubins)
    loaded = len(core.ObjectCode.made)
    with cubins.use(strict=True), pytest.raises(cubins.CubinNotFoundError) as caught:
        CALLS[call](cubins)
    assert str(caught.value).partition(" (bundle of ")[0] == (
        f"{cubins.__name__}: 'k' for compute capability 9.0 is PTX (compute_80), which strict loading "
        f'refuses; add "sm_90" to {ARCHS_OF_K}; build again without HATCH_CUBIN_ARCHS'
    )
    assert len(core.ObjectCode.made) == loaded
    CALLS[call](cubins)


@pytest.mark.usefixtures("core")
def test_a_cubin_is_found_as_ever(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("k", "sm_90"), made("k", "compute_80"))
    with cubins.use(strict=True):
        assert [cubins.find("k").arch, cubins.module("k").kind] == ["sm_90", "cubin"]
        assert [each.entry.arch for each in cubins.preload().loaded] == ["sm_90"]


PTX_AND_MORE = {
    "install a newer driver, or build with an older toolkit": (
        [made("k", "sm_90"), made("k", "compute_80")],
        12040,
    ),
    f'add "sm_90" to {ARCHS_OF_K}; build again without HATCH_CUBIN_ARCHS': (
        [made("k", "compute_80")],
        13000,
    ),
    "demo/m.cu does not define this kernel for the shipped arch sm_90": (
        [made("m", "sm_90", {"other": "o"}), made("m", "compute_80", {"k": "k", "other": "o"})],
        13000,
    ),
}


@pytest.mark.parametrize("fix", PTX_AND_MORE)
def test_what_would_serve_without_being_translated_is_told(tmp_path: Path, fix: str) -> None:
    built, driver = PTX_AND_MORE[fix]
    cubins = load_bundle(tmp_path, bundle(*built))
    with cubins.use(strict=True), pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.find("k", cc=(9, 0), driver=driver)
    assert f", which strict loading refuses; {fix} (bundle of " in str(caught.value)


def test_ptx_that_use_was_given_is_refused_as_what_it_is(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    with cubins.use({"k": FRESH}, strict=True), pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.find("k", cc=(9, 0))
    assert str(caught.value).partition(" (bundle of ")[0] == (
        f"{cubins.__name__}: 'k' for compute capability 9.0 is PTX, which strict loading refuses; "
        "give use() machine code"
    )


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        *((text, True) for text in ("1", "true", "True", "yes")),
        *((text, False) for text in ("", "0", "false", "False", "no", "OFF")),
    ],
)
def test_the_environment_can_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, *, strict: bool
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_STRICT", text)
    cubins = load_bundle(tmp_path, bundle(made("k", "compute_80")))
    if strict:
        with pytest.raises(cubins.CubinNotFoundError):
            cubins.find("k", cc=(9, 0))
    with cubins.use(strict=False):
        assert cubins.find("k", cc=(9, 0)).arch == "compute_80"
    assert cubins._layer().strict is strict


def test_overrides_keep_what_they_say_nothing_of(tmp_path: Path) -> None:
    files = bundle(made("k", "compute_80"))
    cubins = load_bundle(tmp_path / "own", files)
    write_tree(tmp_path / "other", files)
    fresh = {"k": FRESH}

    def strict() -> bool:
        try:
            cubins.find("k", cc=(9, 0))
        except cubins.CubinNotFoundError:
            return True
        return False

    with cubins.use(strict=True):
        for what in (tmp_path / "other", None, fresh):
            with cubins.use(what):
                assert strict()
            with cubins.use(what, strict=False):
                assert not strict()
                with cubins.use(strict=True):
                    assert strict()
    assert not strict()
    with cubins.use(fresh), cubins.use(strict=False):
        assert cubins.read("k", cc=(9, 0)) == fresh["k"]


def test_ptx_that_use_was_given_is_ptx_too(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90")))
    with cubins.use({"k": FRESH}, strict=True):
        with pytest.raises(cubins.CubinNotFoundError) as caught:
            cubins.find("k", cc=(9, 0))
        assert "'k' for compute capability 9.0 is PTX, which strict loading refuses" in str(caught.value)
        with cubins.use({"k": b"\x7fELF\0.text.k\0"}):
            assert cubins.find("k", cc=(9, 0)).kind == "cubin"


# --- what would be translated ---


MIXED = (
    *(made("both", arch) for arch in ("sm_90", "compute_80")),
    made("ptx", "compute_80", {"f": "f", "g": "g"}),
    made("part", "sm_90", {"a": "a"}),
    made("part", "compute_80", {"a": "a", "b": "b"}),
    made("hopper", "sm_90a"),
)


@pytest.mark.parametrize(
    ("gpu", "modules"),
    [
        pytest.param({"cc": (9, 0)}, ["part", "ptx"], id="one arch"),
        pytest.param({"cc": (8, 6)}, ["both", "part", "ptx"], id="another"),
        pytest.param({"cc": (9, 0), "driver": 12040}, ["both", "part", "ptx"], id="an older driver"),
        pytest.param({"cc": (7, 5)}, [], id="one that nothing fits"),
        pytest.param({}, ["part", "ptx"], id="the current device"),
        pytest.param({"device": 1}, ["both", "part", "ptx"], id="another device"),
        pytest.param({"driver": None}, ["part", "ptx"], id="any driver"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.usefixtures("core")
def test_what_would_be_translated_on_a_gpu_is_reported(
    tmp_path: Path, gpu: dict[str, Any], modules: list[str], *, strict: bool
) -> None:
    cubins = load(tmp_path, *MIXED)
    with cubins.use(strict=strict):
        found = cubins.translated(**gpu)
    assert [each.module for each in found] == modules
    assert {each.rule for each in found} <= {"PTX, translated by the driver"}


def test_each_file_of_a_module_that_would_be_translated_is_reported(tmp_path: Path) -> None:
    old, new = made("m", "compute_80", {"f": "f", "g": "g"}), made("m", "compute_90", {"g": "g"})
    found = load_bundle(tmp_path, bundle(old, new)).translated(cc=(9, 0))
    assert [each.file for each in found] == ["m.compute_80.ptx", "m.compute_90.ptx"]


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    "gpu", [{"cc": 90}, {"cc": (9, 0), "driver": "13.0"}, {"cc": (9, 0), "device": 0}, {"device": "0"}]
)
def test_a_gpu_that_cannot_be_meant_is_a_type_error(tmp_path: Path, gpu: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        load(tmp_path, *MIXED).translated(**gpu)


# --- whether a kernel runs here, without CUDA being started ---


@pytest.fixture
def nvml(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: real(str(stub / name)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(
    ("gpus", "driver", "asked", "available"),
    [
        pytest.param("9.0", "13000", {"kernel": "both"}, True, id="a cubin"),
        pytest.param("9.0", "13000", {"kernel": "ptx"}, True, id="PTX"),
        pytest.param("9.0", "13000", {"kernel": "ptx", "strict": True}, False, id="PTX, strict"),
        pytest.param("9.0", "13000", {"kernel": "both", "strict": True}, True, id="a cubin, strict"),
        pytest.param("9.0", "12040", {"kernel": "both", "strict": True}, False, id="a driver too old for it"),
        pytest.param("8.6", "13000", {"kernel": "hopper"}, False, id="nothing fits"),
        pytest.param("9.0 8.6", "13000", {"kernel": "hopper"}, False, id="nothing fits one GPU of two"),
        pytest.param("9.0 8.6", "13000", {"kernel": "f"}, True, id="fits both"),
        pytest.param("9.0", "13000", {"kernel": "a", "strict": True}, True, id="a kernel that has a cubin"),
        pytest.param("9.0", "13000", {"kernel": "b", "strict": True}, False, id="one that has none"),
        pytest.param("9.0", "13000", {"kernel": "part", "strict": True}, False, id="the module of both"),
        pytest.param("9.0", "13000", {"strict": True}, False, id="all, strict"),
        pytest.param("7.0", "13000", {"strict": False}, True, id="a device, whatever runs on it"),
        pytest.param("", "13000", {"kernel": "both"}, False, id="no device"),
    ],
)
def test_whether_a_kernel_runs_on_each_gpu_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: str, driver: str, asked: Any, *, available: bool
) -> None:
    monkeypatch.setenv("STANDIN_GPUS", gpus)
    monkeypatch.setenv("STANDIN_DRIVER", driver)
    monkeypatch.setenv("STANDIN_LOG", str(tmp_path / "log"))
    assert load_bundle(tmp_path, bundle(*MIXED)).is_available(**asked) is available
    log = (tmp_path / "log").read_text()
    assert log.count("nvmlInit_v2") == log.count("nvmlShutdown") > 0
    assert "cuInit" not in log


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.usefixtures("nvml")
def test_strict_that_is_in_force_counts(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(*MIXED))
    with cubins.use(strict=True):
        assert [cubins.is_available(), cubins.is_available("ptx"), cubins.is_available("both")] == [
            True,
            False,
            True,
        ]
        assert cubins.is_available("ptx", strict=False)


@pytest.mark.gcc
@pytest.mark.linux
@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(
    "call",
    [
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetCudaComputeCapability",
    ],
)
def test_an_nvml_that_cannot_describe_the_devices_makes_no_kernel_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    cubins = load_bundle(tmp_path, bundle(*MIXED))
    monkeypatch.setenv("STANDIN_FAULTS", f"{call}=999")
    assert [cubins.is_available(), cubins.is_available("both")] == [True, False]


@pytest.mark.parametrize("lacking", ["nvmlSystemGetCudaDriverVersion_v2", "libnvidia-ml.so.1"])
def test_without_all_of_nvml_no_kernel_is_known_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    def load_library(name: str) -> object:
        if name == lacking:
            raise OSError(name)
        library = Driver(lacking=lacking)
        library.__dict__["nvmlDeviceGetCount_v2"] = library.cuDeviceGetCount
        return library

    cubins = load_bundle(tmp_path, bundle(*MIXED))
    monkeypatch.setattr(ctypes, "CDLL", load_library)
    monkeypatch.setattr(os, "listdir", lambda _path: ["nvidia0"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [cubins.is_available(), cubins.is_available("both")] == [True, False]


@pytest.mark.gcc
@pytest.mark.linux
def test_asking_for_a_kernel_leaves_a_process_that_can_fork(stub: Path, tmp_path: Path) -> None:
    code = (
        "print(cubins.is_available('k', strict=True), flush=True)\nchild = os.fork()\nif not child:\n"
        "    print(cubins._part('_loading')._driver_version(), flush=True)\n"
        "    os._exit(0)\nos.waitpid(child, 0)"
    )
    assert ask(tmp_path, code, stub) == "True\n13000"


@pytest.mark.gcc
@pytest.mark.linux
def test_a_driver_that_hangs_when_it_describes_devices_has_no_kernel(stub: Path, tmp_path: Path) -> None:
    code = (
        "cubins._part('_loading')._ANSWER_SECONDS = 0.1\nos.mkfifo('pipe')\nprint(cubins.is_available('k'))"
    )
    hanging = "nvmlDeviceGetCudaComputeCapability=hang"
    assert ask(tmp_path, code, stub, STANDIN_FAULTS=hanging) == "False"
