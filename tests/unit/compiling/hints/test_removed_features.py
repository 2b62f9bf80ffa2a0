"""What CUDA no longer takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import removed_features
from hatch_cubin.errors import Location

from .failed_compiles import error, setting, undefined

ANEW = "write .version 3.1 with .address_size 64, where its code allows that, or generate it anew"
PTX = "// .version\n.version 3.0\n.target sm_20\n  .address_size 32\n"


@pytest.mark.parametrize(("kind", "instead"), [("texture", "Texture"), ("surface", "Surface")])
def test_references_are_told_once_for_all_that_uses_them(tmp_path: Path, kind: str, instead: str) -> None:
    told = removed_features.references(
        [error(f"{kind} is not a template"), error("x"), error("y")], setting(tmp_path)
    )
    assert told is not None
    assert (told[0].context, told[1]) == (("and 2 more errors after it",), [])
    assert told[0].hint == (
        f"CUDA 12 and later have no {kind} references: pass the kernel a cuda{instead}Object_t"
    )


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        (undefined("__shfl"), "__shfl_sync(0xffffffff, …)"),
        (undefined("__shfl_down"), "__shfl_down_sync(0xffffffff, …)"),
        (
            error("Instruction 'vote' without '.sync' is not supported on .target sm_70 and higher"),
            "__any_sync, __all_sync or __ballot_sync",
        ),
    ],
    ids=["shuffle", "shuffle down", "vote"],
)
def test_calls_without_a_mask_of_lanes_name_those_with_one(tmp_path: Path, found: object, meant: str) -> None:
    told = removed_features.unsynced([error("x"), found], setting(tmp_path))  # type: ignore[list-item]
    assert told is not None
    mask = "since CUDA 9, such calls begin with the mask of the lanes that take part"
    assert told[0].hint == f"{mask}: {meant}"
    assert [each.text for each in told[1]] == ["x"]


@pytest.mark.parametrize(
    ("text", "line", "where", "hint"),
    [
        ("'Compile only(-c)' requires PTX ISA .version 3.1 or later", None, 2, ANEW),
        (
            "32-Bit ABI (--machine 32 or 32-Bit addressing) is not supported on sm_90 or higher",
            None,
            4,
            "no arch from sm_90 on has 32-bit addresses: generate it anew, for 64-bit ones",
        ),
        (
            "Deprecated feature: '.tex' not supported as of PTX version 1.5",
            7,
            7,
            "PTX 1.5 and later declare a texture as .global .texref: generate it anew",
        ),
        (
            "Unsupported .version 99.0; current version is '9.5'",
            2,
            2,
            "a newer compiler wrote it: where there is a toolkit of that release, 'toolkit' names it",
        ),
    ],
)
def test_a_ptx_text_of_another_time_has_the_line_that_says_so(
    tmp_path: Path, text: str, line: int | None, where: int, hint: str
) -> None:
    there = setting(tmp_path, path="demo/k.ptx", text=PTX)
    told = removed_features.outdated([error("x", "demo/k.ptx"), error(text, "demo/k.ptx", line)], there)
    assert told is not None
    assert (told[0].where, told[0].hint) == (Location("demo/k.ptx", where), hint)
    assert [each.text for each in told[1]] == ["x"]


@pytest.mark.parametrize(("text", "line"), [(".version 7.0\n.target sm_80\n", 2), ("", None)])
def test_a_directive_that_is_left_out_has_the_place_of_the_target(
    tmp_path: Path, text: str, line: int | None
) -> None:
    there = setting(tmp_path, path="demo/k.ptx", text=text)
    told = removed_features.outdated([error("32-Bit ABI is not supported", "demo/k.ptx", None)], there)
    assert told is not None
    assert told[0].where == Location("demo/k.ptx", line)


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    there = setting(tmp_path, path="demo/k.ptx", text=PTX)
    found = [error("Unknown symbol '%r1'", "demo/k.ptx", 4)]
    assert [
        cause(found, there)
        for cause in (removed_features.references, removed_features.unsynced, removed_features.outdated)
    ] == [None] * 3
    assert removed_features.outdated([error("32-Bit ABI")], setting(tmp_path)) is None
