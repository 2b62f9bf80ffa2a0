"""What a name means: kernels, modules, variants, templates, and what is said where it means nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatch_cubin import loader
from tests.helpers import bundle, load_bundle, made, refusal


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> Any:
    files = bundle(
        made("saxpy"),
        made("saxpy", "sm_120"),
        made("saxpy", "compute_120"),
        made("a", kernels={"fill": "fill", "only_a": "only_a"}),
        made("b", kernels={"fill": "_Z4fillPf"}),
        made("scale", kernels={"scale<float, 4>": "_Z5scaleIfLi4EEvPT_", "f<unsigned int>": "_Z1fIjEvv"}),
        *(
            made("red", kernels={"reduce": "reduce"}, variant={"BLOCK": block, "SCALAR": scalar})
            for block in ("64", "256")
            for scalar in ("float", "half")
        ),
        made("flags", kernels={"flag": "flag"}, variant={"device": "1", "ON": "1"}),
        made("flags", kernels={"flag": "flag"}, variant={"device": "0", "ON": "1"}),
        made("shared", kernels={"x": "x"}, variant={"N": "1"}),
        made("wider", kernels={"x": "x"}, variant={"N": "1", "M": "2"}),
        made("wider", kernels={"x": "x"}, variant={"N": "1", "M": "3"}),
        made("odd[1]"),
        made("odd", kernels={"o": "o"}, variant={"T": "a[3]"}),
        made('q"u', kernels={"o2": "o2"}, variant={"T": '":{"check":"'}),
        made("ün ï", kernels={"größe": "größe"}),
    )
    return load_bundle(tmp_path_factory.mktemp("names"), files)


def meaning(cubins: Any, name: str, **how: Any) -> tuple[str, dict[str, str]]:
    entry = cubins.find(name, cc=(9, 0), **how)
    return entry.module, entry.kernels


@pytest.mark.parametrize(
    ("name", "how", "module"),
    [
        pytest.param("saxpy", {}, "saxpy", id="a kernel and its module"),
        pytest.param("only_a", {}, "a", id="a kernel"),
        pytest.param("a", {}, "a", id="a module"),
        pytest.param("fill", {"module": "b"}, "b", id="one of two modules"),
        pytest.param("scale<float, 4>", {}, "scale", id="a template"),
        pytest.param(" scale < float,4 > ", {}, "scale", id="spaces do not matter"),
        pytest.param("f<unsigned  int >", {}, "scale", id="between words they do"),
        pytest.param("reduce", {"BLOCK": 64, "SCALAR": "half"}, "red[BLOCK=64,SCALAR=half]", id="a variant"),
        pytest.param("red", {"BLOCK": 64, "SCALAR": "half"}, "red[BLOCK=64,SCALAR=half]", id="by its module"),
        pytest.param("red[BLOCK=64,SCALAR=half]", {}, "red[BLOCK=64,SCALAR=half]", id="by its whole name"),
        pytest.param(
            "reduce", {"module": "red[BLOCK=64,SCALAR=half]"}, "red[BLOCK=64,SCALAR=half]", id="as module="
        ),
        pytest.param(
            "reduce",
            {"module": "red", "BLOCK": "64", "SCALAR": "half"},
            "red[BLOCK=64,SCALAR=half]",
            id="both",
        ),
        pytest.param(
            "flag", {"variant": {"device": 1}}, "flags[device=1,ON=1]", id="a macro named as a parameter"
        ),
        pytest.param("flag", {"variant": {"device": 1}, "ON": True}, "flags[device=1,ON=1]", id="true is 1"),
        pytest.param("x", {"N": 1}, "shared[N=1]", id="exactly the macros that are given"),
        pytest.param("x", {"N": 1, "M": 3}, "wider[N=1,M=3]", id="more macros"),
        pytest.param("odd", {}, "odd[T=a[3]]", id="brackets in a value"),
        pytest.param("odd[1]", {}, "odd[1]", id="brackets in a name"),
        pytest.param('q"u', {}, 'q"u[T=":{"check":"]', id="quotes"),
        pytest.param("größe", {}, "ün ï", id="not ASCII"),
    ],
)
def test_a_name_means_one_module(cubins: Any, name: str, how: dict[str, Any], module: str) -> None:
    assert meaning(cubins, name, **how)[0] == module


@pytest.mark.parametrize(
    ("name", "how", "module"),
    [
        ("a", {}, "a"),
        ("a", {"P": 1}, "a[P=1]"),
        ("a[P=1]", {}, "a[P=1]"),
        ("k", {"P": 2}, "a[P=2]"),
        ("k", {"module": "a"}, "a"),
        ("k", {"module": "a[P=1]"}, "a[P=1]"),
        ("k", {"module": "a", "P": np.int32(1)}, "a[P=1]"),
        ("f", {"ON": np.True_}, "f[ON=1]"),
    ],
)
def test_a_module_may_have_variants_and_a_form_without_macros(
    tmp_path: Path, name: str, how: dict[str, Any], module: str
) -> None:
    variants = [made("a", kernels={"k": "k"}, variant={"P": value}) for value in "12"]
    flag = made("f", variant={"ON": "1"})
    cubins = load_bundle(tmp_path, bundle(made("a", kernels={"k": "k"}), *variants, flag))
    assert meaning(cubins, name, **how)[0] == module
    with pytest.raises(cubins.CubinNotFoundError, match="'k' is ambiguous"):
        cubins.find("k", cc=(9, 0))


def test_a_key_that_a_view_does_not_have_is_answered_with_those_that_it_has(cubins: Any) -> None:
    entry = cubins.find("reduce", cc=(9, 0), BLOCK=64, SCALAR="half")
    with pytest.raises(KeyError, match="no 'red', only 'reduce'"):
        entry.kernels["red"]
    with pytest.raises(KeyError, match="no 'N', only 'BLOCK', 'SCALAR'"):
        entry.variant["N"]
    with pytest.raises(KeyError, match="no 'reduce', only nothing"):
        entry.parameters["reduce"]
    assert entry.kernels.get("red") is None


def test_the_symbol_stands_behind_the_spelled_name(cubins: Any) -> None:
    assert meaning(cubins, "fill", module="b") == ("b", {"fill": "_Z4fillPf"})


def test_what_an_entry_knows_cannot_be_changed_for_the_next_who_asks(cubins: Any) -> None:
    entry = cubins.find("reduce", cc=(9, 0), BLOCK=64, SCALAR="half")
    views = (entry.kernels, entry.variant, entry.options, entry.toolchain, entry.resources)
    for view in views:
        with pytest.raises(TypeError, match="does not support item assignment"):
            view["reduce"] = "another"
    assert views == ({"reduce": "reduce"}, {"BLOCK": "64", "SCALAR": "half"}, {}, {"nvrtc": "13.0.88"}, {})


MEANINGS = {
    "a typo": ("saxpi", {}, "no kernel or module 'saxpi'; did you mean 'saxpy'?"),
    "an instantiation not asked for": ("scale<float, 8>", {}, "did you mean 'scale<float, 4>'?"),
    "unlike all": (
        "zzzzzz",
        {},
        "no kernel or module 'zzzzzz'; the bundle has 'a', 'b', 'f<unsigned int>'",
    ),
    "arguments for what is no template": (
        "saxpy<int>",
        {},
        "no kernel or module 'saxpy<int>'; did you mean 'saxpy'?",
    ),
    "an instantiation": (
        "f<int>",
        {},
        "'f<int>'; add it to 'instantiate' of a source without 'as'; the bundle has 'a'",
    ),
    "a template without arguments": (
        "F",
        {},
        "no kernel or module 'F'; did you mean 'f<unsigned int>' or 'fill'",
    ),
    "a path": ("src/kernels/saxpy.sm_90.cubin", {}, "; did you mean 'saxpy'?"),
    "empty": ("", {}, "no kernel or module ''; the bundle has 'a'"),
    "a lone surrogate": ("\ud800", {}, "no kernel or module '\\ud800'; the bundle has 'a'"),
    "a line break": ("saxpy\n", {"module": "z"}, "no kernel or module"),
    "two modules": (
        "fill",
        {},
        "'fill' is ambiguous: add module= or the variant's macros, or name a module; modules: 'a', 'b'",
    ),
    "neither": ("fill", {"module": "c"}, "no kernel or module 'fill' in module 'c'; modules: 'a', 'b'"),
    "half a variant": ("red", {"BLOCK": 64}, "'red' with {'BLOCK': '64'} is ambiguous"),
    "no value": (
        "red",
        {"BLOCK": 65},
        "no kernel or module 'red' with {'BLOCK': '65'}; modules: 'red[BLOCK=256,",
    ),
    "another case": ("SAXPY", {}, "no kernel or module 'SAXPY'; did you mean 'saxpy'?"),
    "a macro in another case": ("red", {"block": 64}, "; did you mean 'BLOCK'?; modules: 'red"),
    "no macro": ("saxpy", {"N": 1}, "'N' is not a macro of 'saxpy', nor the argument module, variant"),
}


@pytest.mark.parametrize(
    ("name", "how", "message"),
    MEANINGS.values(),
    ids=MEANINGS,
)
def test_a_name_that_means_none_or_several_says_what_there_is(
    cubins: Any, name: str, how: dict[str, Any], message: str
) -> None:
    error = refusal(cubins.CubinNotFoundError, cubins.find, name, cc=(9, 0), **how)
    assert message in str(error)
    assert isinstance(error, LookupError)


def test_errors_say_which_package_and_which_generator(cubins: Any) -> None:
    with pytest.raises(cubins.CubinError, match=rf"^{cubins.__name__}: .* \(bundle of hatch-cubin \d.*\)$"):
        cubins.find("saxpi", cc=(9, 0))


def test_names_are_the_kernels_in_order(cubins: Any) -> None:
    assert cubins.names() == (
        *("f<unsigned int>", "fill", "flag", "größe", "o", "o2", "odd[1]"),
        *("only_a", "reduce", "saxpy", "scale<float, 4>", "x"),
    )


def test_archs_are_in_order_of_kind_and_number(tmp_path: Path) -> None:
    archs = ("sm_75", "sm_90", "sm_90a", "sm_100", "compute_80", "compute_120")
    cubins = load_bundle(tmp_path, bundle(*(made(f"k{arch}", arch) for arch in reversed(archs))))
    assert cubins.archs() == archs


@pytest.mark.parametrize(
    ("spelled", "normal"),
    [
        ("saxpy", "saxpy"),
        ("", ""),
        (" scale < float,4 > ", "scale<float, 4>"),
        ("f<unsigned   int,const char *>", "f<unsigned int, const char*>"),
        ("f<g<int> >", "f<g<int>>"),
        ("ns :: f< -1 >", "ns::f<-1>"),
        ("f<a_ b>", "f<a_ b>"),
    ],
)
def test_a_kernel_has_one_spelling(spelled: str, normal: str) -> None:
    assert loader.normal_name(spelled) == normal
    assert loader.normal_name(normal) == normal


def test_an_empty_bundle_says_why(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(skipped=True, major=0))
    assert (cubins.names(), cubins.archs()) == ((), ())
    assert (cubins.is_available("saxpy"), cubins.is_available(strict=True)) == (False, False)
    with pytest.raises(cubins.CubinNotFoundError, match="the package was built with HATCH_CUBIN_SKIP"):
        cubins.read("saxpy", cc=(9, 0))


def test_without_a_name_is_available_raises_nothing_even_for_an_empty_bundle(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle())
    assert (cubins.is_available(), cubins.is_available(strict=True)) == (False, False)


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_every_line_is_found_among_any_number(tmp_path: Path, count: int) -> None:
    names = sorted(
        f"m{'x' * (number % 7)}{number} !"[: 3 + number % 9] + str(number) for number in range(count)
    )
    cubins = load_bundle(
        tmp_path, bundle(*(made(name, kernels={loader.normal_name(f"k {name}"): "k"}) for name in names))
    )
    assert [cubins.find(name, cc=(9, 0)).module for name in names] == names
    assert [cubins.find(f"k {name}", cc=(9, 0)).module for name in names] == names
    for name in ("a", "m", "mxx", "zz"):
        with pytest.raises(cubins.CubinNotFoundError):
            cubins.find(name, cc=(9, 0))
