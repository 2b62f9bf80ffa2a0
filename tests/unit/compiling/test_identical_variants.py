"""Macros of `variants` that change nothing."""

from __future__ import annotations

from hatch_cubin.cache.entries import Compiled
from hatch_cubin.common.arch_names import Arch
from hatch_cubin.compiling.identical_variants import identical_variant_notes
from hatch_cubin.planning.unit_plan import Module, Unit
from hatch_cubin.project.source import Source


def done(*results: tuple[dict[str, str], int, bytes]) -> dict[Unit, Compiled]:
    return {
        Unit(Module("k", Source("demo/k.cu", ""), tuple(variant.items())), Arch(arch)): Compiled(data, {})
        for variant, arch, data in results
    }


def test_a_macro_that_no_code_reads_is_named() -> None:
    found = done(
        ({"N": "1"}, 80, b"a"), ({"N": "2"}, 80, b"a"), ({"N": "1"}, 90, b"b"), ({"N": "2"}, 90, b"b")
    )
    assert identical_variant_notes(found) == [
        ("demo/k.cu: N has no effect: its 2 variants have the same code")
    ]


def test_a_macro_that_changes_something_for_one_arch_is_not() -> None:
    found = done(
        ({"N": "1"}, 80, b"a"), ({"N": "2"}, 80, b"a"), ({"N": "1"}, 90, b"b"), ({"N": "2"}, 90, b"c")
    )
    assert identical_variant_notes(found) == []


def test_each_macro_is_looked_at_beside_the_same_others() -> None:
    found = done(
        *(({"A": a, "B": b}, 80, b.encode()) for a in "12" for b in "xy"),
    )
    assert identical_variant_notes(found) == [
        ("demo/k.cu: A has no effect: its 2 variants have the same code")
    ]


def test_one_value_alone_is_no_choice() -> None:
    assert identical_variant_notes(done(({"N": "1"}, 80, b"a"), ({}, 90, b"a"))) == []
    assert identical_variant_notes({}) == []
