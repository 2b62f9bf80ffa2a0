"""`split`: a wheel becomes a main wheel and a companion for each arch, and all other verbs know these."""

from __future__ import annotations

import contextlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import sbom
from hatch_cubin.bundle.unpacked_form import joined
from hatch_cubin.cli.main import main
from hatch_cubin.errors import BundleError
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.splitting.split import split
from tests.cubins import DATE, inside, make_wheel
from tests.cubins import FILES as OTHERS
from tests.helpers import bundle, made, wheel_files, write_tree
from tests.split_wheels import PACKED, PARTS, PLAIN, finished_wheel, install, split_wheel

MAIN, SM80, SM90 = PARTS
FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])


def verify(capsys: pytest.CaptureFixture[str], *what: str | Path) -> tuple[int, str, str]:
    code = 0
    try:
        code = main(["verify", *map(str, what)])
    except SystemExit as ended:
        code = int(str(ended.code))
    out, err = capsys.readouterr()
    return code, out, err


@FORMS
def test_the_parts_have_what_the_whole_has(tmp_path: Path, files: dict[str, bytes]) -> None:
    parts = split_wheel(tmp_path, files)
    assert sorted(path.name for path in parts.iterdir()) == sorted(PARTS)
    whole, main_part = wheel_files(tmp_path / "whole" / MAIN), wheel_files(parts / MAIN)
    moved = {
        f"demo/_cubins/{name.partition('/')[2]}": data
        for part in (SM80, SM90)
        for name, data in wheel_files(parts / part).items()
        if name.startswith("the_demo_cubins_") and name.endswith((".xz", ".cubin"))
    }
    changed = {
        "demo/_cubins/manifest.json",
        *(f"The.Demo-1.0.dist-info/{name}" for name in ("METADATA", "RECORD")),
    }
    added = {"demo/_cubins/_split.py"}  # of the loader
    together = {**main_part, **moved}
    assert together.keys() - added == whole.keys()
    assert {name for name in whole if together[name] != whole[name]} == changed
    assert not main_part.keys() & moved.keys()


def test_text_and_what_several_archs_share_stay_in_the_main_wheel(tmp_path: Path) -> None:
    parts = split_wheel(tmp_path)
    there = {name.rpartition("/")[2] for name in wheel_files(parts / MAIN) if "_cubins/" in name}
    assert {name for name in there if name.endswith((".cubin", ".ptx"))} == {
        "b.compute_80.ptx",
        "c.sm_80.cubin",
    }
    assert {name for name in wheel_files(parts / SM90) if name.endswith(".cubin")} == {
        "the_demo_cubins_sm90/a.sm_90.cubin",
        "the_demo_cubins_sm90/b.sm_90.cubin",
    }


def test_the_index_alone_has_changed_in_the_bundle(tmp_path: Path) -> None:
    manifest = wheel_files(split_wheel(tmp_path) / MAIN)["demo/_cubins/manifest.json"]
    fields = json.loads(manifest)
    assert (fields["format"], fields["companions"]) == (
        3,
        {
            f"the_demo_cubins_{arch}": {
                "install": f"The.Demo[{arch}]==1.0",
                "project": f"the-demo-cubins-{arch}",
            }
            for arch in ("sm80", "sm90")
        },
    )
    assert joined(manifest) == PLAIN["manifest.json"]


def test_extras_ask_for_companions_and_each_of_these_for_the_very_version(tmp_path: Path) -> None:
    parts = split_wheel(tmp_path)
    assert wheel_files(parts / MAIN)["The.Demo-1.0.dist-info/METADATA"].decode().splitlines()[4:] == [
        "Provides-Extra: all",
        "Provides-Extra: sm80",
        "Provides-Extra: sm90",
        "Requires-Dist: the-demo-cubins-sm80==1.0 ; extra == 'sm80'",
        "Requires-Dist: the-demo-cubins-sm90==1.0 ; extra == 'sm90'",
        "Requires-Dist: the-demo-cubins-sm80==1.0 ; extra == 'all'",
        "Requires-Dist: the-demo-cubins-sm90==1.0 ; extra == 'all'",
        "",
        "All about it.",
    ]
    assert wheel_files(parts / SM90)["the_demo_cubins_sm90-1.0.dist-info/METADATA"].decode().splitlines() == [
        "Metadata-Version: 2.1",
        "Name: the-demo-cubins-sm90",
        "Version: 1.0",
        "Summary: CUDA kernels of The.Demo for sm_90",
        "Requires-Python: >=3.10",
        "Requires-Dist: The.Demo==1.0",
    ]


def test_two_splits_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (split_wheel(tmp_path / name) for name in "ab")
    assert [(one / name).read_bytes() == (two / name).read_bytes() for name in PARTS] == [True] * 3
    for name in PARTS:  # and so do two on other days
        with zipfile.ZipFile(one / name) as part:
            assert {member.date_time for member in part.infolist()} == {DATE}


def test_json_names_the_wheels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = finished_wheel(tmp_path)
    assert main(["split", str(whole), "--by", "arch", "--into", str(tmp_path / "parts"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["wheels"]
    assert said == [{"wheel": name, "bytes": (tmp_path / "parts" / name).stat().st_size} for name in PARTS]


# What cannot be split


def refusal(capsys: pytest.CaptureFixture[str], wheel: Path, into: Path) -> str:
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["split", str(wheel), "--by", "arch", "--into", str(into)])
    return capsys.readouterr().err


def test_a_wheel_with_the_loader_of_another_version_is_not_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its core would refuse the file that a split adds."""
    whole = finished_wheel(tmp_path / "whole", {**PLAIN, "__init__.py": b"# older\n"})
    said = refusal(capsys, whole, tmp_path / "x")
    assert "demo/_cubins/__init__.py: has the loader of another version than hatch-cubin" in said


def test_a_part_is_not_split_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = split_wheel(tmp_path)
    assert "was split already [already-split]" in refusal(capsys, parts / MAIN, tmp_path / "x")
    assert "is a companion of The.Demo 1.0 [companion-alone]" in refusal(capsys, parts / SM90, tmp_path / "x")


def test_what_has_nothing_to_split_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_tree(tmp_path / "_cubins", PLAIN)
    assert "is not a wheel: only a wheel with one bundle can be split [not-splittable]" in refusal(
        capsys, folder, tmp_path / "x"
    )
    two = make_wheel(
        tmp_path / "w-1-py3-none-any.whl", inside("a/_cubins", OTHERS) | inside("b/_cubins", OTHERS)
    )
    assert "has 2 bundles" in refusal(capsys, two, tmp_path / "x")
    text = finished_wheel(tmp_path / "text", bundle(made("p", "compute_80"), folder="demo/_cubins"))
    assert "does not contain machine code for a companion [not-splittable]" in refusal(
        capsys, text, tmp_path / "x"
    )
    bare = make_wheel(tmp_path / "bare.whl", inside("demo/_cubins", OTHERS))
    assert "has 0 files .dist-info/METADATA, and a wheel has one [metadata-not-once]" in refusal(
        capsys, bare, tmp_path / "x"
    )


INFO = "The.Demo-1.0.dist-info"
DAMAGED: dict[str, tuple[str, bytes, str]] = {
    "no text": (
        f"{INFO}/METADATA",
        b"Name: \xff\n",
        f"/{INFO}/METADATA: is not text in UTF-8 [metadata-unreadable]",
    ),
    "no name": (
        f"{INFO}/METADATA",
        b"Metadata-Version: 2.1\n\nName: x\n",
        f"/{INFO}/METADATA: does not have Name and Version",
    ),
    "no bill": (
        f"{INFO}/sboms/{sbom.NAME}",
        b"[]",
        f"/sboms/{sbom.NAME}: is not what hatch-cubin writes: it was edited or damaged [not-as-written]",
    ),
    "no record": (f"{INFO}/RECORD", b"", "/demo/__init__.py"),
    "no manifest": ("demo/_cubins/manifest.json", b"{}", "/manifest.json: lacks 'format'"),
    "other code": ("demo/_cubins/a.sm_80.cubin", b"x", "/a.sm_80.cubin: its sha256 is "),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_wheel_is_not_split(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    whole = finished_wheel(tmp_path)
    name, data, told = DAMAGED[how]
    inside = wheel_files(whole)
    assert name in inside
    make_wheel(whole, inside | {name: data})
    assert told in refusal(capsys, whole, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_a_wheel_that_was_renamed_is_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = finished_wheel(tmp_path)
    renamed = whole.rename(tmp_path / "main.whl")
    assert main(["split", str(renamed), "--by", "arch", "--into", str(tmp_path / "parts")]) == 0
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {"main.whl", SM80, SM90}
    assert verify(capsys, tmp_path / "parts/main.whl")[0] == 0


def test_a_wheel_whose_index_was_edited_is_not_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = finished_wheel(tmp_path, PLAIN | {"manifest.json": PLAIN["manifest.json"] + b"\n"})
    told = "/manifest.json: line 12 is not what hatch-cubin writes: it was edited or damaged"
    assert told in refusal(capsys, whole, tmp_path / "parts")


def test_a_wheel_is_not_replaced_by_its_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = finished_wheel(tmp_path)
    before = whole.read_bytes()
    assert "would be replaced by its own part" in refusal(capsys, whole, tmp_path)
    assert whole.read_bytes() == before


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = finished_wheel(tmp_path)
    (tmp_path / "parts" / SM80).mkdir(parents=True)
    assert f"{SM80}: cannot be written: " in refusal(capsys, whole, tmp_path / "parts")


def test_a_wheel_without_a_bill_is_split_without_one(tmp_path: Path) -> None:
    whole = finished_wheel(tmp_path)
    with zipfile.ZipFile(whole) as archive:
        left = {name: archive.read(name) for name in archive.namelist() if "sboms" not in name}
    record = left[f"{INFO}/RECORD"].splitlines(keepends=True)
    left[f"{INFO}/RECORD"] = b"".join(line for line in record if b"sboms" not in line)
    with open_wheel(str(make_wheel(tmp_path / "w-win_amd64.whl", left))) as opened:
        cut = split(opened)
    assert not [name for each in cut.companions for name in each.files if "sboms" in name]
    assert [each.name for each in cut.companions] == [
        name.replace("any", "win_amd64") for name in (SM80, SM90)
    ]


# What the other verbs say of parts


@FORMS
def test_parts_that_are_together_are_verified_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    capsys.readouterr()
    code, out, err = verify(capsys, *(parts / name for name in PARTS))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(" files agree with its manifest; the loader is that of hatch-cubin 0.1.0")
    said = "its files are those that it describes; it belongs to The.Demo 1.0"
    assert lines[1:] == [f"{parts / name}: {said}" for name in (SM80, SM90)]


@FORMS
def test_of_a_companion_that_is_not_here_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    (parts / SM80).unlink()
    capsys.readouterr()
    code, out, _err = verify(capsys, parts / MAIN)
    assert code == 0
    assert out.endswith("; not looked at, for they are not here: the-demo-cubins-sm80\n")


def test_an_installed_bundle_finds_its_companions_beside_its_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = split_wheel(tmp_path)
    site = install(tmp_path / "site", *(parts / name for name in PARTS))
    capsys.readouterr()
    assert verify(capsys, site / "demo")[0] == 0
    shutil.rmtree(site / "the_demo_cubins_sm80")
    code, out, _err = verify(capsys, site / "demo")
    assert (code, out.rpartition("; ")[2]) == (
        0,
        "not looked at, for they are not here: the-demo-cubins-sm80\n",
    )
    (site / "the_demo_cubins_sm90/a.sm_90.cubin").write_bytes(b"x")
    (site / "the_demo_cubins_sm90/b.sm_90.cubin").unlink()
    code, _out, err = verify(capsys, site / "demo")
    assert code == 1
    assert "a.sm_90.cubin: has 1 bytes, but the manifest says " in err
    assert "the_demo_cubins_sm90/b.sm_90.cubin: is missing [file-missing]" in err


def test_a_companion_of_another_version_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, other = (
        split_wheel(tmp_path / "a"),
        split_wheel(tmp_path / "b", bundle(made("x"), folder="demo/_cubins")),
    )
    shutil.copy(other / SM90, parts / SM90)
    capsys.readouterr()
    code, _out, err = verify(capsys, parts / MAIN)
    assert code == 1
    assert (
        f"{(parts / SM90).as_posix()}: belongs to another version of the bundle [companion-of-other-version]"
        in err
    )


def test_the_companion_of_another_wheel_in_the_same_folder_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the parts for Linux and for Windows lie in one folder."""
    parts, other = (
        split_wheel(tmp_path / "a"),
        split_wheel(tmp_path / "b", bundle(made("x"), folder="demo/_cubins")),
    )
    shutil.copy(other / SM90, parts / SM90.replace("-py3-", "-1-py3-"))  # which sorts before the right one
    capsys.readouterr()
    assert verify(capsys, parts / MAIN)[0] == 0


DAMAGE: dict[str, tuple[dict[str, bytes | None], str]] = {
    "a file": (
        {"a.sm_90.cubin": b"x"},
        "a.sm_90.cubin: is not the file that companion.json describes [file-changed]",
    ),
    "a file too many": (
        {"more.cubin": b"x"},
        "more.cubin: is not one of the companion's files [file-not-listed]",
    ),
    "a file that is gone": ({"a.sm_90.cubin": None}, "a.sm_90.cubin: is missing [file-missing]"),
    "its description": ({"companion.json": b"{}"}, "companion.json: is not what hatch-cubin writes"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_companion_alone_is_what_it_describes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    changes, said = DAMAGE[how]
    parts = split_wheel(tmp_path)
    files: dict[str, Any] = wheel_files(parts / SM90)
    files |= {f"the_demo_cubins_sm90/{name}": data for name, data in changes.items()}
    make_wheel(parts / SM90, {name: data for name, data in files.items() if data is not None})
    capsys.readouterr()
    code, _out, err = verify(capsys, parts / SM90)
    assert code == 1
    assert said in err


def test_a_manifest_that_names_strange_companions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = split_wheel(tmp_path)
    files = wheel_files(parts / MAIN)
    name = "demo/_cubins/manifest.json"
    make_wheel(
        parts / MAIN,
        {**files, name: files[name].replace(b'"companion":"the_demo_cubins_sm80"', b'"companion":"../x"')},
    )
    capsys.readouterr()
    assert "it names the companion '../x' and does not describe it" in verify(capsys, parts / MAIN)[2]


def test_what_inspect_shows_of_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = split_wheel(tmp_path)
    (parts / SM80).unlink()
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["inspect", str(parts / MAIN), str(parts / SM90), "--json"])
    facts = json.loads(capsys.readouterr().out)
    units = facts["results"][0]["bundles"][0]["units"]
    assert {(unit["module"], unit["arch"]): unit["problem"] for unit in units} == {
        ("a", "sm_80"): "is in the-demo-cubins-sm80, which is not here",
        **dict.fromkeys(
            [("a", "sm_90"), ("b", "sm_90"), ("b", "compute_80"), ("c", "sm_80"), ("c", "sm_90")]
        ),
    }
    assert facts["results"][1]["bundles"] == []


ALONE = {
    "diff": ("diff", "PART", "PART"),
    "inspect": ("inspect", "PART"),
    "listing": ("inspect", "PART", "--ptx", "a"),
    "unpack": ("unpack", "PART", "--into", "out"),
    "split": ("split", "PART", "--by", "arch", "--into", "out"),
}


@pytest.mark.parametrize("verb", ALONE)
def test_who_wants_a_bundle_is_told_whose_companion_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    part = split_wheel(tmp_path) / SM90
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^1$"):
        main([str(part) if word == "PART" else word for word in ALONE[verb]])
    first, hint, *_ = capsys.readouterr().err.splitlines()
    assert first == f"hatch-cubin: error: {part}: is a companion of The.Demo 1.0 [companion-alone]"
    assert hint == "  hint: name that wheel: its companions are read with it"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("said", [b"", b"[]", b"{}"])
def test_a_companion_that_does_not_say_whose_it_is(tmp_path: Path, said: bytes) -> None:
    part = make_wheel(tmp_path / SM90, {"the_demo_cubins_sm90/companion.json": said})
    with (
        pytest.raises(BundleError, match="is a companion of another wheel"),
        open_wheel(str(part)),
    ):
        pass


def test_check_looks_at_a_companion_alone_as_verify_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = split_wheel(tmp_path) / SM90
    capsys.readouterr()
    assert main(["check", str(part)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(part)
    files = {**wheel_files(part), "the_demo_cubins_sm90/a.sm_90.cubin": b"x"}
    make_wheel(part, files)
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["check", str(part)])
    assert "is not the file that companion.json describes [file-changed]" in capsys.readouterr().err


@FORMS
def test_parts_are_unpacked_to_what_the_whole_is(tmp_path: Path, files: dict[str, bytes]) -> None:
    parts = split_wheel(tmp_path, files)
    assert main(["unpack", str(parts / MAIN), "--into", str(tmp_path / "out")]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == PLAIN


def test_parts_that_are_not_all_here_are_not_unpacked(tmp_path: Path) -> None:
    parts = split_wheel(tmp_path)
    (parts / SM90).unlink()
    with pytest.raises(SystemExit):
        main(["unpack", str(parts / MAIN), "--into", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_check_and_the_page_say_what_gpus_run_with_all_companions_whichever_are_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = split_wheel(tmp_path)
    capsys.readouterr()
    whole: list[str] = []
    for absent in ((), (SM80, SM90)):
        for name in absent:
            (parts / name).unlink()
        page = tmp_path / "page.html"
        with contextlib.suppress(SystemExit):
            main(["inspect", str(parts / MAIN), "--html", str(page)])
        assert ("is in the-demo-cubins-sm80, which is not here" in page.read_text("utf-8")) == bool(absent)
        shown = page.read_text("utf-8").partition("What each GPU runs")[2].partition("</table>")[0]
        capsys.readouterr()
        assert main(["check", str(parts / MAIN), "--except", "b"]) == 0
        out, err = capsys.readouterr()
        said = ": companions are not here and were not checked: the-demo-cubins-sm80, the-demo-cubins-sm90"
        assert (said in err) == bool(absent)
        assert not whole or [*out.splitlines()[3:], shown] == whole
        whole = [*out.splitlines()[3:], shown]
    assert "sm_90" in whole[-1]
