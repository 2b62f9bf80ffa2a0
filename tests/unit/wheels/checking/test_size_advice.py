"""A wheel that is too large: what is largest, and what each remedy would save, measured on its own files."""

from __future__ import annotations

import itertools
import random
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.cubin.elf import read_kernel_code
from hatch_cubin.errors import BundleError, Location
from hatch_cubin.wheels.checking import size_advice
from hatch_cubin.wheels.checking.size_advice import largest_files, remedies, remove_large_wheel, size_problem
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.cubins import PTX, make_wheel
from tests.helpers import bundle, made, packed_bundle, wheel_files
from tests.sample_wheels import Kernel, code, units, wheel_of, whole_wheel

LARGE = 20_000
ARCHS = ("sm_80", "sm_90")


def packed(wheel: Path) -> dict[str, int]:
    with open_wheel(str(wheel)) as opened:
        return {name: size or 0 for name, size in opened.bundles[0].packed_sizes.items()}


def savings(wheel: Path) -> dict[str, int]:
    """Return what each remedy saves, but for splitting, which is one more wherever there are two archs."""
    return {what: saves for what, saves in everything(wheel).items() if "hatch-cubin split" not in what}


def everything(wheel: Path) -> dict[str, int]:
    with open_wheel(str(wheel)) as opened:
        return {each.what: each.saves for each in remedies(opened)}


KERNELS = {
    ("a", "sm_80"): code("a", size=LARGE),
    ("a", "sm_86"): code("a", size=LARGE + 1),
    ("a", "sm_90"): code("a", size=LARGE + 2),
    ("a", "compute_90"): PTX + b"//" + bytes(range(48, 122)) * 200,
}


def test_the_largest_files_are_those_that_take_most_of_the_archive(tmp_path: Path) -> None:
    wheel = whole_wheel(tmp_path, bundle(*units({("a", "sm_80"): code("a", size=2 * LARGE)})))
    with open_wheel(str(wheel)) as opened:
        sizes = largest_files(opened)
    assert [*sizes][:2] == ["demo/_cubins/a.sm_80.cubin", "demo/_cubins/__init__.py"]
    assert sizes["demo/_cubins/a.sm_80.cubin"] == packed(wheel)["a.sm_80.cubin"]
    assert len(sizes) == 5


def test_an_arch_saves_what_its_files_take_and_its_gpus_run_what_is_left(tmp_path: Path) -> None:
    wheel = whole_wheel(
        tmp_path,
        bundle(*[made("a", arch, {"a": "a"}, data=data) for (_name, arch), data in KERNELS.items()]),
    )
    sizes = packed(wheel)
    assert savings(wheel) == {
        "leaving out sm_80 (some kernels would not run on 8.0)": sizes["a.sm_80.cubin"],
        "leaving out sm_86 (every GPU would still run all kernels)": sizes["a.sm_86.cubin"],
        "leaving out sm_90 (drivers would translate PTX for 9.0)": sizes["a.sm_90.cubin"],
    }


def test_without_the_last_ptx_newer_gpus_run_nothing(tmp_path: Path) -> None:
    ptx = PTX + b"//" + random.Random(0).randbytes(LARGE).hex().encode()  # noqa: S311
    last = {("a", "sm_120"): code("a", size=LARGE), ("a", "compute_120"): ptx.replace(b"copy", b"a")}
    names = "leaving out compute_120 (some kernels would not run on newer GPUs)"
    assert names in savings(wheel_of(tmp_path, last))
    older = {**last, ("a", "compute_80"): ptx.replace(b"copy", b"a") + b"0"}
    names = "leaving out compute_120 (every GPU would still run all kernels)"
    assert names in savings(wheel_of(tmp_path, older))


def test_a_file_that_another_arch_has_too_would_stay(tmp_path: Path) -> None:
    same = code("a", size=LARGE)
    assert savings(wheel_of(tmp_path, {("a", "sm_80"): same, ("a", "sm_90"): same})) == {}


def variants(archs: dict[str, int]) -> list[bytes]:
    headers = bytes(range(256)) * 30  # what every variant brings along
    return [
        code(f"k{value}", size=size) + headers + value.to_bytes(1, "little")
        for value in (1, 2, 3)
        for size in archs.values()
    ]


def test_instantiations_keep_the_code_of_each_variant_and_the_rest_once(tmp_path: Path) -> None:
    archs = {"sm_80": 400, "sm_90": 500}
    datas = variants(archs)
    built = [
        made("k", arch, {f"k{value}": f"k{value}"}, data=datas[number * 2 + at], variant={"N": str(value)})
        for number, value in enumerate((1, 2, 3))
        for at, arch in enumerate(archs)
    ]
    wheel = whole_wheel(tmp_path, bundle(*built, made("alone", data=code("alone"), variant={"N": "1"})))
    sizes = packed(wheel)
    then = 0
    for at in range(2):
        first, *more = sorted(datas[at::2], key=len)[::-1]
        then += len(zlib.compress(first + b"".join(sorted(map(read_kernel_code, more)))))
    now = sum(size for name, size in sizes.items() if name.startswith("k.N-"))
    saved = savings(wheel)["template instantiations instead of the 3 variants of demo/k.cu"]
    assert abs(saved - (now - then)) < 20  # the order of what is left
    assert saved > now // 3


@pytest.mark.parametrize(
    "data", [PTX, b"no code", b"\x7fELF\x02\x01" + bytes(60)], ids=["PTX", "text", "cut"]
)
def test_variants_that_are_no_code_cannot_be_measured(tmp_path: Path, data: bytes) -> None:
    arch = "compute_80" if data == PTX else "sm_80"
    built = [
        made("k", arch, {"copy": "copy"}, data=data + b"\n" * number, variant={"N": str(number)})
        for number in range(2)
    ]
    wheel = whole_wheel(tmp_path, bundle(*built))
    assert [what for what in savings(wheel) if "instantiations" in what] == []


def test_a_manifest_that_cannot_be_read_has_no_remedy(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", {"demo/_cubins/manifest.json": b"{}"})
    assert savings(wheel) == {}


def test_a_wheel_within_its_budget_is_no_problem(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    with open_wheel(str(wheel)) as opened:
        assert size_problem(opened, wheel.stat().st_size) is None
        assert size_problem(opened, wheel.stat().st_size - 1) is not None


def test_what_is_too_large_is_removed_and_told_at_the_line_of_the_table(tmp_path: Path) -> None:
    wheel = whole_wheel(tmp_path, bundle(*units({("a", "sm_80"): code("a", size=2 * LARGE)})))
    total, size = wheel.stat().st_size, packed(wheel)["a.sm_80.cubin"]
    with open_wheel(str(wheel)) as opened:
        shown = ", ".join(f"{name} {_kilo(count)}" for name, count in largest_files(opened).items())
    with pytest.raises(BundleError) as caught:
        remove_large_wheel(str(wheel), 10_000, Location("pyproject.toml", 12))
    assert str(caught.value) == (
        f"pyproject.toml:12: {wheel.name} has {_kilo(total)}, but max-size allows only 10.0 KB\n"
        f"  the largest files: {shown}\n"
        f"  leaving out sm_80 (some kernels would not run on 8.0) would save {_kilo(size)}"
    )
    assert [*tmp_path.iterdir()] == []


def _kilo(count: int) -> str:
    return f"{count / 1000:.1f} KB" if count >= 1000 else f"{count} B"


def test_a_wheel_without_kernels_is_only_told_as_what_it_is(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", {"demo/data": b"x" * 100})
    assert [*wheel_files(wheel)] == ["demo/data"]
    with pytest.raises(
        BundleError, match=r"^pyproject.toml: demo-1.0-py3-none-any.whl has \d+ B, but max-size"
    ):
        remove_large_wheel(str(wheel), 1, Location("pyproject.toml"))
    assert not wheel.exists()


# Packing


def same_headers(names: str) -> dict[Kernel, bytes]:
    """Return code that is small beside what its headers bring along."""
    headers = {arch: random.Random(arch).randbytes(5000) for arch in ARCHS}  # noqa: S311
    return {(name, arch): code(name) + headers[arch] for name in names for arch in ARCHS}


def test_packing_saves_what_a_packed_build_would(tmp_path: Path) -> None:
    kernels = same_headers("abc")
    wheel = wheel_of(tmp_path, kernels)
    files = packed_bundle(*units(kernels))
    now = sum(size for name, size in packed(wheel).items() if name.endswith(".cubin"))
    then = sum(len(data) for name, data in files.items() if name.endswith(".xz"))
    assert savings(wheel)["pack = true"] == now - then
    assert now > 2 * then


def test_of_a_large_bundle_some_blocks_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(tmp_path, same_headers("abc"))
    all_of_it = savings(wheel)["pack = true"]
    monkeypatch.setattr(size_advice, "_MAX_TRIED_BYTES", 1 << 14)  # half of it
    assert abs(savings(wheel)["pack = true"] - all_of_it) < all_of_it // 20


def test_a_python_that_cannot_pack_does_not_advise_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, same_headers("abc"))
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert "pack = true" not in savings(wheel)


def test_in_a_packed_wheel_an_arch_saves_its_part_and_packing_nothing(tmp_path: Path) -> None:
    kernels = same_headers("abc")
    wheel = whole_wheel(tmp_path, packed_bundle(*units(kernels)))
    sizes = packed(wheel)
    found = savings(wheel)
    assert sorted(found) == [
        f"leaving out {arch} (some kernels would not run on {arch[3]}.{arch[4]})"
        for arch in ("sm_80", "sm_90")
    ]
    for saved in found.values():
        assert min(abs(saved - sizes[f"{arch}.0.xz"]) for arch in ARCHS) < 9


def test_of_large_variants_some_archs_tell_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archs = {"sm_80": 400, "sm_86": 400, "sm_90": 400}
    datas = variants(archs)
    built = [
        made("k", arch, {f"k{value}": f"k{value}"}, data=data + arch.encode(), variant={"N": str(value)})
        for (value, arch), data in zip(itertools.product((1, 2, 3), archs), datas, strict=True)
    ]
    wheel = whole_wheel(tmp_path, bundle(*built))
    (what,) = (each for each in savings(wheel) if each.startswith("template instantiations"))
    all_of_it = savings(wheel)[what]
    monkeypatch.setattr(size_advice, "_MAX_TRIED_BYTES", 1)
    assert abs(savings(wheel)[what] - all_of_it) < all_of_it // 20


def test_a_damaged_file_keeps_no_other_remedy_from_being_told(tmp_path: Path) -> None:
    files = bundle(*units(KERNELS))
    del files["a.sm_80.cubin"]
    found = savings(whole_wheel(tmp_path, files))
    assert "pack = true" not in found
    assert "leaving out sm_86 (every GPU would still run all kernels)" in found


# Splitting


@pytest.mark.parametrize("make", [bundle, packed_bundle])
def test_splitting_saves_what_a_split_leaves_of_the_largest_wheel(
    tmp_path: Path, make: Callable[..., dict[str, bytes]]
) -> None:
    kernels = {("a", arch): code("a", size=size) for arch, size in zip(ARCHS, (60_000, 20_000), strict=True)}
    metadata = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    wheel = whole_wheel(tmp_path, make(*units(kernels)), METADATA=metadata)
    assert main(["split", str(wheel), "--by", "arch", "--into", str(tmp_path / "parts")]) == 0
    largest_part = max(part.stat().st_size for part in (tmp_path / "parts").iterdir())
    what = (
        "dividing the wheel into 3 wheels with 'hatch-cubin split' "
        "(first build the wheel with a higher max-size)"
    )
    saved = wheel.stat().st_size - largest_part
    assert abs(everything(wheel)[what] - saved) < 3000  # each has metadata of its own
    assert saved > 20_000


def test_one_arch_cannot_be_split(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, {("a", "sm_80"): code("a", size=LARGE), ("a", "compute_80"): PTX})
    assert [what for what in everything(wheel) if "hatch-cubin split" in what] == []
