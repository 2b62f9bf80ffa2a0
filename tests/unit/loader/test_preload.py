"""Loading before anything is launched: what is loaded, where, how often, and what is said of it."""

from __future__ import annotations

import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, refusal, run_threads, sha256

from .doubles import Device, Driver, load

RED = [made("red", kernels={"r": "r"}, variant={"BLOCK": value}) for value in ("64", "128")]
TWO = made("two", kernels={"f<int>": "_Z1fIiE", "g": "g"})
EVERYTHING = (made("k"), *RED, TWO)


def files(preloaded: Any) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(each.device, each.entry.file, each.kernels) for each in preloaded.loaded]


@pytest.mark.usefixtures("core")
def test_everything_is_loaded_and_told(tmp_path: Path) -> None:
    preloaded = load(tmp_path, *EVERYTHING).preload()
    assert files(preloaded) == [
        (0, "k.sm_90.cubin", ("k",)),
        (0, "red.BLOCK-128.sm_90.cubin", ("r",)),
        (0, "red.BLOCK-64.sm_90.cubin", ("r",)),
        (0, "two.sm_90.cubin", ("f<int>", "g")),
    ]
    assert preloaded.missing == ()
    first = preloaded.loaded[0]
    assert (first.entry.rule, first.entry.size, first.entry.sha256) == ("exact", 11, sha256(b"k for sm_90"))
    assert 0 < first.seconds < 60
    first.seconds = 0.00125
    path = str(tmp_path / "k.sm_90.cubin")
    told = f"Loaded(device=0, module='k', kernels=1, path={path!r}, rule='exact', size=11, seconds=0.001250)"
    assert repr(first) == told
    assert str(preloaded).splitlines()[0] == told
    assert repr(preloaded).startswith(f"Preloaded(loaded=({told}, Loaded(")


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("names", "kernels"),
    [
        pytest.param(["k"], ["k:k"], id="a kernel"),
        pytest.param(["f<int>"], ["two:f<int>"], id="a template"),
        pytest.param([" f< int >"], ["two:f<int>"], id="spelled otherwise"),
        pytest.param(["two"], ["two:f<int>", "two:g"], id="a module"),
        pytest.param(["red"], ["red[BLOCK=128]:r", "red[BLOCK=64]:r"], id="all variants"),
        pytest.param(["r"], ["red[BLOCK=128]:r", "red[BLOCK=64]:r"], id="a kernel of all variants"),
        pytest.param(["red[BLOCK=64]"], ["red[BLOCK=64]:r"], id="a variant"),
        pytest.param(["red[BLOCK=1*]"], ["red[BLOCK=128]:r"], id="variants by a glob"),
        pytest.param(["f<*>"], ["two:f<int>"], id="templates by a glob"),
        pytest.param(["tw?"], ["two:f<int>", "two:g"], id="modules by a glob"),
        pytest.param(["g", "k", "g"], ["two:g", "k:k"], id="several"),
    ],
)
def test_what_is_named_is_loaded(tmp_path: Path, names: list[str], kernels: list[str]) -> None:
    loaded = load(tmp_path, *EVERYTHING).preload(*names).loaded
    assert [f"{each.entry.module}:{name}" for each in loaded for name in each.kernels] == kernels


@pytest.mark.usefixtures("core")
def test_a_pointer_in_a_kernels_name_is_no_glob(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("two", kernels={"f<int*>": "a", "f<int**>": "b"}))
    assert files(cubins.preload("f<int*>")) == [(0, "two.sm_90.cubin", ("f<int*>",))]


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("name", ["kk", "z*", "red[BLOCK=6]"])
def test_a_name_that_means_nothing_is_told(tmp_path: Path, name: str) -> None:
    cubins = load(tmp_path, *EVERYTHING)
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.preload("k", name)
    assert f"no kernel or module {name!r}; " in str(caught.value)


def test_all_names_that_mean_nothing_are_told_at_once(tmp_path: Path) -> None:
    cubins = load(tmp_path, *EVERYTHING)
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.preload("kk", "k", "z*", "kk")
    assert [line.partition("; ")[0].partition(": ")[2] for line in str(caught.value).splitlines()] == [
        "no kernel or module 'kk'",
        "no kernel or module 'z*'",
    ]


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("name", [5, None, ["k"]])
def test_a_name_is_text(tmp_path: Path, name: Any) -> None:
    with pytest.raises(TypeError, match="must be a string, not"):
        load(tmp_path, made("k")).preload(name)


@pytest.mark.usefixtures("core")
def test_a_bundle_without_kernels_has_nothing_to_load(tmp_path: Path) -> None:
    cubins = load(tmp_path)
    with pytest.raises(cubins.CubinNotFoundError, match=r"no kernel or module '\*'"):
        cubins.preload()


# --- devices and their contexts ---


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("device", "loaded"),
    [
        pytest.param(None, [(0, "k.sm_90.cubin")], id="current"),
        pytest.param(1, [(1, "k.sm_80.cubin")], id="ordinal"),
        pytest.param(Device(1), [(1, "k.sm_80.cubin")], id="Device"),
        pytest.param([0, Device(1)], [(0, "k.sm_90.cubin"), (1, "k.sm_80.cubin")], id="several"),
        pytest.param(range(2), [(0, "k.sm_90.cubin"), (1, "k.sm_80.cubin")], id="all"),
        pytest.param((1, 1), [(1, "k.sm_80.cubin")], id="one twice"),
    ],
)
def test_devices_are_one_or_a_sequence(tmp_path: Path, device: Any, loaded: list[tuple[int, str]]) -> None:
    preloaded = load(tmp_path, made("k"), made("k", "sm_80")).preload(device=device)
    assert [(each.device, each.entry.file) for each in preloaded.loaded] == loaded


@pytest.mark.usefixtures("core")
def test_a_string_is_no_sequence_of_devices(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"device must be a number or a cuda.core Device, not '01'"):
        load(tmp_path, made("k")).preload(device="01")


FUNCTIONS = [
    ("cuKernelGetFunction", [len("_Z1fIiE")]),
    ("cuFuncLoad", []),
    ("cuKernelGetFunction", [len("g")]),
    ("cuFuncLoad", []),
]


@pytest.mark.usefixtures("core")
def test_functions_are_loaded_into_the_context_that_is_current(tmp_path: Path) -> None:
    driver = Driver(current=0)
    load(tmp_path, TWO, driver=driver).preload()
    assert driver.loaded == FUNCTIONS


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("current", [None, 0])
def test_elsewhere_into_the_primary_context_which_is_kept_once(tmp_path: Path, current: int | None) -> None:
    driver = Driver(current=current)
    cubins = load(tmp_path, made("two", "sm_80", {"f<int>": "_Z1fIiE", "g": "g"}), driver=driver)
    there = [("cuDevicePrimaryCtxRetain", [1]), ("cuCtxPushCurrent_v2", [])]
    cubins.preload(device=1)
    assert driver.loaded == [*there, *FUNCTIONS, ("cuCtxPopCurrent_v2", [])]
    driver.loaded.clear()
    cubins.preload(device=1)
    again = [("cuCtxPopCurrent_v2", []), ("cuDevicePrimaryCtxRelease_v2", [1])]
    assert driver.loaded == [*there, *FUNCTIONS, *again]


@pytest.mark.usefixtures("core")
def test_a_driver_before_cuda_12_4_loads_a_function_with_the_question_for_it(tmp_path: Path) -> None:
    driver = Driver(12020, current=0, lacking="cuFuncLoad")
    load(tmp_path, made("k", "compute_80"), driver=driver).preload()
    assert driver.loaded == [("cuKernelGetFunction", [1])]


def test_a_driver_before_cuda_12_is_told_before_anything_is_loaded(
    tmp_path: Path, core: types.ModuleType
) -> None:
    driver = Driver(current=1, lacking="cuKernelGetFunction")
    cubins = load(tmp_path, made("k"), driver=driver)
    with pytest.raises(cubins.CubinUnavailableError, match=r"needs a driver of CUDA 12\.0 or newer"):
        cubins.preload()
    assert (core.ObjectCode.made, driver.loaded) == ([], [])
    assert cubins.module("k").name == "k"  # which does not ask for that


def test_a_cuda_core_without_object_code_is_told(tmp_path: Path, core: types.ModuleType) -> None:
    del core.ObjectCode
    cubins = load(tmp_path, made("k"))
    for call in (cubins.preload, lambda: cubins.kernel("k"), lambda: cubins.module("k")):
        with pytest.raises(cubins.CubinUnavailableError, match=r"cuda\.core cannot load k\.sm_90\.cubin: "):
            call()


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("call", "undone"),
    [
        ("cuDevicePrimaryCtxRetain", []),
        ("cuCtxPushCurrent_v2", []),
        ("cuKernelGetFunction", [("cuCtxPopCurrent_v2", [])]),
        ("cuFuncLoad", [("cuCtxPopCurrent_v2", [])]),
    ],
)
def test_what_the_driver_refuses_is_told_and_the_context_put_back(
    tmp_path: Path, call: str, undone: list[Any]
) -> None:
    driver = Driver(statuses={call: 2})
    cubins = load(tmp_path, made("k"), driver=driver)
    with pytest.raises(
        cubins.CubinUnavailableError, match=r"the driver cannot load 'k' on CUDA device 0: error \(2\)"
    ):
        cubins.preload()
    position = [each for each, _ in driver.loaded].index(call)
    assert [each for each in driver.loaded[position + 1 :] if each[0] != "cuGetErrorName"] == undone


# --- once ---


def test_sixteen_threads_preload_each_module_once(tmp_path: Path, core: types.ModuleType) -> None:
    cubins, barrier, got = load(tmp_path, *EVERYTHING, driver=Driver(current=0)), threading.Barrier(16), []

    def preload() -> None:
        barrier.wait()
        got.append(files(cubins.preload()))

    threads = [threading.Thread(target=preload) for _ in range(16)]
    run_threads(threads)
    assert got == [got[0]] * 16
    assert [code.name for code in core.ObjectCode.made] == ["k", "red[BLOCK=128]", "red[BLOCK=64]", "two"]
    cubins.kernel("f<int>")
    assert len(core.ObjectCode.made) == 4


# --- what no file serves ---


PART = (
    made("k"),
    made("only", "sm_100"),
    made("two", "sm_90", {"f": "f"}),
    made("two", "sm_100", {"g": "g"}),
)


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("names", [(), ("*",)], ids=["all", "a glob"])
def test_of_all_what_fits_is_loaded_and_the_rest_told(tmp_path: Path, names: tuple[str, ...]) -> None:
    preloaded = load(tmp_path, *PART).preload(*names)
    assert files(preloaded) == [(0, "k.sm_90.cubin", ("k",)), (0, "two.sm_90.cubin", ("f",))]
    missing = [str(each).partition(" runs on ")[0] for each in preloaded.missing]
    assert [each.partition(": ")[2] for each in missing] == [
        "no shipped code of 'only'",
        "no shipped code of 'g'",
    ]
    assert str(preloaded).splitlines()[2:] == list(map(str, preloaded.missing))


def test_what_was_named_has_to_be_there_before_anything_is_loaded(
    tmp_path: Path, core: types.ModuleType
) -> None:
    cubins = load(tmp_path, *PART)
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.preload("k", "only", "g")
    assert [line.partition(" runs on ")[0].rpartition(" ")[2] for line in str(caught.value).splitlines()] == [
        "'only'",
        "'g'",
    ]
    assert core.ObjectCode.made == []


@pytest.mark.usefixtures("core")
def test_a_bundle_that_has_nothing_for_this_gpu_is_told(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("only", "sm_100"))
    with pytest.raises(cubins.CubinNotFoundError, match="no shipped code of 'only' runs on"):
        cubins.preload()


@pytest.mark.usefixtures("core")
def test_a_kernel_that_several_sources_have_is_told_with_its_module(tmp_path: Path) -> None:
    variants = (made("b", "sm_100", {"f": "f"}, variant={"N": number}) for number in "12")
    cubins = load(tmp_path, made("a", kernels={"f": "f"}), *variants)
    told = "no shipped code of 'f' of module 'b' runs on compute capability 9.0 with driver 13.0: "
    assert [str(each).partition("shipped sm")[0] for each in cubins.preload().missing] == [
        f"{cubins.__name__}: {told}"
    ]
    with pytest.raises(cubins.CubinNotFoundError, match=r"no shipped code of 'b\[N=1\]' runs on"):
        cubins.module("b", N=1)


@pytest.mark.usefixtures("core")
def test_of_many_that_are_missing_twenty_are_named(tmp_path: Path) -> None:
    cubins = load(tmp_path, *(made(f"k{number}", "sm_100") for number in range(21)))
    lines = str(refusal(cubins.CubinNotFoundError, cubins.preload)).splitlines()
    assert [line.count("no shipped code of") for line in lines] == [1] * 20 + [0]
    assert lines[-1] == "and 1 more"


@pytest.mark.usefixtures("core")
def test_what_is_missing_on_several_devices_is_told_for_each(tmp_path: Path) -> None:
    preloaded = load(tmp_path, *PART).preload(device=[0, 1, 0])
    capabilities = [str(each).partition("compute capability ")[2][:3] for each in preloaded.missing]
    assert capabilities == ["9.0", "9.0", "8.0", "8.0", "8.0", "8.0"]


# --- each load can be heard of, and forbidden ---


def test_each_load_is_an_audit_event(
    tmp_path: Path, core: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[Any, ...]] = []
    monkeypatch.setattr("sys.audit", lambda *event: heard.append(event))
    cubins = load(tmp_path, *EVERYTHING)
    cubins.find("k")
    cubins.read("k")
    assert [event for event in heard if event[0] == "hatch_cubin.load"] == []
    for _ in range(2):
        cubins.preload("k", "g")
        cubins.kernel("k")
    assert [event[1:] for event in heard if event[0] == "hatch_cubin.load"] == [
        (cubins.__name__, name, "sm_90", str(tmp_path / f"{name}.sm_90.cubin"), sha256(code.data))
        for name, code in zip(("k", "two"), core.ObjectCode.made, strict=True)
    ]


def test_who_forbids_a_load_is_obeyed_and_heard(
    tmp_path: Path, core: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ForbiddenError(Exception):
        pass

    def forbid(event: str, *_about: Any) -> None:
        if event == "hatch_cubin.load":
            raise ForbiddenError

    cubins = load(tmp_path, made("k"))
    with monkeypatch.context() as forbidding:
        forbidding.setattr("sys.audit", forbid)
        for call in (cubins.preload, lambda: cubins.kernel("k"), lambda: cubins.module("k")):
            with pytest.raises(ForbiddenError):
                call()
    assert core.ObjectCode.made == []
    assert len(cubins.preload().loaded) == 1


def test_names_are_looked_up_before_the_driver_is_asked(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    cubins._part("_loading")._driver_library = lambda: None
    with pytest.raises(cubins.CubinNotFoundError):
        cubins.preload("typo")
    with pytest.raises(cubins.CubinUnavailableError):
        cubins.preload()
