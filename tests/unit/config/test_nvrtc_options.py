"""The table of compiler options, against cuda.core's own dataclass."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from hatch_cubin.config import nvrtc_options as options_module
from hatch_cubin.config.nvrtc_options import ALLOWED, REFUSED, check_option

_KIND_OF_TYPE = {
    "bool | None": "a boolean",
    "int | None": "an integer",
    "str | None": "a string",
    "str | list[str] | tuple[str] | None": "a string or an array of strings",
    "int | list[int] | tuple[int] | None": "an integer or an array of integers",
}


def program_options() -> Any:
    return pytest.importorskip("cuda.core").ProgramOptions


def test_every_field_of_cuda_core_is_allowed_or_refused_and_no_other_is() -> None:
    fields = {field.name for field in dataclasses.fields(program_options())}
    assert set(ALLOWED) | set(REFUSED) == fields
    assert set(ALLOWED) & set(REFUSED) == set()


def test_every_allowed_field_has_the_type_that_cuda_core_gives_it() -> None:
    types = {field.name: field.type for field in dataclasses.fields(program_options())}
    assert {name: _KIND_OF_TYPE[str(types[name])] for name in ALLOWED} == ALLOWED


@pytest.mark.parametrize("name", REFUSED)
def test_every_refusal_gives_a_reason(name: str) -> None:
    assert re.fullmatch(r"[a-z'].*[^.]", REFUSED[name])


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("lineinfo", True, True),
        ("fma", False, False),
        ("max_register_count", 64, 64),
        ("std", "c++20", "c++20"),
        ("ptxas_options", "-v", "-v"),
        ("ptxas_options", ["-v", "-O1"], ("-v", "-O1")),
        ("ptxas_options", [], ()),
        ("diag_suppress", 177, 177),
        ("diag_suppress", [177, 550], (177, 550)),
        ("diag_suppress", [], ()),
    ],
    ids=str,
)
def test_a_value_is_taken_as_cuda_core_takes_it(name: str, value: object, taken: object) -> None:
    result = check_option(name, value)
    assert (result, type(result)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lineinfo", 1, "must be a boolean, not 1"),
        ("lineinfo", "true", "must be a boolean, not 'true'"),
        ("lineinfo", [True], "must be a boolean, not [True]"),
        ("max_register_count", True, "must be an integer, not True"),
        ("max_register_count", 64.0, "must be an integer, not 64.0"),
        ("max_register_count", "64", "must be an integer, not '64'"),
        ("max_register_count", [64], "must be an integer, not [64]"),
        ("std", 17, "must be a string, not 17"),
        ("std", ["c++17"], "must be a string, not ['c++17']"),
        ("std", "c++17\n", r"must be a string, not 'c++17\n'"),
        ("ptxas_options", 1, "must be a string or an array of strings, not 1"),
        ("ptxas_options", ["-v", 1], "must be a string or an array of strings, not ['-v', 1]"),
        ("ptxas_options", ["-v\0"], r"must be a string or an array of strings, not ['-v\x00']"),
        ("diag_error", "1", "must be an integer or an array of integers, not '1'"),
        ("diag_error", [1, True], "must be an integer or an array of integers, not [1, True]"),
        ("diag_error", [1, "2"], "must be an integer or an array of integers, not [1, '2']"),
        ("diag_error", {}, "must be an integer or an array of integers, not {}"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        check_option(name, value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("std", "gnu++17"),
        ("std", "c++17 --fdevice-time-trace=t"),
        ("optimization_info", "t.json"),
        ("ofast_compile", "max --options-file=o"),
        ("undefine_macro", "@options"),
        ("undefine_macro", ["N", "N --time=t"]),
    ],
)
def test_a_text_can_be_nothing_but_what_the_compiler_knows(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\Amust be .*, not "):
        check_option(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("std", ""), ("ptxas_options", ""), ("ptxas_options", ["-v", ""]), ("undefine_macro", [""])],
)
def test_an_empty_string_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\Amust not be an empty string, which crashes NVRTC\Z"):
        check_option(name, value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(("max_register_count", count, f"from 0 to 255, not {count}") for count in (-1, 256, 65536)),
        *(("split_compile", count, f"from 0 to 1024, not {count}") for count in (-5, 1025)),
        *((f"diag_{kind}", -1, "from 1 to 2147483647, not -1") for kind in ("error", "suppress", "warn")),
        ("diag_suppress", [177, 0, -1], "from 1 to 2147483647, not 0"),
    ],
    ids=str,
)
def test_a_number_that_the_compiler_does_not_know_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=rf"\Amust be {message}\Z"):
        check_option(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_register_count", count) for count in (0, 16, 255)),
        ("split_compile", 0),
        ("split_compile", 1024),
    ],
)
def test_a_number_that_the_compiler_knows_is_taken(name: str, value: int) -> None:
    assert check_option(name, value) == value


_TEXTS = {"std": "c++20", "optimization_info": "inline", "ofast_compile": "max", "undefine_macro": "N"}


@pytest.mark.parametrize("name", ALLOWED)
def test_cuda_core_accepts_a_value_of_every_allowed_field(name: str) -> None:
    value = {
        "a boolean": True,
        "an integer": 1,
        "a string": _TEXTS.get(name, "x"),
        "a string or an array of strings": [_TEXTS.get(name, "-x")],
        "an integer or an array of integers": [1],
    }[ALLOWED[name]]
    taken = check_option(name, value)
    options = program_options()(
        arch="sm_90", **{name: list(taken) if isinstance(taken, tuple) else taken}
    ).as_bytes("nvrtc", "cubin")
    assert len(options) > len(program_options()(arch="sm_90").as_bytes("nvrtc", "cubin"))


def test_a_kind_reads_as_a_sentence() -> None:
    assert set(options_module.ALLOWED.values()) == set(_KIND_OF_TYPE.values())
