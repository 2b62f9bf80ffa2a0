"""What is other in one bundle than in another: kernels, what each uses for each arch, and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.wheels.comparing.comparison import ComparedWheel, pair_bundles
from hatch_cubin.wheels.comparing.diff import BundleDiff, FailLimit, compare, exceeding
from hatch_cubin.wheels.comparing.diff_report import diff_sections
from hatch_cubin.wheels.reading.report import ReportSection
from hatch_cubin.wheels.reading.survey import BundleFacts, KernelFacts
from tests.cubins import FUNC, KERNEL, elf, facts_of
from tests.helpers import bundle, made, make_project
from tests.sample_wheels import Kernel, code, units

BASE: dict[Kernel, bytes] = {
    (name, arch): code(name) for name in ("a", "b", "c") for arch in ("sm_80", "sm_90")
}


def facts(tmp_path: Path, kernels: Mapping[Kernel, bytes], **header: Any) -> BundleFacts:
    folder = tmp_path / str(len([*tmp_path.iterdir()]) if tmp_path.exists() else 0)
    return facts_of(folder, bundle(*units(kernels), **header))


def diff(tmp_path: Path, after: Mapping[Kernel, bytes], before: Mapping[Kernel, bytes] = BASE) -> BundleDiff:
    return compare(facts(tmp_path, before), facts(tmp_path, after))


def shown(
    diffs: list[BundleDiff], *, wheel: tuple[int | None, int | None] = (1000, 1120)
) -> list[ReportSection]:
    return [
        *diff_sections(
            ComparedWheel("a.whl", "A", wheel[0], {}), ComparedWheel("b.whl", "B", wheel[1], {}), diffs
        )
    ]


def test_what_is_the_same_differs_in_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, dict(reversed(BASE.items())))
    size = sum(map(len, {name: data for (name, _arch), data in BASE.items()}.values()))
    assert found == {
        "before": (tmp_path / "0/_cubins").as_posix(),
        "after": (tmp_path / "1/_cubins").as_posix(),
        "kernels": 3,
        "bytes": {"before": size, "after": size},
        "packed": {"before": None, "after": None},
        "toolchain": [],
        "lost": [],
        "gained": [],
        "signatures": [],
        "changes": [],
        "limits": [],
        "compared": 6,
        "other": [],
        "archs": {},
        "units": [],
    }
    said = "the kernels are the same: all compiled files have the same bytes as before"
    assert shown([found]) == [ReportSection("A -> B", ["size: 1000 B -> 1.1 KiB, +12.0 %", said])]


def test_kernels_come_and_go_for_some_archs_or_for_all(tmp_path: Path) -> None:
    after = {key: data for key, data in BASE.items() if key != ("a", "sm_80") and key[0] != "b"}
    found = diff(tmp_path, {**after, ("d", "sm_90"): code("d")})
    assert found["lost"] == [
        {"module": "b", "kernel": "b", "archs": ["sm_80", "sm_90"], "whole": True},
        {"module": "a", "kernel": "a", "archs": ["sm_80"], "whole": False},
    ]
    assert found["gained"] == [{"module": "d", "kernel": "d", "archs": ["sm_90"], "whole": True}]
    assert [part.title for part in shown([found])] == [
        "A -> B",
        "kernels lost: 2",
        "size by arch, unpacked",
        "kernels gained: 1",
    ]
    (lost,) = (part.table for part in shown([found]) if part.title == "kernels lost: 2")
    assert lost is not None
    assert lost.rows == [["b", "sm_80, sm_90 (all archs of this kernel)"], ["a", "sm_80"]]


def test_what_costs_most_comes_first_and_what_is_better_last(tmp_path: Path) -> None:
    before = {**BASE, ("c", "sm_90"): code("c", registers=64, shared=64)}
    after = {
        **BASE,
        ("a", "sm_80"): code("a", registers=48, shared=1024),
        ("a", "sm_90"): code("a", registers=255),
        ("b", "sm_90"): code("b", spills=3, stack=16),
    }
    changes = diff(tmp_path, after, before)["changes"]
    assert [
        (each["what"], each["kernel"], each["arch"], each["before"], each["after"]) for each in changes
    ] == [
        ("spills", "b", "sm_90", 0, 3),
        ("registers", "a", "sm_90", 32, 255),
        ("registers", "a", "sm_80", 32, 48),
        ("stack", "b", "sm_90", 0, 16),
        ("shared", "a", "sm_80", 0, 1024),
        ("registers", "c", "sm_90", 64, 32),
        ("shared", "c", "sm_90", 64, 0),
    ]
    titles = [part.title for part in shown([diff(tmp_path, after, before)])]
    assert titles[1] == "kernels that use more than before: 2"
    assert titles[-1] == "kernels that use less than before: 1"


def test_sizes_by_arch_and_the_files_that_changed_most(tmp_path: Path) -> None:
    after = {**BASE, ("a", "sm_80"): code("a", size=2000), ("b", "sm_80"): code("b", size=32)}
    found = diff(tmp_path, after)
    size = len(code("a"))
    grown, less = len(code("a", size=2000)), len(code("b", size=32))
    assert found["archs"] == {"sm_80": {"before": 3 * size, "after": size + grown + less}}
    assert found["units"] == [
        {"module": "a", "arch": "sm_80", "before": size, "after": grown},
        {"module": "b", "arch": "sm_80", "before": size, "after": less},
    ]
    (table,) = (part.table for part in shown([found]) if part.title == "size by arch, unpacked")
    assert table is not None
    assert table.rows[0] == ["sm_80", "1.8 KiB", "3.7 KiB", "+101.1 %"]


def test_another_compiler_is_told(tmp_path: Path) -> None:
    before = facts(tmp_path, BASE)
    after = facts(tmp_path, BASE, toolchain={"nvrtc": "13.5.37", "nvjitlink": "13.5.37"})
    found = compare(before, after)
    assert found["toolchain"] == [
        {"name": "nvjitlink", "before": None, "after": "13.5.37"},
        {"name": "nvrtc", "before": "13.0.88", "after": "13.5.37"},
    ]
    (table,) = (part.table for part in shown([found]) if part.title == "tools that differ")
    assert table is not None
    assert table.rows == [["nvjitlink", "none", "13.5.37"], ["nvrtc", "13.0.88", "13.5.37"]]


def test_a_bundle_that_came_or_went_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    one, other = facts(tmp_path, BASE), facts(tmp_path, {("a", "sm_80"): code("a")})
    assert pair_bundles({"p": one}, {"q": other}) == [(one, other)]
    assert pair_bundles({"p": one, "q": one}, {"q": other}) == [(one, None), (one, other)]
    gone, came = compare(one, None), compare(None, one)
    assert [each["kernel"] for each in gone["lost"]] == ["a", "b", "c"]
    assert [each["kernel"] for each in came["gained"]] == ["a", "b", "c"]
    assert (gone["after"], came["before"], gone["toolchain"]) == (None, None, [])
    titles = [part.title for part in shown([gone, came], wheel=(None, None))]
    assert titles[1] == f"{one['where']} -> nothing"
    assert f"nothing -> {one['where']}" in titles
    assert shown([gone], wheel=(None, None))[0].lines == ["unpacked: 1.8 KiB -> 0 B, -100.0 %"]
    assert shown([came], wheel=(None, None))[0].lines == ["unpacked: 0 B -> 1.8 KiB, new"]


def test_of_a_whole_arch_that_is_lost_people_see_one_row(tmp_path: Path) -> None:
    before = {(f"k{number}", arch): code(f"k{number}") for number in range(30) for arch in ("sm_80", "sm_90")}
    found = diff(tmp_path, {key: data for key, data in before.items() if key[1] == "sm_90"}, before)
    table = shown([found])[1].table
    assert table is not None
    assert table.rows == [["30 kernels: k0, k1, k10, …", "sm_80"]]


def test_a_kernel_that_is_lost_among_many_others_is_named(tmp_path: Path) -> None:
    before = {(f"k{number}", arch): code(f"k{number}") for number in range(30) for arch in ("sm_80", "sm_90")}
    kept = {("k7", "sm_90"), ("k8", "sm_80"), ("k9", "sm_80")}
    found = diff(tmp_path, {key: before[key] for key in kept}, before)
    table = shown([found])[1].table
    assert table is not None
    assert table.rows == [
        ["27 kernels: k0, k1, k10, …", "sm_80, sm_90 (all archs of this kernel)"],
        ["k7", "sm_80"],
        ["2 kernels: k8, k9", "sm_90"],
    ]


def test_people_see_no_more_than_they_read(tmp_path: Path) -> None:
    before = {(f"k{number}", "sm_80"): code(f"k{number}") for number in range(30)}
    after = {(name, arch): code(name, registers=64, size=99) for name, arch in before}
    parts = {part.title: part for part in shown([diff(tmp_path, after, before)])}
    more = parts["kernels that use more than before: 30"]
    assert more.table is not None
    assert (len(more.table.rows), more.lines) == (25, ["and 5 more: --json lists all rows"])
    files = parts["compiled files whose size changed: 30"]
    assert files.table is not None
    assert (len(files.table.rows), files.lines) == (10, ["and 20 more: --json lists all rows"])


@pytest.mark.parametrize(
    ("limit", "passed"),
    [
        (FailLimit("lost", "lost"), ["b for sm_80, sm_90"]),
        (
            FailLimit("registers", "registers"),
            ["a for sm_80: registers 32 -> 48", "c for sm_90: registers 32 -> 36"],
        ),
        (FailLimit("registers", "registers=4", 4), ["a for sm_80: registers 32 -> 48"]),
        (FailLimit("registers", "registers=50%", 50, percent=True), []),
        (FailLimit("registers", "registers=49%", 49, percent=True), ["a for sm_80: registers 32 -> 48"]),
        (FailLimit("spills", "spills"), []),
    ],
    ids=lambda value: value.text if isinstance(value, FailLimit) else "",
)
def test_what_passes_a_limit(tmp_path: Path, limit: FailLimit, passed: list[str]) -> None:
    after = {key: data for key, data in BASE.items() if key[0] != "b"}
    after |= {("a", "sm_80"): code("a", registers=48), ("c", "sm_90"): code("c", registers=36)}
    assert exceeding(diff(tmp_path, after), limit) == passed


def test_a_file_that_cannot_be_read_has_no_kernels_to_compare(tmp_path: Path) -> None:
    files = bundle(made("a", data=b"\x7fELF"))
    broken = facts_of(tmp_path / "broken", files)
    assert compare(broken, broken)["changes"] == []


def taking(facts: BundleFacts, parameters: list[tuple[int, str | None]] | None) -> BundleFacts:
    """Return a bundle all of whose kernels take such arguments; of None nothing is known."""
    known = parameters or []
    shown = ", ".join(spelled or f"{size} bytes" for size, spelled in known)
    kernels: list[KernelFacts] = [kernel for unit in facts["units"] for kernel in unit["kernels"]]
    for kernel in kernels:
        kernel["signature"] = kernel["name"] if parameters is None else f"{kernel['name']}({shown})"
        kernel["parameters"] = [{"offset": 0, "size": size, "type": spelled} for size, spelled in known]
    return facts


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        ([(4, "float")], [(4, "float")], False),
        ([(4, "float")], [(4, "int")], True),
        ([(4, "float")], [(8, None)], True),
        ([(4, "float")], [(4, None)], False),
        ([(4, None)], [(4, "int")], False),
        ([(4, "float")], [(4, "float"), (4, "float")], True),
        ([], [(4, None)], True),
        (None, [(4, None)], False),
        ([(4, None)], None, False),
    ],
)
def test_a_kernel_that_takes_other_arguments(
    tmp_path: Path,
    before: list[tuple[int, str | None]] | None,
    after: list[tuple[int, str | None]] | None,
    *,
    other: bool,
) -> None:
    one, two = (taking(facts(tmp_path, BASE), known) for known in (before, after))
    found = compare(one, two)
    assert [each["kernel"] for each in found["signatures"]] == (["a", "b", "c"] if other else [])
    passed = exceeding(found, FailLimit("signatures", "signatures"))
    titles = [part.title for part in shown([found])]
    assert ("kernels whose arguments changed: 3" in titles) == bool(passed) == other
    if before == [(4, "float")] and after == [(4, "int")]:
        assert passed == ["a(float) is a(int)", "b(float) is b(int)", "c(float) is c(int)"]


LIMITED = """
__constant__ float c[2] = {1, 2};
__device__ int g = 3;
extern "C" __global__ void __launch_bounds__(128) k(float *x) { x[0] = c[threadIdx.x & 1] + g; }
"""


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("(128)", "(256)", ["attributes"]),
        ("{1, 2}", "{1, 3}", ["constants"]),
        ("g = 3", "g = 4", ["globals"]),
        ("+ g", "- g", ["code"]),
    ],
    ids=["launch bounds", "constant data", "a global's first value", "code"],
)
def test_a_change_that_takes_as_much_of_everything_is_told(
    tmp_path: Path, old: str, new: str, parts: list[str]
) -> None:
    sides = []
    for name, text in (("one", LIMITED), ("other", LIMITED.replace(old, new))):
        project = make_project(tmp_path / name, {"k.cu": text}, 'archs = ["sm_90", "compute_90"]')
        sides.append(facts_of(tmp_path / f"of {name}", pipeline.build(project)))
    found = compare(*sides)
    assert (found["changes"], found["compared"]) == ([], 2)
    assert found["other"] == [
        {"module": "k", "arch": "sm_90", "parts": parts},
        {"module": "k", "arch": "compute_90", "parts": ["text"]},
    ]
    assert "compiled files that changed: 2 of 2" in [part.title for part in shown([found])]
    bounds = [(each["what"], each["arch"], each["before"], each["after"]) for each in found["limits"]]
    both = [("max_threads", arch, "128", "256") for arch in ("sm_90", "compute_90")]
    assert bounds == (both if parts == ["attributes"] else [])


def test_limits_of_launches_are_rows_whatever_their_dimensions(tmp_path: Path) -> None:
    def text(bounds: str) -> bytes:
        return f".version 8.0\n.target sm_80\n.entry k()\n{bounds}\n{{ ret; }}\n".encode()

    before = {("k", "compute_80"): text(".maxntid 16, 8, 1\n.minnctapersm 2")}
    found = diff(tmp_path, {("k", "compute_80"): text(".reqntid 16, 1, 8\n.minnctapersm 4")}, before)
    (part,) = (part for part in shown([found]) if part.title == "kernels whose launch limits changed: 1")
    assert part.table is not None
    assert part.table.rows == [
        ["k", "compute_80", "maximum threads", "16x8", "any"],
        ["k", "compute_80", "minimum blocks", "2", "4"],
        ["k", "compute_80", "required threads", "any", "16x1x8"],
    ]


def test_a_unit_that_cannot_be_read_has_no_parts_that_could_be_others(tmp_path: Path) -> None:
    one, other = ({("k", "sm_80"): b"no code, %d" % number} for number in range(2))
    found = diff(tmp_path, one, other)
    assert found["other"] == [{"module": "k", "arch": "sm_80", "parts": []}]
    (part,) = (part for part in shown([found]) if part.title == "compiled files that changed: 1 of 1")
    assert part.table is not None
    assert part.table.rows == [["k", "sm_80", "unknown"]]


def test_attributes_that_cannot_be_read_limit_nothing(tmp_path: Path) -> None:
    cut = elf(("k", FUNC, KERNEL, 2), more=[(".nv.info.k", 0x70000000, b"\x04", 2)])
    (unit,) = facts(tmp_path, {("k", "sm_80"): cut})["units"]
    assert [kernel["limits"] for kernel in unit["kernels"]] == [{}]


def test_modules_of_calls_are_compared_by_their_sources(tmp_path: Path) -> None:
    """The key in such a name changes with every edit."""
    before, after = (
        facts_of(
            tmp_path / name,
            bundle(made(f"cupy:{digit * 64}", source="k.cu", data=code("a"), kernels={"k": "a"})),
        )
        for name, digit in (("before", "1"), ("after", "2"))
    )
    found = compare(before, after)
    assert (found["lost"], found["gained"], found["compared"]) == ([], [], 1)
    assert before["units"][0]["module"] == f"cupy:{'1' * 64}"
