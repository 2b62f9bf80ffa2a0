"""Names and values that a producer returned become sources, or errors."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.config.config import ProducerRule, TableLocation
from hatch_cubin.errors import SourceError
from hatch_cubin.producing import producer_script
from hatch_cubin.producing.produced_texts import sources_of
from hatch_cubin.project.source import Source
from tests.helpers import TABLE, Coded, found, refusal
from tests.tile_tools import TILE_IR

RULE = ProducerRule(path="demo/kernels/gen.py", produces=("cu", "ptx", "tileir"))
PLACE = TableLocation("pyproject.toml", "", TABLE)


def sources(name: Any, value: Any = "text", rule: ProducerRule = RULE) -> Source:
    (one,) = sources_of([(name, value)], rule, PLACE)
    return one


@pytest.mark.parametrize(
    ("name", "path", "stem", "variant", "arch"),
    [
        ("axpy.cu", "axpy.cu", "axpy", (), ""),
        ("mm[BM=64,T=a b].cu", "mm.cu", "mm", (("BM", "64"), ("T", "a b")), ""),
        ("mm[A=1, B=2].cu", "mm.cu", "mm", (("A", "1"), ("B", "2")), ""),
        ("mm[FAST=true,SAFE=false].cu", "mm.cu", "mm", (("FAST", "1"), ("SAFE", "0")), ""),
        ("mm[FAST=True,SAFE=False].cu", "mm.cu", "mm", (("FAST", "1"), ("SAFE", "0")), ""),
        ("mm[B=1].sm_90a.ptx", "mm.sm_90a.ptx", "mm", (("B", "1"),), "sm_90a"),
        ("mm.compute_90.ptx", "mm.compute_90.ptx", "mm", (), "compute_90"),
    ],
)
def test_a_name_has_parts(
    name: str, path: str, stem: str, variant: tuple[tuple[str, str], ...], arch: str
) -> None:
    one = sources(name)
    assert (one.path, one.path_for_globs) == (f"demo/kernels/{name}", f"demo/kernels/{path}")
    assert (one.stem, one.variant, one.arch) == (stem, variant, arch)
    assert one.name_path == f"demo/kernels/{stem}.cu"
    assert one.produced is not None
    assert one.produced.rule.archs == ((arch,) if arch else None)


@pytest.mark.parametrize(
    "names",
    [("a[P=1,Q=2].cu", "a[Q=2,P=1].cu"), ("a[F=True].cu", "a[F=1].cu")],
    ids=["another order", "a boolean and its number"],
)
def test_names_that_the_loader_could_not_tell_apart_are_refused(names: tuple[str, str]) -> None:
    error = refusal(SourceError, lambda: sources_of([(name, "text") for name in names], RULE, PLACE))
    assert found(error) == [("bad-produced-name", "demo/kernels/gen.py")]


def test_a_header_among_the_texts_belongs_into_a_file() -> None:
    error = refusal(SourceError, sources, "axpy.cuh")
    assert [*error.problems] == [
        Coded("bad-produced-name", "demo/kernels/gen.py", "write the header to a file"),
    ]


def test_names_with_other_values_or_archs_differ() -> None:
    names = ("a[P=1].cu", "a[P=2].cu", "a[P=1].sm_90.cu", "a[P=1,Q=1].cu", "b[P=1].cu", "c.cu", "c.sm_90.cu")
    assert len(sources_of([(name, "text") for name in names], RULE, PLACE)) == len(names)


def test_a_script_at_the_top_of_the_project_produces_sources_there() -> None:
    one = sources("axpy.cu", rule=ProducerRule(path="gen.py"))
    assert (one.path, one.path_for_globs) == ("axpy.cu", "axpy.cu")


def test_a_value_may_have_settings() -> None:
    value = {"text": "a\r\nb", "instantiate": ["k<1>"], "define": {"N": 4, "OFF": False}, "name": "x"}
    one = sources("axpy.cu", value)
    assert one.produced is not None
    rule = one.produced.rule
    assert (one.text, [*rule.instantiate], rule.define, rule.undefined) == (
        "a\nb",
        ["k<1>"],
        (("N", "4"),),
        ("OFF",),
    )
    assert rule.name == "x"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("../axpy.cu", "x", "bad-produced-name"),
        ("a/b.cu", "x", "bad-produced-name"),
        (".cu", "x", "bad-produced-name"),
        ("axpy", "x", "bad-produced-name"),
        ("axpy.cpp", "x", "bad-produced-name"),
        ("a\n.cu", "x", "bad-produced-name"),
        ({"": "int"}, "x", "bad-produced-name"),
        ("mm[64].cu", "x", "bad-produced-name"),
        ("mm[].cu", "x", "bad-produced-name"),
        ("mm[A=1,A=2].cu", "x", "bad-produced-name"),
        ("mm.sm_70a.cu", "x", "bad-produced-name"),
        ("mm.sm_91x.cu", "x", "bad-produced-name"),
        ("mm.90.cu", "x", "bad-produced-name"),
        ("mm.v2.cu", "x", "bad-produced-name"),
        ("mm.sm_80.sm_90.cu", "x", "bad-produced-name"),
        ("mm.sm_80[A=1].cu", "x", "bad-produced-name"),
        ("mm{A=1}.cu", "x", "bad-produced-name"),
        ("mm[T=vec<float, 4>].cu", "x", "bad-produced-name"),
        ("a.cu", {"": "bytes"}, "produced-no-text"),
        ("a.cu", {"text": None}, "produced-no-text"),
        ("a.cu", {"text": 5}, "produced-no-text"),
        ("a.cu", {"define": {}}, "produced-no-text"),
        ("a.cu", "\ud800", "produced-no-text"),
        ("a.tileir", "text", "produced-no-text"),
        ("a.tileir", {"text": {"": "int"}}, "produced-no-text"),
        ("a.tileir", {"": "bytes", "data": "text"}, "not-tile-ir"),
        ("a.cu", " \n", "empty-source"),
        ("a.cu", "a\0b", "nul-byte-in-source"),
        ("a.cu", {"text": "x", "path": "y"}, "unknown-key"),
        ("a.cu", {"text": "x", "define": {"A": []}}, "invalid-value"),
        ("a.cu", {"text": "x", "define": {"A": {"": "set"}}}, "invalid-value"),
        ("a.cu", {"text": "x", "instantiate": [{"kernel": "k", "N": {"": "set"}}]}, "invalid-value"),
        ("a.cu", {"text": "x", "define": {"A": 1}, "variants": {"A": [1, 2]}}, "macro-without-effect"),
        ("a.sm_90.cu", {"text": "x", "archs": ["sm_80"]}, "key-in-wrong-table"),
    ],
)
def test_wrong_names_and_values_are_refused(name: Any, value: Any, code: str) -> None:
    assert found(refusal(SourceError, sources, name, value)) == [(code, "demo/kernels/gen.py")]


def test_tile_ir_is_produced_as_bytes() -> None:
    value = producer_script.plain({"text": TILE_IR, "options": {"lineinfo": True}})
    source = sources("a[N=4].tileir", value)
    assert (source.code, source.is_tile_ir, source.stem) == (TILE_IR, True, "a")


def test_all_wrong_values_are_reported_with_their_names() -> None:
    values = [("a.cu", {"": "int"}), ("b.cu", {}), ("c.cu", "x")]
    error = refusal(SourceError, sources_of, values, RULE, PLACE)
    assert [each.what.partition(":")[0] for each in error.problems] == ["'a.cu'", "'b.cu'"]


def test_a_suffix_that_the_table_does_not_name_has_a_line_to_paste() -> None:
    (one,) = refusal(SourceError, sources, "a.ptx", "x", ProducerRule(path="gen.py")).problems
    assert (one.code, one.hint) == (
        "unexpected-suffix",
        'write in the producer table: produces = ["cu", "ptx"]',
    )


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ({"archs": "sm_90"}, "in the mapping for this name: 'archs': ['sm_90']"),
        ({"options": {"std": "c++26"}}, "in the mapping for this name: 'options': {'std': 'c++20'}"),
        ({"option": {}}, "did you mean 'options'?"),
        ({"name": ""}, None),
    ],
)
def test_hints_for_settings_are_written_in_python(setting: dict[str, Any], hint: str | None) -> None:
    (one,) = refusal(SourceError, sources, "a.cu", {"text": "x", **setting}).problems
    assert (one.hint, PLACE.table[0] in str(one)) == (hint, False)
