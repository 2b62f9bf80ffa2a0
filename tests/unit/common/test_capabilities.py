"""The table of GPUs: what has its own copy, or can be asked, agrees with it."""

from __future__ import annotations

import itertools
import re

import pytest

from hatch_cubin import loader
from hatch_cubin.common import arch_names, gpu_names
from hatch_cubin.common.capabilities import FAMILIES_SINCE, GPUS, TEGRA
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import REPOSITORY

LOADER = (REPOSITORY / "docs/reference/loader.md").read_text()
CHOOSING = (REPOSITORY / "docs/guides/choosing-archs.md").read_text()
_SERIES = re.compile(r"RTX \d0")  # many GPUs, and not the name of one
NUMBERS = range(50, 160)  # also of capabilities that nobody knows
# What NVRTC lists as supported.
SUPPORTED = {
    (12, 9): {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121},
    (13, 0): {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121},
}


def runs(arch: str, capability: int) -> bool:
    """Say whether the loader would load a file on a GPU."""
    return loader.select(capability, None, [(arch, 0)]) is not None


def capabilities(text: str) -> set[int]:
    return {int(number.replace(".", "")) for number in re.findall(r"\b\d{1,2}\.\d\b", text)}


def test_the_loader_has_the_same_tegra_parts_and_families() -> None:
    for target, number in itertools.product(NUMBERS, NUMBERS):
        if target // 10 == number // 10:
            no_tegra = not {target, number} & TEGRA
            as_is = number == target or (number > target and no_tegra)
            assert runs(f"sm_{target}", number) == as_is, (target, number)
            in_family = arch_names.in_family(target, number)
            assert runs(f"sm_{target}f", number) == in_family, (target, number)
            assert runs(f"compute_{target}f", number) == in_family, (target, number)


def test_the_published_table_has_the_same() -> None:
    (tegra,) = re.findall(r"^Tegra GPUs \((.*?)\)", LOADER, re.MULTILINE)
    assert capabilities(tegra) == TEGRA
    rows = re.findall(r"^\| `.*?` \| a file for `((?:sm|compute)_\w+)` \| (.*?) \|$", LOADER, re.MULTILINE)
    assert len(rows) == 7
    for arch, where in rows:
        served = {number for number in GPUS if runs(arch, number)}
        assert capabilities(where) <= served
        if arch.endswith(("a", "f")):
            assert capabilities(where) == served


def test_the_guide_names_gpus_by_the_capability_that_the_table_has() -> None:
    rows = re.findall(r"^\| (\d+\.\d[^|]*) \| ([^|`]*) \|$", CHOOSING, re.MULTILINE)
    known = [(name, row) for row, names in rows for name in names.split(", ") if not _SERIES.fullmatch(name)]
    assert known
    for name, row in known:
        found = gpu_names.capabilities(name)
        assert found, name
        assert capabilities(row).issuperset(found), name


@pytest.mark.parametrize("release", SUPPORTED)
def test_the_table_says_which_releases_can_target_a_capability(release: tuple[int, int]) -> None:
    assert targets(release) == SUPPORTED[release]


@pytest.mark.nvrtc
def test_the_compiler_that_is_here_can_target_what_the_table_says() -> None:
    toolkit = Toolkit(None)
    assert {*toolkit.supported} == targets(toolkit.version)
    assert toolkit.families == (toolkit.version >= FAMILIES_SINCE)


def targets(release: tuple[int, int]) -> set[int]:
    return {
        number
        for number, gpu in GPUS.items()
        if (gpu.since is None or gpu.since <= release) and (gpu.last is None or release[0] <= gpu.last)
    }


def test_what_was_renamed_is_known_by_its_new_name() -> None:
    renamed = {number: gpu.renamed for number, gpu in GPUS.items() if gpu.renamed}
    assert all(GPUS[new].is_tegra == GPUS[old].is_tegra for old, new in renamed.items())
