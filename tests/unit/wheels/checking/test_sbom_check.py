"""Bills of materials: a wheel has one, as hatch-cubin writes it, and as its manifest implies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.bundle import sbom
from hatch_cubin.errors import Location, Problem
from hatch_cubin.wheels.checking.sbom_check import sbom_problems
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.cubins import bill_for, inside, make_wheel
from tests.helpers import Coded, bundle, made, sha256, write_tree

FILES = bundle(
    made("k"), made("k", "sm_80"), made("b"), toolchain={"nvrtc": "13.0.88", "nvjitlink": "13.0.39"}
)
BILL = bill_for(FILES)
BESIDE = f"demo-1.0.dist-info/sboms/{sbom.NAME}"
MISSING = Coded("sbom-missing", "demo/_cubins", "hatch-cubin.cdx.json")


def problems(what: Path) -> list[Problem]:
    """Return the problems of a wheel or a bundle, with places inside it."""
    with open_wheel(str(what)) as opened:
        found = sbom_problems(opened)
        return [each._replace(where=Location(str(each.where).removeprefix(f"{what}/"))) for each in found]


def of_wheel(tmp_path: Path, files: Mapping[str, bytes]) -> list[Problem]:
    return problems(make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", files))


def changed(change: Callable[[Any], object]) -> bytes:
    """Return the bill with something else in it, written as hatch-cubin writes it."""
    fields = json.loads(BILL)
    change(fields)
    return sbom.write_bill(fields["metadata"]["component"], fields["components"])


def test_a_bill_that_fits_stands_beside_the_metadata_or_in_the_bundle(tmp_path: Path) -> None:
    assert of_wheel(tmp_path, {**inside("demo/_cubins", FILES), BESIDE: BILL}) == []
    # hatchling itself moves a bill to where it moves the project's own files.
    moved = BESIDE.replace("sboms/", "sboms/demo/")
    assert of_wheel(tmp_path, {**inside("demo/_cubins", FILES), moved: BILL}) == []
    assert of_wheel(tmp_path, inside("demo/_cubins", {**FILES, sbom.NAME: BILL})) == []
    assert problems(write_tree(tmp_path / "_cubins", {**FILES, sbom.NAME: BILL})) == []


def test_what_a_manifest_does_not_imply_may_stand_in_it(tmp_path: Path) -> None:
    """Headers of the project, of wheels and of the toolkit, and the commit: the rebuild compares those."""
    fields = json.loads(BILL)
    parts = [
        *fields["components"],
        sbom.file_part("demo/k.cuh", sha256(b"")),
        sbom.part("library", "nvidia-cuda-cccl", "13.0.85", wheel="nvidia-cuda-cccl"),
        sbom.part("library", "NVRTC 13.0.88 headers"),
    ]
    traced = sbom.bundle_part("demo", {"commit": "1234abc", "dirty": "false"})
    files = {**inside("demo/_cubins", FILES), BESIDE: sbom.write_bill(traced, parts)}
    assert of_wheel(tmp_path, files) == []


def test_a_wheel_without_one_lacks_it(tmp_path: Path) -> None:
    others = {
        "demo-1.0.dist-info/sboms/other.cdx.json": BILL,
        f"demo-1.0.dist-info/{sbom.NAME}": BILL,
        f"demo/{sbom.NAME}": BILL,
        f"demo-1.0.dist-info/sboms/X{sbom.NAME}": BILL,
    }
    assert of_wheel(tmp_path, inside("demo/_cubins", FILES)) == [MISSING]
    assert of_wheel(tmp_path, {**inside("demo/_cubins", FILES), **others}) == [MISSING]
    # To say that kernels were left out leaves none out.
    lying = bundle(made("k"), skipped=True, toolchain={})
    assert of_wheel(tmp_path, inside("demo/_cubins", lying)) == [MISSING]


def test_an_editable_install_and_a_bundle_without_kernels_need_none(tmp_path: Path) -> None:
    assert problems(write_tree(tmp_path / "_cubins", FILES)) == []
    assert of_wheel(tmp_path, inside("demo/_cubins", bundle(skipped=True, toolchain={}))) == []


def without(ref: str) -> Callable[[Any], object]:
    def change(fields: Any) -> None:
        fields["components"] = [part for part in fields["components"] if part["bom-ref"] != ref]

    return change


OTHER_NVRTC = sbom.part("application", "NVRTC", "13.0.89")
TOOLS = f"NVRTC@13.0.88, hatch-cubin@{__version__}, nvJitLink@13.0.39"


@pytest.mark.parametrize(
    ("change", "code", "value"),
    [
        (
            lambda fields: [without("NVRTC@13.0.88")(fields), fields["components"].append(OTHER_NVRTC)],
            "sbom-differs",
            f"names {TOOLS.replace('88', '89')}, but the manifest names {TOOLS}",
        ),
        (without("nvJitLink@13.0.39"), "sbom-differs", f" NVRTC@13.0.88, hatch-cubin@{__version__}, "),
        (
            lambda fields: fields["components"].append(sbom.part("application", "gcc", "15")),
            "sbom-differs",
            TOOLS.replace(", ", ", gcc@15, ", 1),
        ),
        (without("file:demo/b.cu"), "sbom-differs", "demo/b.cu"),
        (
            lambda fields: fields["metadata"]["component"].update(name="other._cubins"),
            "sbom-of-other-package",
            " demo",
        ),
    ],
    ids=["another compiler", "a tool less", "a tool more", "a source less", "another package"],
)
def test_one_that_hatch_cubin_might_have_written_fits_its_manifest(
    tmp_path: Path, change: Callable[[Any], object], code: str, value: str
) -> None:
    files = {**inside("demo/_cubins", FILES), BESIDE: changed(change)}
    assert of_wheel(tmp_path, files) == [Coded(code, BESIDE, value)]


def test_one_without_anything_in_it_lacks_everything(tmp_path: Path) -> None:
    empty = sbom.write_bill(sbom.bundle_part("demo", {}), [])
    assert of_wheel(tmp_path, {**inside("demo/_cubins", FILES), BESIDE: empty}) == [
        Coded("sbom-differs", BESIDE, TOOLS),
        Coded("sbom-differs", BESIDE, "demo/b.cu"),
        Coded("sbom-differs", BESIDE, "demo/k.cu"),
    ]


def edited(change: Callable[[Any], object]) -> bytes:
    """Return the bill with something else in it, and everything else as it was."""
    fields = json.loads(BILL)
    change(fields)
    return f"{json.dumps(fields, sort_keys=True)}\n".encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        BILL[:-1],
        BILL + b" ",
        BILL.replace(b"13.0.88", b"13.0.89"),
        BILL.replace(b"urn:uuid:", b"urn:uuid:0"),
        json.dumps(json.loads(BILL), indent=1).encode(),
        b"[" * 100_000,
        edited(lambda fields: fields.update(components=[])),
        edited(lambda fields: fields.update(components=None)),
        edited(lambda fields: fields.update(components=["k"])),
        edited(lambda fields: fields.update(more=1)),
        edited(lambda fields: fields.update(metadata=[])),
        edited(lambda fields: fields["metadata"].update(component={})),
        edited(lambda fields: fields["metadata"]["component"].update(name=1)),
        edited(lambda fields: fields["metadata"]["component"].update(properties=[1])),
        edited(lambda fields: fields["metadata"].update(tools=["evil"])),
        changed(lambda fields: fields["components"][0].update(purl="pkg:pypi/evil@1")),
        changed(lambda fields: fields["components"][0].update(type="file")),
        changed(lambda fields: fields["components"].append({"bom-ref": "x", "type": "library", "name": {}})),
    ],
    ids=range(23),
)
def test_what_hatch_cubin_never_writes_is_none(tmp_path: Path, data: bytes) -> None:
    assert of_wheel(tmp_path, {**inside("demo/_cubins", FILES), BESIDE: data}) == [
        Coded("not-as-written", BESIDE)
    ]
    place = write_tree(tmp_path / "_cubins", {**FILES, sbom.NAME: data})
    assert problems(place) == [Coded("not-as-written", sbom.NAME)]


# --- several bundles, several bills -----------------------------------------------------------------


def test_each_bundle_of_a_wheel_has_its_own(tmp_path: Path) -> None:
    both = {**inside("demo/_cubins", FILES), **inside("demo/inner/_cubins", FILES)}
    inner = bill_for(FILES, "demo.inner")
    assert of_wheel(tmp_path, {**both, BESIDE: BILL, f"demo/inner/_cubins/{sbom.NAME}": inner}) == []
    # One that another package has brought along may have lost its own; whose it is must fit.
    assert of_wheel(tmp_path, {**both, BESIDE: inner}) == []
    assert of_wheel(tmp_path, {**both, BESIDE: b"{}"}) == [
        Coded("sbom-of-other-package", BESIDE),
        MISSING,
        Coded("sbom-missing", "demo/inner/_cubins"),
    ]


def test_a_second_bill_is_nobodys(tmp_path: Path) -> None:
    more = f"other-1.0.dist-info/sboms/{sbom.NAME}"
    files = {**inside("demo/_cubins", FILES), BESIDE: BILL, more: BILL}
    assert of_wheel(tmp_path, files) == [Coded("sbom-of-other-package", more)]
    in_it = {**inside("demo/_cubins", {**FILES, sbom.NAME: BILL}), BESIDE: BILL}
    assert of_wheel(tmp_path, in_it) == [Coded("sbom-of-other-package", BESIDE)]


def test_without_a_manifest_nothing_is_said_of_the_bill(tmp_path: Path) -> None:
    assert (
        of_wheel(tmp_path, {**inside("demo/_cubins", {**FILES, "manifest.json": b"{}"}), BESIDE: BILL}) == []
    )


def test_a_bill_may_lack_the_namespaces_that_its_package_is_in(tmp_path: Path) -> None:
    """`bundle --into src/ns/demo` cannot tell the namespace `ns` from a folder like `src`."""
    inner = bill_for(FILES, "demo.inner")
    deep = inside("ns/deep/demo/inner/_cubins", FILES)
    assert of_wheel(tmp_path, inside("ns/demo/_cubins", {**FILES, sbom.NAME: BILL})) == []
    assert of_wheel(tmp_path, {**deep, BESIDE: inner}) == []
    assert of_wheel(tmp_path, {**deep, **inside("ns/demo/_cubins", FILES), BESIDE: inner}) == []
    for place in ("nsdemo", "demo/ns", "ns/Demo", "inner"):
        assert of_wheel(tmp_path, {**inside(f"{place}/_cubins", FILES), BESIDE: BILL}) == [
            Coded("sbom-of-other-package", BESIDE, " demo, ", place.replace("/", "."))
        ]


def test_a_bill_is_that_of_its_very_package_before_one_in_a_namespace(tmp_path: Path) -> None:
    other = bundle(made("other"), toolchain={"nvrtc": "13.0.1"})
    both = {**inside("a/demo/_cubins", other), **inside("demo/_cubins", FILES)}
    assert of_wheel(tmp_path, {**both, BESIDE: BILL}) == []


@pytest.mark.parametrize("folder", ["purelib", "platlib"])
def test_a_wheel_may_have_its_packages_in_its_data(tmp_path: Path, folder: str) -> None:
    """As that of meson-python, which puts them where they are installed to."""
    data = f"demo-1.0.data/{folder}"
    assert of_wheel(tmp_path, {**inside(f"{data}/demo/_cubins", FILES), BESIDE: BILL}) == []
    both = {**inside(f"{data}/demo/_cubins", FILES), **inside(f"{data}/demo/inner/_cubins", FILES)}
    assert of_wheel(tmp_path, {**both, BESIDE: bill_for(FILES, "demo.inner")}) == []
    assert of_wheel(tmp_path, {**inside(f"{data}/other/_cubins", FILES), BESIDE: BILL}) == [
        Coded(
            "sbom-of-other-package",
            BESIDE,
            "is the bill of materials of demo, but the bundle belongs to other",
        )
    ]
