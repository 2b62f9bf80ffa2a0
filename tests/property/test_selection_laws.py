"""What must hold of the choice between entries, whatever was shipped."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin import loader
from tests.arch_families import FAMILIES, TEGRA

NUMBERS = (53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 107, 110, 120, 121)

capabilities = st.sampled_from((*NUMBERS, 88, 130))
drivers = st.sampled_from((11080, 12000, 12080, 13000, 13050))
archs = st.one_of(
    st.sampled_from(NUMBERS).map("sm_{}".format),
    st.sampled_from(NUMBERS).map("compute_{}".format),
    st.builds("{}_{}a".format, st.sampled_from(("sm", "compute")), st.sampled_from(NUMBERS)),
    st.builds("{}_{}f".format, st.sampled_from(("sm", "compute")), st.sampled_from(sorted(FAMILIES))),
)
shipments = st.lists(st.tuples(archs, drivers), unique_by=lambda entry: entry[0], max_size=12)


def rank(arch: str, cc: int) -> tuple[int, ...] | None:
    """Return how good *arch* is for *cc*, lower is better; None where it does not run there."""
    match = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", arch)
    assert match is not None
    kind, number, suffix = match[1], int(match[2]), match[3]
    runs = {
        "a": number == cc,
        "f": cc in FAMILIES.get(number, ()),
        "": number <= cc,
    }[suffix]
    if not runs:
        return None
    if kind == "compute":
        return 5, -number, {"a": 0, "f": 1, "": 2}[suffix]
    if suffix:
        return "af".index(suffix), -number
    if number == cc:
        return 2, 0
    crosses = number in TEGRA or cc in TEGRA
    return None if crosses or number // 10 != cc // 10 else (3, -number)


@given(capabilities, st.none() | drivers, shipments)
def test_the_choice_is_that_of_trying_every_entry(
    cc: int, driver: int | None, shipped: list[tuple[str, int]]
) -> None:
    ranked = [
        (found, arch)
        for arch, needed in shipped
        if (driver is None or needed <= driver) and (found := rank(arch, cc)) is not None
    ]
    chosen = loader.select(cc, driver, shipped)
    assert (chosen and chosen[0]) == (min(ranked)[1] if ranked else None)


@given(capabilities, drivers, shipments, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(
    cc: int, driver: int, shipped: list[tuple[str, int]], random: Random
) -> None:
    shuffled = list(shipped)
    random.shuffle(shuffled)
    assert loader.select(cc, driver, shuffled) == loader.select(cc, driver, shipped)


@given(capabilities, drivers, shipments, st.tuples(archs, drivers))
def test_shipping_more_never_leaves_a_device_unserved(
    cc: int, driver: int, shipped: list[tuple[str, int]], more: tuple[str, int]
) -> None:
    if loader.select(cc, driver, shipped):
        assert loader.select(cc, driver, [*shipped, more])


@given(capabilities, drivers, drivers, shipments)
def test_a_newer_driver_serves_no_less(cc: int, one: int, other: int, shipped: list[tuple[str, int]]) -> None:
    if loader.select(cc, min(one, other), shipped):
        assert loader.select(cc, max(one, other), shipped)
        assert loader.select(cc, None, shipped)
