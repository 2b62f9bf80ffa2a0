"""Arguments that cannot be meant: a TypeError or a ValueError with a sentence, before all else."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, refusal

NINE = (9, 0)


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> Any:
    files = bundle(made("k"), made("red", kernels={"r": "r"}, variant={"cc": "1", "N": "2"}))
    cubins = load_bundle(tmp_path_factory.mktemp("bundle"), files)
    cubins._part("_loading")._driver_library = lambda: None
    return cubins


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        pytest.param({"driver": "13.0"}, TypeError, "(13000 for 13.0) or None, not '13.0'", id="text"),
        pytest.param({"driver": 13.0}, TypeError, "(13000 for 13.0) or None, not 13.0", id="float"),
        pytest.param({"driver": True}, TypeError, "(13000 for 13.0) or None, not True", id="bool"),
        pytest.param({"driver": (13, 0)}, TypeError, "(13000 for 13.0) or None, not (13, 0)", id="pair"),
        pytest.param({"driver": -1}, ValueError, "(13000 for 13.0) or None, not -1", id="negative"),
        pytest.param({"driver": 580}, ValueError, "or None, not 580", id="another count"),
        pytest.param({"driver": 580065}, ValueError, "or None, not 580065", id="a driver package's version"),
        pytest.param({"cc": "9.0"}, TypeError, "pair of numbers such as (9, 0), not '9.0'", id="cc as text"),
        pytest.param({"cc": 90}, TypeError, "pair of numbers such as (9, 0), not 90", id="cc as a number"),
        pytest.param({"cc": [9, 0]}, TypeError, "such as (9, 0), not [9, 0]", id="cc as a list"),
        pytest.param({"cc": (9, 0, 0)}, TypeError, "such as (9, 0), not (9, 0, 0)", id="cc of three"),
        pytest.param({"cc": (9, True)}, TypeError, "such as (9, 0), not (9, True)", id="cc with a bool"),
        pytest.param({"cc": (9, 10)}, ValueError, "such as (9, 0), not (9, 10)", id="cc too high"),
        pytest.param({"cc": (90, 0)}, ValueError, "such as (9, 0), not (90, 0)", id="cc times ten"),
        pytest.param({"device": 0}, TypeError, "give cc or device, but not both", id="cc and device"),
    ],
)
@pytest.mark.parametrize("call", ["find", "read"])
def test_what_cannot_be_a_gpu_or_a_driver(
    cubins: Any, call: str, how: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        getattr(cubins, call)("k", **{"cc": NINE, **how})
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{cubins.__name__}: ")


@pytest.mark.parametrize("driver", ["13.0", -1])
def test_a_driver_is_looked_at_without_cc_too(cubins: Any, driver: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="driver"):
        cubins.find("k", driver=driver)


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        ("cuda:0", TypeError, "device must be a number or a cuda.core Device, not 'cuda:0'"),
        (1.0, TypeError, "device must be a number or a cuda.core Device, not 1.0"),
        (True, TypeError, "device must be a number or a cuda.core Device, not True"),
        (NINE, TypeError, "device must be a number or a cuda.core Device, not (9, 0)"),
        (-1, ValueError, "there is no CUDA device -1"),
    ],
)
@pytest.mark.parametrize("call", ["kernel", "module", "find", "read"])
def test_what_cannot_be_a_device(
    cubins: Any, call: str, device: Any, error: type[Exception], message: str
) -> None:
    assert message in str(refusal(error, getattr(cubins, call), "k", device=device))


ASKED_BY_NAME = [
    ((3,), {}, "the name of a kernel or module must be a string, not 3; pass a device as device="),
    ((None,), {}, "the name of a kernel or module must be a string, not None"),
    ((b"k",), {}, "the name of a kernel or module must be a string, not b'k'"),
    (("k",), {"module": 3}, "the name of a kernel or module must be a string, not 3"),
    (
        ("k",),
        {"module": ["k"]},
        "must be a string, not ['k']; only preload() takes several names",
    ),
    (("k",), {"variant": "B"}, "variant must be a mapping like {'BLOCK': 256}, not 'B'"),
    (("k",), {"variant": ""}, "variant must be a mapping like {'BLOCK': 256}, not ''"),
    (("k",), {"variant": 3}, "variant must be a mapping like {'BLOCK': 256}, not 3"),
    (("k",), {"variant": [("N", 1)]}, "variant must be a mapping like {'BLOCK': 256}, not [('N', 1)]"),
    (("k",), {"variant": {1: 2}}, "variant must be a mapping like {'BLOCK': 256}, not {1: 2}"),
    (("k",), {"variant": {"N": 1}, "N": 1}, "the macro 'N' is both in variant= and an argument"),
]


@pytest.mark.parametrize(("names", "how", "message"), ASKED_BY_NAME)
@pytest.mark.parametrize("call", ["kernel", "module", "find", "read"])
def test_what_cannot_be_a_name_or_a_variant(
    cubins: Any, call: str, names: tuple[Any, ...], how: dict[str, Any], message: str
) -> None:
    where = {"cc": NINE} if call in ("find", "read") else {}
    assert message in str(refusal(TypeError, getattr(cubins, call), *names, **how, **where))


@pytest.mark.parametrize("call", ["kernel", "module"])
@pytest.mark.parametrize(
    "how", [{"cc": NINE}, {"driver": 13000}, {"driver": None}, {"arch": "sm_90"}, {"N_": 1}]
)
def test_an_argument_that_a_call_does_not_have_is_named(cubins: Any, call: str, how: dict[str, Any]) -> None:
    (name,) = how
    error = refusal(cubins.CubinNotFoundError, getattr(cubins, call), "k", **how)
    says_how = "; only find() and read() take cc=(9, 0) and driver" in str(error)
    assert f"{name!r} is not a macro of 'k', nor the argument module, variant or device" in str(error)
    assert says_how == (name != "N_")


@pytest.mark.parametrize("call", ["find", "read"])
@pytest.mark.parametrize("how", [{"arch": "sm_90"}, {"gpu": 90}, {"sm": 90}])
def test_the_argument_that_chooses_a_gpu_is_named(cubins: Any, call: str, how: dict[str, Any]) -> None:
    error = refusal(cubins.CubinNotFoundError, getattr(cubins, call), "k", **how)
    assert "find() and read() take cc=(9, 0)" in str(error)


@pytest.mark.parametrize("how", [{"variant": {"cc": 1}}, {"cc": 1}])
@pytest.mark.parametrize("call", ["kernel", "module"])
def test_a_macro_may_have_the_name_of_another_calls_argument(
    cubins: Any, call: str, how: dict[str, Any]
) -> None:
    with pytest.raises(
        cubins.CubinUnavailableError,
        match="no CUDA driver; find\\(name, cc=…\\) needs none",
    ):
        getattr(cubins, call)("r", **how)
    assert cubins.find("r", cc=NINE, variant={"cc": 1}).module == "red[cc=1,N=2]"


@pytest.mark.parametrize("strict", ["no", "1", 2, {"k": b"code"}])
def test_strict_is_a_bool(cubins: Any, strict: Any) -> None:
    assert f"strict is a bool or None, not {strict!r}" in str(refusal(TypeError, cubins.use, strict=strict))
    assert cubins.read("k", cc=NINE) == b"k for sm_90"


@pytest.mark.parametrize("names", [["k", "r"], ("k",)])
def test_several_kernels_are_separate_arguments(cubins: Any, names: Any) -> None:
    error = refusal(TypeError, cubins.preload, names)
    assert f"must be a string, not {names!r}; only preload() takes several names" in str(error)


@pytest.mark.parametrize("is_installed", [False, True])
def test_without_a_driver_a_missing_cuda_core_is_named_too(
    cubins: Any, monkeypatch: pytest.MonkeyPatch, *, is_installed: bool
) -> None:
    core = types.ModuleType("cuda.core") if is_installed else None  # None: the import fails
    monkeypatch.setattr(cubins, "_modules", {})
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    error = refusal(cubins.CubinUnavailableError, cubins.kernel, "k")
    assert ("kernels also need cuda.core (pip install cuda-core" in str(error)) is not is_installed


@pytest.mark.parametrize("name", ["kk", "*x", "K"])
def test_is_available_refuses_a_name_that_the_bundle_does_not_have(cubins: Any, name: str) -> None:
    """Also on a machine without a GPU, so that a misspelt name is found there."""
    error = refusal(cubins.CubinNotFoundError, cubins.is_available, name)
    assert f"no kernel or module {name!r}" in str(error)
    assert [cubins.is_available(each) for each in ("k", "red", "*")] == [False] * 3


@pytest.mark.parametrize("name", [5, b"k", ["k"]])
def test_is_available_refuses_a_name_that_is_no_text(cubins: Any, name: Any) -> None:
    assert "must be a string" in str(refusal(TypeError, cubins.is_available, name))


def test_is_available_takes_one_name(cubins: Any) -> None:
    with pytest.raises(TypeError, match="positional argument"):
        cubins.is_available("k", "r")


@pytest.mark.parametrize("device", [[], ()])
def test_no_device_at_all_is_not_a_choice(cubins: Any, device: Any) -> None:
    assert "device must not be empty" in str(refusal(ValueError, cubins.preload, device=device))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (5, "use() takes a bundle's folder, a mapping of names to code, or None, not 5"),
        (b"folder", "use() takes a bundle's folder, a mapping of names to code, or None, not b'folder'"),
        (["k"], "use() takes a bundle's folder, a mapping of names to code, or None, not ['k']"),
        ({"k": None}, "the code for 'k' must be bytes or a cuda.core ObjectCode, not None"),
        ({"k": 3}, "the code for 'k' must be bytes or a cuda.core ObjectCode, not 3"),
        ({"k": "text"}, "the code for 'k' must be bytes or a cuda.core ObjectCode, not 'text'"),
        ({3: b""}, "the name of a kernel or module must be a string, not 3"),
    ],
)
def test_what_cannot_be_looked_in(cubins: Any, what: Any, message: str) -> None:
    assert message in str(refusal(TypeError, cubins.use, what))
    assert cubins.read("k", cc=NINE) == b"k for sm_90"


@pytest.mark.parametrize("folder", ["nowhere", "a\0b", ""])
def test_a_folder_that_has_no_bundle(
    cubins: Any, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cubins.CubinError, match=r"use\(\) takes the folder of a bundle, but"):
        cubins.use(folder)
    assert cubins.read("k", cc=NINE) == b"k for sm_90"


@pytest.mark.parametrize("then", [5, "folder", {}, []])
def test_what_cannot_be_a_cache_behind(cubins: Any, then: Any) -> None:
    pytest.importorskip("cuda.core.utils")
    error = refusal(TypeError, cubins.cache, then=then)
    what = f"cache(then) takes a ProgramCacheResource such as FileStreamProgramCache, not {then!r}"
    assert what in str(error)
