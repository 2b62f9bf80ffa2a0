"""Architecture names: every spelling, every group, every refusal, and what the real compilers say."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from hatch_cubin.common import arch_names
from hatch_cubin.common.arch_names import Arch, Target, number_of
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX

SUPPORTED = (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)
EMPTY_KERNEL = b'extern "C" __global__ void k() {}'


@pytest.mark.parametrize(
    ("spelling", "archs"),
    [
        ("sm_90", "sm_90"),
        ("sm_90a", "sm_90a"),
        ("sm_100f", "sm_100f"),
        ("sm_121", "sm_121"),
        ("compute_90", "compute_90"),
        ("compute_90a", "compute_90a"),
        ("compute_100f", "compute_100f"),
        ("90", "sm_90 compute_90"),
        ("90a", "sm_90a compute_90a"),
        ("100f", "sm_100f compute_100f"),
        ("90-real", "sm_90"),
        ("90a-real", "sm_90a"),
        ("90-virtual", "compute_90"),
        ("100f-virtual", "compute_100f"),
        ("9.0", "sm_90"),
        ("9.0a", "sm_90a"),
        ("12.0", "sm_120"),
        ("10.3f", "sm_103f"),
        ("8.6+PTX", "sm_86 compute_86"),
        ("9.0a+PTX", "sm_90a compute_90a"),
    ],
)
def test_every_usual_spelling_has_one_first_form(spelling: str, archs: str) -> None:
    parsed = arch_names.parse_spec(spelling)
    assert " ".join(map(str, parsed)) == archs


@pytest.mark.parametrize("name", arch_names.GROUPS)
def test_a_group_is_named_by_itself(name: str) -> None:
    assert arch_names.parse_spec(name) == name


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "sm_", "sm_9", "sm_9000", "SM_90", "sm90", "sm-90", "sm_90b", "sm_90 ", "sm_90\n"),
        *("compute_90-real", "90-Real", "90-ptx", "9", "9000", "-90", "+90"),
        *("9.00", ".9", "9.", "9.0+ptx", "9.0-real", "9.0 PTX", "100.00"),
        *("All", "all-major ", "all_major", "nativ"),
        *("lto_90", "sm_٩٩", "٩٩"),
    ],
)
def test_what_is_no_spelling_of_an_arch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an arch") as caught:
        arch_names.parse_spec(text)
    assert str(caught.value) == f"{text!r} is not an arch"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sm_89a", "sm_89a does not exist: the first arch with this suffix is sm_90a"),
        ("sm_90f", "sm_90f does not exist: the first arch with this suffix is sm_100f"),
        ("compute_90f", "compute_90f does not exist: the first arch with this suffix is compute_100f"),
        ("75a", "sm_75a does not exist: the first arch with this suffix is sm_90a"),
        ("9.0f", "sm_90f does not exist: the first arch with this suffix is sm_100f"),
    ],
)
def test_a_suffix_that_no_gpu_of_that_age_has_names_the_first_that_does(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="does not exist") as caught:
        arch_names.parse_spec(text)
    assert str(caught.value) == message


def test_one_arch_is_read_from_its_first_form() -> None:
    assert arch_names.parse_arch("compute_100f") == Arch(100, "f", "compute")


@pytest.mark.parametrize("text", ["90", "8.6+PTX", "all"])
def test_what_stands_for_several_archs_is_not_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a single arch"):
        arch_names.parse_arch(text)


@pytest.mark.parametrize("arch", [Arch(90), Arch(90, "a"), Arch(100, "f", "compute")], ids=str)
def test_the_first_form_reads_back_as_itself(arch: Arch) -> None:
    assert arch_names.parse_arch(str(arch)) == arch


def test_archs_sort_by_number_then_suffix_and_a_compute_arch_is_ptx() -> None:
    archs = [Arch(120), Arch(90, "a"), Arch(90), Arch(90, kind="compute")]
    assert list(map(str, sorted(archs))) == ["compute_90", "sm_90", "sm_90a", "sm_120"]
    assert [arch.is_ptx for arch in archs] == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sm_90", ["sm_90"]),
        ("8.6;9.0+PTX", ["8.6", "9.0+PTX"]),
        (" sm_80, sm_90 ,\tcompute_90\n", ["sm_80", "sm_90", "compute_90"]),
        (" ,; ", []),
    ],
)
def test_a_list_in_a_variable_is_split_at_commas_semicolons_and_spaces(text: str, parts: list[str]) -> None:
    assert arch_names.split_specs(text) == parts


@pytest.mark.parametrize(
    ("name", "supported", "archs"),
    [
        ("all-major", SUPPORTED, "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120 compute_120"),
        (
            "all",
            SUPPORTED,
            "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_103 sm_107 sm_110 sm_120 sm_121 compute_120",
        ),
        ("all-major", (90, 75, 80), "sm_75 sm_80 sm_90 compute_90"),
        ("all-major", (50, 52, 60), "sm_50 sm_60 compute_60"),
        ("all", (89,), "sm_89 compute_89"),
    ],
)
def test_a_group_is_read_from_what_the_toolkit_supports(
    name: str, supported: tuple[int, ...], archs: str
) -> None:
    assert " ".join(map(str, arch_names.group(name, supported, ()))) == archs


def test_native_is_each_gpu_of_the_machine_once_and_no_ptx() -> None:
    assert arch_names.group("native", SUPPORTED, [90, 86, 90]) == (Arch(90), Arch(86))


def test_targets_keep_their_order_and_come_once() -> None:
    assert arch_names.expand(["9.0", "80-real", "sm_90", "90"], SUPPORTED, ()) == (
        Target(Arch(90)),
        Target(Arch(80)),
        Target(Arch(90, kind="compute")),
    )


@pytest.mark.parametrize("specs", [["all-major", "sm_90"], ["sm_90", "all-major"]], ids=" ".join)
def test_an_arch_that_is_named_stays_named_beside_a_group(specs: list[str]) -> None:
    targets = arch_names.expand(specs, SUPPORTED, ())
    assert [str(target.arch) for target in targets if target.named] == ["sm_90"]
    assert len(targets) == 7


@pytest.mark.parametrize(
    ("arch", "families", "expected"),
    [
        (Arch(90), True, True),
        (Arch(90, "a"), False, True),
        (Arch(100, "f"), True, True),
        (Arch(100, "f"), False, False),
        (Arch(70), True, False),
        (Arch(70, kind="compute"), True, False),
    ],
)
def test_a_toolkit_supports_what_it_lists_and_families_where_it_knows_them(
    *, arch: Arch, families: bool, expected: bool
) -> None:
    assert arch_names.is_supported(arch, SUPPORTED, families=families) is expected


@pytest.mark.parametrize(
    ("target", "members"),
    [
        (100, {100, 103, 107}),
        (103, {103, 107}),
        (107, {107}),
        (110, {110}),
        (120, {120, 121}),
        (121, {121}),
        (101, {101}),
    ],
)
def test_a_family_is_its_major_from_its_minor_on_and_tegra_keeps_apart(
    target: int, members: set[int]
) -> None:
    known = {*SUPPORTED, 101}
    assert {number for number in known if arch_names.in_family(target, number)} == members


# --- against the real compilers -------------------------------------------------------------------


@functools.cache
def toolkit() -> Toolkit:
    return Toolkit(None)


def compiled(kind: str, code: bytes, arch: str) -> dict[str, Any]:
    task = {"id": 0, "kind": kind, "code": code, "name": b"k", "instantiate": [], "ptx": False}
    if kind == "link":
        task |= {"code": b"", "inputs": [("ptx", b"k", code)]}
    return worker.compile_task({**task, "options": [f"-arch={arch}".encode()]})


def spellable(numbers: tuple[int, ...]) -> list[Arch]:
    """Return every `sm_` arch of these capabilities that the grammar can say."""
    archs = []
    for number in numbers:
        for suffix in ("", "a", "f"):
            try:
                archs.append(arch_names.parse_arch(f"sm_{number}{suffix}"))
            except ValueError:
                continue
    return archs


@pytest.mark.nvrtc
def test_nvrtc_compiles_exactly_the_archs_that_are_called_supported() -> None:
    supported, families = toolkit().supported, toolkit().families
    wanted = spellable((70, 72, *supported, 130))
    wanted += [Arch(arch.number, arch.suffix, "compute") for arch in wanted]
    works = {arch: compiled("c++", EMPTY_KERNEL, str(arch))["ok"] for arch in wanted}
    assert works == {arch: arch_names.is_supported(arch, supported, families=families) for arch in wanted}
    assert sum(works.values()) > len(supported) * 2


@pytest.mark.nvrtc
def test_nvrtc_knows_no_suffix_on_an_arch_that_the_grammar_says_has_none() -> None:
    unknown = [f"sm_{number}a" for number in toolkit().supported if number < 90]
    unknown += [f"sm_{number}f" for number in toolkit().supported if number < 100]
    assert [arch for arch in unknown if compiled("c++", EMPTY_KERNEL, arch)["ok"]] == []


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "target", ["sm_80", "sm_90a", "sm_100", "sm_100f", "sm_103a", "sm_103f", "sm_110f", "sm_120f", "sm_121f"]
)
def test_nvjitlink_assembles_exactly_the_pairs_that_are_called_possible(target: str) -> None:
    supported = toolkit().supported
    ptx = COPY_PTX.replace("7.0", "9.0").replace("sm_80", target).encode()
    if arch_names.parse_arch(target).number not in supported or not toolkit().nvjitlink:
        pytest.skip(f"this toolkit does not know {target}")
    archs = spellable(supported)
    works = {str(arch): compiled("link", ptx, str(arch))["ok"] for arch in archs}
    expected = {str(arch): arch_names.can_assemble(arch_names.parse_arch(target), arch) for arch in archs}
    assert works == expected


@pytest.mark.parametrize(
    ("text", "number"), [("sm_90a", 90), ("compute_100f", 100), ("90", None), ("sm_80a", None), ("", None)]
)
def test_only_an_arch_as_manifests_write_it_has_a_number(text: str, number: int | None) -> None:
    assert number_of(text) == number
