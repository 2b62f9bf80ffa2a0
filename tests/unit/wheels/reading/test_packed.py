"""Packed bundles in wheels and folders: seen through, and whatever is wrong with a block is told once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle.manifest import module_line, write_manifest
from hatch_cubin.cli.main import main
from hatch_cubin.errors import BundleError, Location, Problem
from hatch_cubin.wheels.checking.verify import bundle_problems
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.reading.unpacking import unpacked_files, write_bundle
from tests.cubins import PTX, cubin, facts_of, inside, make_wheel
from tests.helpers import Coded, bundle, made, pack, packed_bundle, sha256, write_tree

UNITS = [
    made("a", "sm_80", data=cubin("a")),
    made("a", "sm_90", data=cubin("a", 50)),
    made("b", "sm_90", data=cubin("b")),
    made("c", "sm_90", {"b": "b"}, data=cubin("b")),
    made("copy", "compute_80", {"copy": "copy"}, data=PTX),
]
FILES, RAW = packed_bundle(*UNITS), bundle(*UNITS)
SIZE = len(cubin("a"))


def changed(header: Mapping[str, Any] | None = None, **of_entries: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the bundle with a manifest that holds together and says something else of modules for sm_90."""
    fields = json.loads(FILES["manifest.json"])
    rest = {key: value for key, value in fields.items() if key not in ("check", "kernels", "modules")}
    lines = []
    for name, module in fields["modules"].items():
        line = {key: value for key, value in module.items() if key != "check"}
        line["entries"] = [
            entry | (of_entries.get(name, {}) if entry["arch"] == "sm_90" else {})
            for entry in line["entries"]
        ]
        lines.append(module_line(name, {**line}))
    manifest = b"".join(write_manifest({**rest, **(header or {})}, fields["kernels"], lines))
    return {**FILES, "manifest.json": manifest}


def problems(root: Path, files: Mapping[str, bytes]) -> list[Problem]:
    place = write_tree(root / "_cubins", files)
    with open_wheel(str(place)) as opened:
        told = bundle_problems(opened.bundles[0], in_wheel=True)
        return [each._replace(where=Location(Path(str(each.where)).name)) for each in told]


def test_a_sound_bundle(tmp_path: Path) -> None:
    assert problems(tmp_path, FILES) == []


def blocks(**changes: Any) -> dict[str, Any]:
    said = json.loads(FILES["manifest.json"])["blocks"]
    return {"blocks": {**said, "sm_90.0.xz": {**said["sm_90.0.xz"], **changes}}}


def repacked(data: bytes) -> dict[str, bytes]:
    packed = pack(data)
    said = {"packed": len(packed), "sha256": sha256(packed), "size": len(data)}
    return {**changed(blocks(**said)), "sm_90.0.xz": packed}


A, B = cubin("a", 50), cubin("b")
BLOCK, IN_MANIFEST = "sm_90.0.xz", ("manifest-inconsistent", "manifest.json")
NOT_ALL = Coded(*IN_MANIFEST, "lists entries that overlap in the block sm_90.0.xz, or that leave a gap")
WRONG = {
    "a block that is gone": (
        {name: data for name, data in FILES.items() if name != BLOCK},
        [Coded("file-missing", BLOCK)],
    ),
    "a block that was damaged": (
        {**FILES, BLOCK: b"x"},
        [Coded("file-damaged", BLOCK, f" {sha256(b'x')}, ", f" {sha256(FILES[BLOCK])}")],
    ),
    "another block": (repacked(B + A), [Coded("file-changed", BLOCK, "its sha256 is")] * 3),
    "bytes that belong to nothing": (repacked(A + B + b"more"), [NOT_ALL]),
    "a size that is not so": (
        changed(blocks(size=2 * SIZE - 1)),
        [NOT_ALL, Coded("file-damaged", BLOCK, f"does not unpack to the {2 * SIZE - 1} bytes")],
    ),
    "a bomb": (
        changed(blocks(size=1 << 40)),
        [NOT_ALL, Coded("compression-bomb", BLOCK, f" {len(FILES[BLOCK])} B ", " 1024.0 GiB")],
    ),
    "a block that is not described": (
        changed(a={"block": "sm_90.7.xz"}),
        [
            NOT_ALL,
            Coded(
                *IN_MANIFEST, "says that code is in the block 'sm_90.7.xz', but does not describe this block"
            ),
        ],
    ),
    "an entry beyond its block": (
        changed(a={"offset": SIZE + 1}),
        [NOT_ALL, Coded(*IN_MANIFEST, "extends beyond the end of sm_90.0.xz")],
    ),
    "a block outside": (
        changed(a={"block": "../x"}),
        [NOT_ALL, Coded("unsafe-path", "manifest.json", "a file outside the bundle: '../x'")],
    ),
    "another format": (
        changed({"format": 1}),
        [Coded(*IN_MANIFEST, "has the format 1, ", "that this format does not allow")],
    ),
    "a file that is no block": ({**FILES, "sm_90.1.xz": b"x"}, [Coded("file-not-listed", "sm_90.1.xz")]),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_is_wrong_is_told(tmp_path: Path, how: str) -> None:
    files, expected = WRONG[how]
    assert problems(tmp_path, files) == expected


def test_entries_that_share_a_block_which_is_too_large(tmp_path: Path) -> None:
    one, two = b"1" * (1 << 20), b"2" * (1 << 21)
    data = one + two
    packed = pack(data)
    files = packed_bundle(made("a", data=one))
    fields = json.loads(files["manifest.json"])
    header = {key: value for key, value in fields.items() if key not in ("check", "kernels", "modules")}
    header["blocks"] = {"sm_90.0.xz": {"packed": len(packed), "sha256": sha256(packed), "size": len(data)}}
    (entry,) = fields["modules"]["a"]["entries"]
    more = {**entry, "arch": "sm_91", "offset": len(one), "size": len(two), "sha256": sha256(two)}
    line = {**fields["modules"]["a"], "entries": [entry, more]}
    del line["check"]
    manifest = b"".join(write_manifest(header, fields["kernels"], [module_line("a", line)]))
    told = problems(tmp_path, {**files, "manifest.json": manifest, "sm_90.0.xz": packed})
    assert (
        Coded(
            *IN_MANIFEST,
            "lists several entries in the block sm_90.0.xz, but a block of more than 2097152 bytes "
            "must have only one entry",
        )
        in told
    )


# What inspect says


def test_the_facts_are_those_of_the_bundle_that_is_not_packed(tmp_path: Path) -> None:
    packed, plain = facts_of(tmp_path / "a", FILES), facts_of(tmp_path / "b", RAW)
    same = ("archs", "modules", "min_driver", "generator", "toolchain")
    assert [packed[name] for name in same] == [plain[name] for name in same]  # type: ignore[literal-required]
    assert (packed["totals"]["bytes"], packed["totals"]["files"]) == (plain["totals"]["bytes"], 3)
    assert packed["totals"]["packed"] == sum(len(FILES[name]) for name in FILES if name.endswith(".xz"))
    assert [unit["kernels"] for unit in packed["units"]] == [unit["kernels"] for unit in plain["units"]]
    assert [(unit["file"], unit["offset"]) for unit in packed["units"]] == [
        *(("sm_80.0.xz", 0), ("sm_90.0.xz", 0), ("sm_90.0.xz", SIZE), ("sm_90.0.xz", SIZE)),
        ("compute_80.0.xz", 0),
    ]
    assert packed["shared"] == [
        {"file": "sm_90.0.xz", "bytes": SIZE, "units": ["b for sm_90", "c for sm_90"]}
    ]
    assert packed["largest"] == {
        "a for sm_80": SIZE,
        "a for sm_90": SIZE,
        "b for sm_90": SIZE,
        "copy for compute_80": len(PTX),
    }


def test_each_unit_has_its_part_of_a_block(tmp_path: Path) -> None:
    taken = {name: len(FILES[name]) for name in FILES}
    assert facts_of(tmp_path, FILES)["packed"] == {
        "archs": {
            "sm_80": taken["sm_80.0.xz"],
            "sm_90": 2 * round(taken["sm_90.0.xz"] / 2),
            "compute_80": taken["compute_80.0.xz"],
        },
        "modules": {
            "a": taken["sm_80.0.xz"] + round(taken["sm_90.0.xz"] / 2),
            "b": round(taken["sm_90.0.xz"] / 2),
            "c": round(taken["sm_90.0.xz"] / 2),
            "copy": taken["compute_80.0.xz"],
        },
    }


def test_a_unit_whose_block_is_damaged_says_so(tmp_path: Path) -> None:
    files = {**changed(c={"block": "gone.xz"}), "sm_80.0.xz": b"x"}
    units = facts_of(tmp_path, files)["units"]
    assert [(unit["bytes"], bool(unit["problem"])) for unit in units] == [
        *((0, True), (SIZE, False), (SIZE, False), (0, True)),
        (len(PTX), False),
    ]
    assert units[3]["packed"] is None


# Unpacking


def read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("files", [FILES, RAW], ids=["packed", "plain"])
def test_what_is_unpacked_is_a_bundle_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: Mapping[str, bytes]
) -> None:
    wheel = make_wheel(tmp_path / "w.whl", inside("demo/_cubins", files))
    assert main(["unpack", str(wheel), "--into", str(tmp_path / "out")]) == 0
    assert read_tree(tmp_path / "out") == RAW
    total = f"{sum(map(len, RAW.values())) / 1024:.1f} KiB"
    assert capsys.readouterr().out == f"demo/_cubins: {len(RAW)} files, {total}, are in {tmp_path / 'out'}\n"
    assert main(["unpack", str(wheel), "--into", str(tmp_path / "out")]) == 0  # once more


def test_several_bundles_get_a_folder_each(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", inside("a/_cubins", FILES) | inside("b/c/_cubins", RAW))
    assert main(["unpack", str(wheel), "--into", str(tmp_path / "out")]) == 0
    assert read_tree(tmp_path / "out") == inside("a", RAW) | inside("b.c", RAW)


def test_nothing_of_others_is_removed(tmp_path: Path) -> None:
    place = write_tree(tmp_path / "mine", {"thesis.txt": "…"})
    with pytest.raises(
        BundleError, match="is not empty, and does not contain an unpacked bundle that could be replaced"
    ):
        write_bundle(RAW, place)
    assert read_tree(place) == {"thesis.txt": "…".encode()}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param({**FILES, "sm_90.0.xz": b"x"}, "its sha256 is", id="block"),
        pytest.param(changed(a={"offset": SIZE}), "a for sm_90 is damaged", id="entry"),
        pytest.param({**RAW, "a.sm_90.cubin": b"x"}, "a for sm_90 is damaged", id="file"),
    ],
)
def test_what_is_damaged_is_not_unpacked(tmp_path: Path, files: Mapping[str, bytes], said: str) -> None:
    place = write_tree(tmp_path / "_cubins", files)
    with open_wheel(str(place)) as opened, pytest.raises(BundleError) as caught:
        unpacked_files(opened.bundles[0])
    assert [said in str(each) for each in caught.value.problems] == [True]
