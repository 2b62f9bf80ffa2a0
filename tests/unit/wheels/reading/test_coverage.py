"""Which GPU runs which kernel of a bundle: what the loader would choose, with a driver that is new enough."""

from __future__ import annotations

import pytest

from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.wheels.reading.coverage import (
    ShippedUnit,
    count_by_gpu,
    coverage,
    coverage_section,
    promised_capabilities,
    ptx_only_kernels,
    units_in_manifest,
    unserved_kernels,
)
from tests.helpers import bundle, made


def unit(module: str, arch: str, *kernels: str, driver: int = 13000) -> ShippedUnit:
    return ShippedUnit(module, arch, driver, kernels or (module,))


UNITS = [
    unit("a", "sm_80"),
    unit("a", "sm_90"),
    unit("a", "compute_120", driver=13010),
    unit("b", "sm_90", "b", "c"),
    unit("b", "compute_80", "c", driver=12080),
]


def test_promised_is_what_the_archs_name() -> None:
    assert promised_capabilities([*UNITS, unit("a", "sm_100f"), unit("a", "all"), unit("a", "9.0")]) == [
        80,
        90,
        100,
        120,
    ]


def test_each_kernel_has_what_the_loader_would_choose() -> None:
    (first, *_others) = covers = coverage(UNITS, [80, 86, 120])
    assert [(cover["module"], cover["kernel"], cover["archs"]) for cover in covers] == [
        ("a", "a", ["sm_80", "sm_90", "compute_120"]),
        ("b", "b", ["sm_90"]),
        ("b", "c", ["sm_90", "compute_80"]),
    ]
    assert first["served"] == [
        {"gpu": "8.0", "arch": "sm_80", "kind": "cubin", "rule": "exact", "min_driver": 13000},
        {
            "gpu": "8.6",
            "arch": "sm_80",
            "kind": "cubin",
            "rule": "same major, lower minor",
            "min_driver": 13000,
        },
        {
            "gpu": "12.0",
            "arch": "compute_120",
            "kind": "ptx",
            "rule": "PTX, translated by the driver",
            "min_driver": 13010,
        },
    ]
    nothing = dict.fromkeys(("arch", "kind", "rule", "min_driver"))
    assert covers[1]["served"] == [{"gpu": gpu, **nothing} for gpu in ("8.0", "8.6", "12.0")]


def test_gpus_are_counted() -> None:
    assert count_by_gpu(coverage(UNITS, [80, 90])) == [
        {"gpu": "8.0", "cubin": 1, "ptx": 1, "none": 1, "min_driver": 13000},
        {"gpu": "9.0", "cubin": 3, "ptx": 0, "none": 0, "min_driver": 13000},
    ]
    assert count_by_gpu(coverage([unit("a", "sm_90")], [80])) == [
        {"gpu": "8.0", "cubin": 0, "ptx": 0, "none": 1, "min_driver": None}
    ]


def test_what_lacks_the_same_is_told_together() -> None:
    covers = coverage([*UNITS, unit("d", "sm_90"), unit("e", "sm_90")], [80, 90])
    found = [
        (left["gpus"], left["absent_from"], [each["kernel"] for each in left["kernels"]])
        for left in unserved_kernels(covers)
    ]
    assert found == [(["8.0"], ["compute_80"], ["b"]), (["8.0"], [], ["d", "e"])]


def test_ptx_is_a_lack_where_other_kernels_have_code() -> None:
    covers = coverage(UNITS, [80, 90, 120])
    assert [
        (left["gpus"], [each["kernel"] for each in left["kernels"]]) for left in ptx_only_kernels(covers)
    ] == [(["8.0"], ["c"])]


def test_the_units_of_a_manifest() -> None:
    manifest = read_manifest(bundle(made("a", "sm_80"), made("a", "sm_90"))["manifest.json"])
    assert units_in_manifest(manifest) == [unit("a", "sm_80"), unit("a", "sm_90")]


def test_an_arch_that_is_none_serves_nobody() -> None:
    assert coverage([unit("a", "sm_80 "), unit("b", "")], [80]) == []


def rows(units: list[ShippedUnit], *capabilities: int) -> list[list[str]]:
    table = coverage_section("", coverage(units, capabilities)).table
    assert table is not None
    return [[*row] for row in (table.head, *table.rows)]


def test_people_see_a_row_for_all_that_is_alike() -> None:
    assert rows([*UNITS, unit("d", "sm_90")], 80, 90, 120) == [
        ["kernels", "8.0", "9.0", "12.0"],
        ["2 of 4 kernels", "nothing", "sm_90", "nothing"],
        ["a", "sm_80", "sm_90", "compute_120 from driver 13.1"],
        ["c in b", "compute_80 from driver 12.8", "sm_90", "compute_80 from driver 12.8"],
    ]
    assert rows([unit("a", "sm_80"), unit("b", "sm_80")], 80)[1:] == [["all 2 kernels", "sm_80"]]
    assert rows([], 80) == [["kernels"]]


@pytest.mark.parametrize(
    ("kinds", "said"), [(40, []), (42, ["and 2 more groups of kernels: --json lists all groups"])]
)
def test_people_see_so_many_rows(kinds: int, said: list[str]) -> None:
    units = [unit(f"k{number}", "sm_80", driver=12000 + number) for number in range(kinds)]
    part = coverage_section("", coverage(units, [80]))
    assert part.table is not None
    assert (len(part.table.rows), part.lines) == (40, said)
