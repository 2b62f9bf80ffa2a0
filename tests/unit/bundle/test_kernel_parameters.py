"""What the manifest says that kernels take: from their files, their symbols and their sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hatch_cubin.bundle.kernel_parameters import signature, with_types
from hatch_cubin.bundle.manifest import module_line
from tests.cubins import FUNC, KERNEL, elf
from tests.helpers import bundle, load_bundle, made
from tests.unit.cubin.test_elf import INFO, REGISTERS, end, parameter


def taking(symbol: str, *places: tuple[int, int]) -> bytes:
    """Return code whose one kernel has parameters at these places."""
    told = b"".join(parameter(number, *place) for number, place in enumerate(places))
    told += end(sum(places[-1])) if places else b""
    return elf(
        (symbol, FUNC, KERNEL, 7), more=[(".nv.info", INFO, REGISTERS, 0), (".nv.info.k", INFO, told, 7)]
    )


def lines(*built: Any) -> dict[str, Any]:
    """Return the modules' lines of a manifest, by name."""
    modules: dict[str, Any] = json.loads(bundle(*built)["manifest.json"])["modules"]
    return modules


SYMBOL = "_Z5scaleIfLi4EEvPT_i"
SCALE = {"scale<float, 4>": SYMBOL}


def test_what_is_the_same_for_all_archs_stands_once() -> None:
    data = taking(SYMBOL, (0, 8), (8, 4))
    module = lines(made("scale", "sm_80", SCALE, data=data), made("scale", "sm_90", SCALE, data=data))[
        "scale"
    ]
    assert module["parameters"] == {"scale<float, 4>": [[0, 8, "float *"], [8, 4, "int"]]}
    assert [sorted(entry) for entry in module["entries"]] == [
        ["arch", "file", "kind", "min_driver", "resources", "sha256", "size"]
    ] * 2


def test_an_arch_that_differs_has_its_own() -> None:
    usual, wider = taking("k", (0, 4), (4, 4)), taking("k", (0, 4), (8, 8))
    module = lines(made("k", "sm_80", data=usual), made("k", "sm_90", data=wider))["k"]
    assert module["parameters"] == {"k": [[0, 4], [4, 4]]}
    assert [entry.get("parameters") for entry in module["entries"]] == [None, {"k": [[0, 4], [8, 8]]}]


def test_kernels_that_one_arch_lacks_are_no_difference() -> None:
    one, other = taking("f", (0, 4)), taking("g", (0, 8))
    module = lines(made("k", "sm_80", {"f": "f"}, data=one), made("k", "sm_90", {"g": "g"}, data=other))["k"]
    assert module["parameters"] == {"f": [[0, 4]], "g": [[0, 8]]}
    assert [entry.get("parameters") for entry in module["entries"]] == [None, None]


def test_where_one_file_does_not_tell_it_is_not_told_of_that() -> None:
    code = taking("k", (0, 4))
    module = lines(made("k", "sm_80", data=code), made("k", "sm_90"), made("k", "compute_90"))["k"]
    assert module["parameters"] == {"k": [[0, 4]]}
    told = {entry["arch"]: entry.get("parameters") for entry in module["entries"]}
    assert told == {"sm_80": None, "sm_90": {}, "compute_90": {}}


def test_nothing_is_written_where_nothing_is_known() -> None:
    assert "parameters" not in lines(made("k"))["k"]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (("float", "const float *"), [[0, 4, "float"], [8, 8, "const float *"]]),
        (("float", "std::size_t"), [[0, 4, "float"], [8, 8, "std::size_t"]]),
        (("cuda::std::uint32_t", "long"), [[0, 4, "cuda::std::uint32_t"], [8, 8, "long"]]),
        (("Mine", "ns::Yours"), [[0, 4, "Mine"], [8, 8, "ns::Yours"]]),
        ((None, "long"), [[0, 4], [8, 8, "long"]]),
        (("double", None), [[0, 4], [8, 8]]),
        (("float",), [[0, 4], [8, 8]]),
        (("double", "const float *"), [[0, 4], [8, 8]]),
        (("float *", "const float *"), [[0, 4], [8, 8]]),
        (None, [[0, 4], [8, 8]]),
    ],
    ids=str,
)
def test_types_that_do_not_fit_what_was_compiled_are_dropped(
    types: tuple[str | None, ...] | None, told: list[list[Any]]
) -> None:
    assert with_types([(0, 4), (8, 8)], types) == told


def test_a_parameter_without_a_type_is_told_by_its_size() -> None:
    assert signature("k", [[0, 4, "int"], [8, 16]]) == "k(int, 16 bytes)"


def test_the_texts_say_what_a_symbol_does_not() -> None:
    code = taking("k", (0, 8), (8, 16), (24, 4))
    module = lines(made("k", data=code, types={"k": ("double *", None, "unsigned int")}))["k"]
    assert module["parameters"] == {"k": [[0, 8, "double *"], [8, 16], [24, 4, "unsigned int"]]}
    module = lines(made("k", data=code, types={"j": ("int", "int", "int")}))["k"]
    assert module["parameters"] == {"k": [[0, 8], [8, 16], [24, 4]]}


# What a loader makes of it


def entries(tmp_path: Any, **fields: Any) -> Mapping[str, Any]:
    """Return what the loader says of a module's parameters, by arch, where its line has other *fields*."""
    code = taking("k", (0, 4))
    files = bundle(made("k", "sm_80", data=code), made("k", "sm_90", data=code))
    data = json.loads(files["manifest.json"])
    line = {key: value for key, value in {**data["modules"]["k"], **fields}.items() if key != "check"}
    old = files["manifest.json"].split(b"\n")
    files["manifest.json"] = b"\n".join(
        module_line("k", line) if part.startswith(b'"k":{"check"') else part for part in old
    )
    cubins = load_bundle(tmp_path, files)
    return {arch: cubins.find("k", cc=cc).parameters for arch, cc in (("sm_80", (8, 0)), ("sm_90", (9, 0)))}


def test_an_entry_says_what_its_kernels_take(tmp_path: Any) -> None:
    told = entries(tmp_path, parameters={"k": [[0, 4, "int"], [8, 16]], "other": [[0, 4]]})
    assert {arch: repr(dict(each)) for arch, each in told.items()} == dict.fromkeys(
        ("sm_80", "sm_90"),
        "{'k': (Parameter(offset=0, size=4, type='int'), Parameter(offset=8, size=16, type=None))}",
    )
    assert [str(each) for each in told["sm_80"]["k"]] == ["int", "16 bytes"]


def test_a_bundle_of_an_older_release_says_nothing(tmp_path: Any) -> None:
    assert {arch: dict(each) for arch, each in entries(tmp_path, parameters={}).items()} == {
        "sm_80": {},
        "sm_90": {},
    }


@pytest.mark.parametrize(
    "told", [1, "k", [1], [[1]], [["0", 4]], [[0, 4, 5]], [[0, 4, "int", 1]], [[True, 4]]]
)
def test_a_manifest_that_says_something_else_is_damaged(tmp_path: Any, told: Any) -> None:
    with pytest.raises(Exception, match="is damaged") as caught:
        entries(tmp_path, parameters={"k": told})
    assert type(caught.value).__name__ == "CubinDamagedError"
