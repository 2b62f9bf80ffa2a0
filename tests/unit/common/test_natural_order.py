"""Names in the order that people expect."""

from __future__ import annotations

from hatch_cubin.common.natural_order import by_number


def test_numbers_of_variants_count_by_their_value() -> None:
    names = ["k[N=64]", "k[N=128]", "k[N=1024]", "k[N=all]"]
    assert sorted({*names}, key=by_number) == names
    assert sorted(names) != names


def test_parts_of_numbers_and_later_macros_count_too() -> None:
    names = ["k", "k10", "k2", "k[A=0.25,B=9]", "k[A=0.5,B=9]", "k[A=0.5,B=10]", "k[A=02]", "k[A=2]"]
    assert sorted({*names}, key=by_number) == names
