"""Which entry runs on which device: the published table, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from hatch_cubin import loader
from hatch_cubin.bundle.manifest import module_line, write_manifest
from tests.arch_families import FAMILIES, TEGRA
from tests.helpers import bundle, load_bundle, made, refusal, sha256

CAPABILITIES = (53, 60, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121, 130)
PTX = "PTX, translated by the driver"

ROWS = [
    ("arch-specific comes first", 90, "compute_90 sm_90 sm_90a", ("sm_90a", "exact, arch-specific")),
    ("arch-specific before its family", 100, "sm_100 sm_100f sm_100a", ("sm_100a", "exact, arch-specific")),
    ("arch-specific on nothing newer", 100, "sm_90a", None),
    ("arch-specific on no higher minor", 103, "sm_100a", None),
    ("family before exact", 103, "sm_103 sm_100f", ("sm_100f", "family")),
    ("nearest family", 107, "sm_100f sm_103f", ("sm_103f", "family")),
    ("family on no lower minor", 100, "sm_103f", None),
    ("exact before lower minor", 89, "sm_80 sm_86 sm_89", ("sm_89", "exact")),
    ("exact before PTX", 90, "compute_90 sm_90", ("sm_90", "exact")),
    ("highest lower minor", 89, "sm_80 sm_86", ("sm_86", "same major, lower minor")),
    ("lower minor before PTX", 86, "sm_80 compute_86", ("sm_80", "same major, lower minor")),
    ("no higher minor", 80, "sm_86", None),
    ("no other major", 90, "sm_80 sm_89 sm_100", None),
    ("Tegra exactly", 87, "sm_80 sm_86 sm_87", ("sm_87", "exact")),
    ("Tegra takes no desktop code", 87, "sm_80 sm_86", None),
    ("Tegra takes PTX", 87, "sm_80 compute_80", ("compute_80", PTX)),
    ("desktop takes no Tegra code", 89, "sm_87", None),
    ("12.1 is no Tegra", 121, "sm_120", ("sm_120", "same major, lower minor")),
    ("highest PTX that is not newer", 90, "compute_75 compute_80 compute_100", ("compute_80", PTX)),
    ("PTX of another major", 120, "sm_90 compute_90", ("compute_90", PTX)),
    ("no newer PTX", 75, "compute_80", None),
    ("arch-specific PTX exactly", 90, "compute_90 compute_90a", ("compute_90a", PTX)),
    ("arch-specific PTX on nothing newer", 100, "compute_90a", None),
    ("family PTX in its family", 103, "compute_90 compute_100f", ("compute_100f", PTX)),
    ("family PTX not outside it", 110, "compute_100f compute_90", ("compute_90", PTX)),
    ("nothing shipped", 90, "", None),
]


@pytest.mark.parametrize(("cc", "shipped", "chosen"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_table(cc: int, shipped: str, chosen: tuple[str, str] | None) -> None:
    assert loader.select(cc, None, [(arch, 13000) for arch in shipped.split()]) == chosen


@pytest.mark.parametrize("target", FAMILIES)
def test_family_code_runs_on_its_family_alone(target: int) -> None:
    served = {cc for cc in CAPABILITIES if loader.select(cc, None, [(f"sm_{target}f", 0)])}
    assert served == FAMILIES[target]


@pytest.mark.parametrize("cc", sorted(TEGRA))
def test_tegra_and_desktop_code_do_not_mix(cc: int) -> None:
    assert {each for each in CAPABILITIES if loader.select(each, None, [(f"sm_{cc}", 0)])} == {cc}
    assert [each for each in CAPABILITIES if loader.select(cc, None, [(f"sm_{each}", 0)])] == [cc]


@pytest.mark.parametrize(
    ("driver", "arch"),
    [
        pytest.param(None, "sm_90", id="any driver"),
        pytest.param(13000, "sm_90", id="new enough"),
        pytest.param(12090, "compute_80", id="too old for the cubin"),
        pytest.param(12000, "compute_80", id="just new enough"),
        pytest.param(11080, None, id="too old for all"),
    ],
)
def test_what_the_driver_is_too_old_for_is_out(driver: int | None, arch: str | None) -> None:
    chosen = loader.select(90, driver, [("sm_90", 13000), ("compute_80", 12000)])
    assert (chosen and chosen[0]) == arch


@pytest.mark.parametrize("arch", ["sm_", "sm_9x", "sm_90b", "gfx_90", "sm90", "", "sm_" + "9" * 5000, "sm_²"])
def test_an_arch_that_does_not_exist_is_damage(arch: str) -> None:
    with pytest.raises(loader.CubinDamagedError, match=r"the arch .* does not exist"):
        loader.select(90, None, [(arch, 0)])


def test_find_tells_what_was_chosen_and_why(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_80"), made("k", "compute_80")))
    entry = cubins.find("k", cc=(8, 9))
    assert entry.path == str(tmp_path / "k.sm_80.cubin")
    assert {name: value for name, value in vars(entry).items() if name[0] != "_"} == {
        "module": "k",
        "source": "demo/k.cu",
        "variant": {},
        "arch": "sm_80",
        "kind": "cubin",
        "file": "k.sm_80.cubin",
        "block": None,
        "size": 11,
        "sha256": sha256(b"k for sm_80"),
        "min_driver": 13000,
        "kernels": {"k": "k"},
        "options": {},
        "toolchain": {"nvrtc": "13.0.88"},
        "resources": {},
        "rule": "same major, lower minor",
    }
    assert (
        repr(entry) == "Entry(module='k', arch='sm_80', file='k.sm_80.cubin', rule='same major, lower minor')"
    )
    assert cubins.find("k", cc=(13, 0)).arch == "compute_80"


def test_find_asks_no_driver_unless_one_is_given(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90"), made("k", "compute_90")))
    assert cubins.find("k", cc=(9, 0)).arch == cubins.find("k", cc=(9, 0), driver=None).arch == "sm_90"
    assert cubins.find("k", cc=(9, 0), driver=12000).arch == "compute_90"


def test_a_kernel_is_looked_for_only_in_archs_that_have_it(tmp_path: Path) -> None:
    files = bundle(made("k", "sm_90", {"k": "k", "wgmma": "wgmma"}), made("k", "sm_80"))
    cubins = load_bundle(tmp_path, files)
    assert cubins.find("wgmma", cc=(9, 0)).arch == "sm_90"
    assert cubins.find("k", cc=(8, 0)).arch == "sm_80"


ONLY_ON_90 = (made("k", "sm_90", {"k": "k", "wgmma": "wgmma"}), made("k", "sm_80"), made("k", "compute_100"))


NOT_DEFINED = "demo/k.cu does not define this kernel for the shipped arch"
ARCHS_OF_K = "the archs of 'k' (demo/k.cu)"


@pytest.mark.parametrize(
    ("cc", "driver", "fix"),
    [
        pytest.param((8, 0), None, f"{NOT_DEFINED} sm_80", id="exact"),
        pytest.param((8, 9), None, f"{NOT_DEFINED} sm_80", id="lower minor"),
        pytest.param((12, 0), None, f"{NOT_DEFINED} compute_100", id="PTX"),
        pytest.param((8, 0), 12000, f"{NOT_DEFINED} sm_80", id="whatever the driver"),
        pytest.param(
            (9, 0),
            12000,
            "install a newer driver, or build with an older toolkit",
            id="a driver too old for the arch that has it",
        ),
        pytest.param(
            (7, 5),
            None,
            f'add "sm_75" to {ARCHS_OF_K}, and check that demo/k.cu defines this kernel for sm_75; '
            "build again without HATCH_CUBIN_ARCHS",
            id="an arch that is not shipped",
        ),
    ],
)
def test_a_kernel_that_an_arch_lacks_is_told_so(
    tmp_path: Path, cc: tuple[int, int], driver: int | None, fix: str
) -> None:
    cubins = load_bundle(tmp_path, bundle(*ONLY_ON_90))
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.find("wgmma", cc=cc, driver=driver)
    assert f": shipped sm_90 (driver 13.0); {fix} (bundle of hatch-cubin " in str(caught.value)


def test_a_kernel_of_a_module_without_files_is_told_so(tmp_path: Path) -> None:
    lacking = {
        "kernels": {"k": "k", "no": "no"},
        "source": "demo/k.cu",
        "variant": {},
        "options": {},
        "entries": [],
    }
    line = module_line("k", lacking)
    header = {"format": 1, "generator": {"name": "hatch-cubin", "version": "1"}, "toolchain": {}}
    data = b"".join(write_manifest(header, {"k": ["k"], "no": ["k"]}, [line]))
    cubins = load_bundle(tmp_path, {"manifest.json": data})
    assert f': shipped nothing; add "sm_90" to {ARCHS_OF_K}; build again without HATCH_CUBIN_ARCHS' in str(
        refusal(cubins.CubinNotFoundError, cubins.find, "no", cc=(9, 0))
    )


@pytest.mark.parametrize(("driver", "having"), [(None, ""), (12080, " with driver 12.8")])
def test_nothing_that_fits_says_what_would(tmp_path: Path, driver: int | None, having: str) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90")))
    assert (
        f"no shipped code of 'k' runs on compute capability 8.0{having}: shipped sm_90 (driver 13.0); "
        f'add "sm_80" to {ARCHS_OF_K}; build again without HATCH_CUBIN_ARCHS'
    ) in str(refusal(cubins.CubinNotFoundError, cubins.find, "k", cc=(8, 0), driver=driver))


@pytest.mark.parametrize(
    ("cc", "fix"),
    [
        ((7, 5), f'add "sm_75" to {ARCHS_OF_K}; build'),
        ((7, 2), f'add "sm_72" to {ARCHS_OF_K}, and set toolkit = "12.9"; build'),
        ((5, 0), f'add "sm_50" to {ARCHS_OF_K}, and set toolkit = "12.9"; build'),
        ((3, 7), "CUDA 12 does not support this GPU ("),
        ((13, 0), f'add "sm_130" or "compute_90" to {ARCHS_OF_K}; build'),
    ],
)
def test_what_the_newest_toolkit_cannot_target_is_said_with_one_that_can(
    tmp_path: Path, cc: tuple[int, int], fix: str
) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90")))
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.find("k", cc=cc)
    assert f"(driver 13.0); {fix}" in str(caught.value)


def test_ptx_is_not_advised_for_a_kernel_that_has_code_for_one_gpu(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_80"), made("k", "sm_90a")))
    with pytest.raises(cubins.CubinNotFoundError, match='; add "sm_130" to the archs'):
        cubins.find("k", cc=(13, 0))


def test_a_kernel_that_is_taken_for_an_attribute_is_told_how_it_is_loaded(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90")))
    with pytest.raises(AttributeError, match=r"has no attribute .k.; it has .*, kernel, "):
        _ = cubins.k


def test_a_driver_too_old_is_told_from_a_missing_arch(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_90")))
    with pytest.raises(cubins.CubinNotFoundError, match="; install a newer driver, or build with an older"):
        cubins.find("k", cc=(9, 0), driver=12000)


@pytest.mark.parametrize(
    "cc", [90, "9.0", "90", 9.0, (9,), (9, 0, 0), ("9", "0"), (9.0, 0), [9, 0], (True, False)]
)
def test_a_capability_is_a_pair_of_numbers(tmp_path: Path, cc: Any) -> None:
    cubins = load_bundle(tmp_path, bundle(made("saxpy")))
    for ask in (cubins.find, cubins.read):
        with pytest.raises(TypeError) as caught:
            ask("saxpy", cc=cc)
        assert str(caught.value).endswith(f": cc must be a pair of numbers such as (9, 0), not {cc!r}")


def test_numpys_integers_are_numbers_too(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k", "sm_120")))
    assert cubins.find("k", cc=(np.int8(12), np.uint8(0)), driver=np.int64(13000)).arch == "sm_120"


class Capability(NamedTuple):
    """As cuda.core gives it."""

    major: int
    minor: int


def test_a_capability_may_be_the_pair_that_cuda_core_names(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("saxpy")))
    assert cubins.find("saxpy", cc=Capability(9, 0)).arch == "sm_90"


@pytest.mark.parametrize("name", [5, None, b"saxpy", ["saxpy"]])
def test_a_kernel_is_asked_for_by_its_name(tmp_path: Path, name: Any) -> None:
    cubins = load_bundle(tmp_path, bundle(made("saxpy")))
    for ask in (cubins.find, cubins.read):
        error = refusal(TypeError, ask, name, cc=(9, 0))
        hint = "only preload() takes several names" if name == ["saxpy"] else "pass a device as device="
        said = f": the name of a kernel or module must be a string, not {name!r}; {hint}"
        assert str(error).endswith(said)
