"""How the inputs of two units differ, and which cached unit is nearest to another unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hatch_cubin.explaining.differences import Difference, describe, describe_all, differences, nearest_unit

WHEELS = "NVIDIA's wheels " + "0" * 64
NOW: Mapping[str, Any] = {
    "schema": "hatch-cubin 1",
    "source": "text",
    "path": "demo/k.cu",
    "arch": "sm_90",
    "compiler": "13.5.37",
    "data_model": "lp64",
    "define": ["N=4", "MAX(a, b)=((a) == (b))"],
    "options": {"lineinfo": True, "ptxas_options": ["-O2"]},
    "instantiate": ["f<1>", "f<2>"],
    "implicit": ["--frandom-seed=hatch-cubin"],
    "headers": {"project/demo/a.cuh": "aaa", "nvrtc": "1" * 64, "cuda": "3" * 64},
    "search": ["project/include", "nvrtc"],
    "trees": [WHEELS],
    "builds": {"nvrtc": "NVRTC 13.5.37 headers", "cuda": WHEELS},
    "cuda_core": "1.2.2",
}


def described(**was: Any) -> list[str]:
    """Return the sentences for a unit that had these other inputs before."""
    return [describe(each, NOW) for each in differences({**NOW, **was}, NOW)]


HEADERS = NOW["headers"]


@pytest.mark.parametrize(
    ("was", "sentences"),
    [
        ({}, []),
        ({"compiler": "13.4.92"}, ["NVRTC 13.4.92 -> 13.5.37"]),
        ({"arch": "sm_80"}, ["the cache has a result for sm_80, but not for sm_90"]),
        ({"object": "rdc"}, ["the source is no longer compiled for linking"]),
        (
            {"path": "demo/old.cu"},
            [("the cache has a result with the name demo/old.cu, but not with the name demo/k.cu")],
        ),
        ({"source": "other"}, ["demo/k.cu has changed"]),
        ({"data_model": "llp64"}, ["data model llp64 -> lp64"]),
        (
            {"schema": "hatch-cubin 0"},
            ["this version of hatch-cubin makes cache keys differently: hatch-cubin 0 -> hatch-cubin 1"],
        ),
        ({"headers": {**HEADERS, "project/demo/a.cuh": "a"}}, ["demo/a.cuh was edited"]),
        ({"headers": {"nvrtc": "1" * 64, "cuda": "3" * 64}}, ["demo/a.cuh is now included"]),
        ({"headers": {**HEADERS, "/opt/b.h": "b"}}, ["/opt/b.h is no longer included"]),
        ({"define": ["N=8", NOW["define"][1]]}, ["macro N: 8 -> 4"]),
        ({"define": ["N=4"]}, ["macro MAX(a, b)=((a) == (b)) is new"]),
        ({"define": [*NOW["define"], "M="]}, ["macro M= is gone"]),
        (
            {"define": [*reversed(NOW["define"])]},
            ["the order of the macros: MAX(a, b), N -> N, MAX(a, b)"],
        ),
        ({"options": {**NOW["options"], "lineinfo": False}}, ["option lineinfo: false -> true"]),
        ({"options": {"lineinfo": True}}, ['option ptxas_options=["-O2"] is new']),
        ({"options": {**NOW["options"], "std": "c++20"}}, ["option std=c++20 is gone"]),
        ({"instantiate": ["f<2>", "f<1>"]}, []),
        (
            {"instantiate": ["f<1>", "f<3>"]},
            ["f<3> is no longer instantiated", "f<2> is now instantiated"],
        ),
        (
            {"search": ["project/old", "nvrtc"]},
            ["the search path no longer contains old", "the search path now contains include"],
        ),
        (
            {"search": ["nvrtc", "project/include"]},
            ["the order of the search path: nvrtc, project/include -> project/include, nvrtc"],
        ),
        ({"search": []}, ["the search path now contains include"]),
        ({"search": ["project/include", "nvrtc", "mylib"]}, ["the search path no longer contains mylib"]),
        (
            {"search": [], "headers": {}, "builds": {}},
            [
                "demo/a.cuh is now included",
                "headers from NVRTC 13.5.37 are now included",
                "headers from NVIDIA's wheels are now included",
            ],
        ),
        ({"headers": {**HEADERS, "nvrtc": "2" * 64}}, ["headers from NVRTC 13.5.37 differ"]),
        (
            {
                "headers": {**HEADERS, "nvrtc": "2" * 64},
                "builds": {"nvrtc": "NVRTC 13.4.92 headers", "cuda": WHEELS},
            },
            ["headers that came from NVRTC 13.4.92 now come from NVRTC 13.5.37"],
        ),
        ({"headers": {**HEADERS, "mylib": "4" * 64}}, ["headers from mylib are no longer included"]),
        ({"trees": ["CUTLASS", WHEELS]}, ["some headers from CUTLASS are no longer inputs"]),
        ({"trees": []}, ["all headers from NVIDIA's wheels are now inputs"]),
        ({"trees": [WHEELS[:-1] + "1"]}, ["another release of NVIDIA's wheels is installed"]),
        ({"implicit": []}, ["hatch-cubin now adds '--frandom-seed=hatch-cubin'"]),
        ({"assembled": "sm_90"}, []),
        ({"cuda_core": "1.0.0"}, ["cuda-core 1.0.0 -> 1.2.2, which changes the cache keys"]),
        ({"cuda_core": "1.0.0", "arch": "sm_80"}, ["the cache has a result for sm_80, but not for sm_90"]),
    ],
)
def test_each_input_that_differs_is_a_sentence(was: Mapping[str, Any], sentences: list[str]) -> None:
    assert described(**was) == sentences


def test_ptx_that_was_not_assembled_differs_from_ptx_that_is() -> None:
    was = {**NOW, "arch": "compute_90"}
    now = {**was, "assembled": "sm_90"}
    (difference,) = differences(was, now)
    assert difference == Difference("assembled", None, None, "sm_90")
    assert describe(difference, now) == "ptxas now assembles the PTX for sm_90, only to check the PTX"
    assert differences(now, now) == ()
    assert [each.input for each in differences(NOW, now)] == ["arch"]


def test_a_new_build_with_the_same_headers_is_not_a_difference() -> None:
    assert described(builds={"nvrtc": "NVRTC 13.4.92 headers", "cuda": "NVIDIA's wheels " + "1" * 64}) == []


def test_changes_that_come_with_another_compiler_are_summed_up() -> None:
    brought = {
        "headers": {**HEADERS, "nvrtc": "2" * 64},
        "search": ["nvrtc", "project/include", "cuda"],
        "trees": [],
        "implicit": [],
    }
    was = {**NOW, **brought, "define": ["N=8", NOW["define"][1]]}
    assert len(differences({**was, "compiler": "12.9.86"}, NOW)) == 6
    assert describe_all(differences({**was, "compiler": "12.9.86"}, NOW), NOW) == [
        "NVRTC 12.9.86 -> 13.5.37, and the compiler's own headers and options differ too",
        "macro N: 8 -> 4",
    ]
    assert describe_all(differences(was, NOW), NOW) == [
        "macro N: 8 -> 4",
        "the search path no longer contains cuda",
        "headers from NVRTC 13.5.37 differ",
        "all headers from NVIDIA's wheels are now inputs",
        "hatch-cubin now adds '--frandom-seed=hatch-cubin'",
    ]
    alone = {**NOW, "compiler": "13.4.92", "search": ["project/old", "nvrtc"]}
    assert describe_all(differences(alone, NOW), NOW) == [
        "NVRTC 13.4.92 -> 13.5.37",
        "the search path no longer contains old",
        "the search path now contains include",
    ]
    assert describe_all((), NOW) == []


@pytest.mark.parametrize(("suffix", "tool"), [("cu", "NVRTC"), ("ptx", "ptxas"), ("tileir", "tileiras")])
def test_each_kind_of_source_has_its_tool(suffix: str, tool: str) -> None:
    now = {**NOW, "path": f"demo/k.{suffix}"}
    (found,) = differences({**now, "compiler": "13.4.92"}, now)
    assert describe(found, now) == f"{tool} 13.4.92 -> 13.5.37"


def test_a_difference_has_both_values() -> None:
    was = {**NOW, "options": {"lineinfo": True}, "headers": {**HEADERS, "nvrtc": "2" * 64}}
    assert differences(was, NOW) == (
        Difference("option", "ptxas_options", None, '["-O2"]'),
        Difference(
            "headers", "nvrtc", f"NVRTC 13.5.37 headers {'2' * 64}", f"NVRTC 13.5.37 headers {'1' * 64}"
        ),
    )


def nearest_key(*records: Mapping[str, Any], variant: tuple[str, ...] = ()) -> str | None:
    """Return the key of the nearest of *records*. Their keys are a, b, c …"""
    named = {key: {**NOW, **was} for key, was in zip("abcdef", records, strict=False)}
    found = nearest_unit(NOW, variant, named)
    return found and found.key


@pytest.mark.parametrize(
    ("records", "key"),
    [
        pytest.param([], None, id="an empty cache"),
        pytest.param([{"path": "other.cu", "source": "other"}], None, id="only other sources"),
        pytest.param([{"path": "old.cu"}], "a", id="the same text elsewhere"),
        pytest.param(
            [{"path": "old.cu"}, {"source": "x", "compiler": "y"}], "b", id="the path before the text"
        ),
        pytest.param(
            [{"arch": "sm_80"}, {"source": "x", "compiler": "y"}], "b", id="the arch before the rest"
        ),
        pytest.param([{"arch": "compute_90"}, {"arch": "sm_75"}], "b", id="an arch of the same kind"),
        pytest.param([{"arch": "sm_75"}, {"arch": "sm_80"}, {"arch": "sm_120"}], "b", id="the nearest arch"),
        pytest.param([{"arch": "sm_90a"}, {"arch": "sm_89"}], "a", id="the same number with a suffix"),
        pytest.param([{"arch": "odd"}, {"arch": "sm_75"}], "b", id="an arch with a wrong name"),
        pytest.param([{"source": "x", "compiler": "y"}, {"source": "x"}], "b", id="the fewest differences"),
        pytest.param([{"source": "x"}, {"source": "y"}], "a", id="a tie"),
    ],
)
def test_the_nearest_unit_has_the_same_source_and_arch_and_the_fewest_differences(
    records: list[Mapping[str, Any]], key: str | None
) -> None:
    assert nearest_key(*records) == key


def test_a_variant_is_compared_with_its_own_record_if_there_is_one() -> None:
    itself = {"define": ["N=4"], "source": "x", "compiler": "y"}
    assert nearest_key({"define": ["N=8"]}, itself, variant=("N=4",)) == "b"
    assert nearest_key({"define": ["N=8"]}, itself) == "a"


@pytest.mark.parametrize("part", ["linked", "mode", "object", "assembled"])
def test_a_record_with_a_wrong_type_of_an_optional_value_is_skipped(
    part: str,
) -> None:
    assert nearest_key({part: 5}) is None


@pytest.mark.parametrize("part", NOW)
def test_a_record_with_a_wrong_type_of_a_required_value_is_skipped(part: str) -> None:
    assert nearest_key({part: None}, {"arch": "sm_75"}) == "b"
    assert nearest_unit(NOW, (), {"a": []}) is None  # type: ignore[dict-item]
