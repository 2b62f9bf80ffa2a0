"""`split`: a wheel becomes a main wheel and a companion for each arch, and all other verbs know these."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import sbom
from hatch_cubin.bundle.unpacked_form import manifest_before_split
from hatch_cubin.errors import BundleError
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.splitting.split import split
from tests.command_line import Command
from tests.cubins import DATE, inside, make_wheel
from tests.cubins import FILES as OTHERS
from tests.helpers import Coded, bundle, codes, made, wheel_files, write_tree
from tests.split_wheels import PACKED, PARTS, PLAIN, finished_wheel, install, split_wheel

MAIN, SM80, SM90 = PARTS
FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])


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
    assert manifest_before_split(manifest) == PLAIN["manifest.json"]


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


# What cannot be split


def refusal(command: Command, wheel: Path, into: Path) -> str:
    """Return the one error of a split."""
    (error,) = command("split", wheel, "--by", "arch", "--into", into).errors
    return error


def test_a_wheel_with_the_loader_of_another_version_is_not_split(tmp_path: Path, command: Command) -> None:
    """Its core would refuse the file that a split adds."""
    whole = finished_wheel(tmp_path / "whole", {**PLAIN, "__init__.py": b"# older\n"})
    other = Coded(
        "not-splittable",
        f"{whole}/demo/_cubins/__init__.py",
        "is the loader of another version",
    )
    assert refusal(command, whole, tmp_path / "x") == other


def test_a_part_is_not_split_again(tmp_path: Path, command: Command) -> None:
    parts = split_wheel(tmp_path)
    again = Coded("already-split", f"{parts / MAIN}/demo/_cubins/manifest.json", "was split already")
    assert refusal(command, parts / MAIN, tmp_path / "x") == again
    assert refusal(command, parts / SM90, tmp_path / "x") == Coded("companion-alone", parts / SM90)


def test_what_has_nothing_to_split_says_so(tmp_path: Path, command: Command) -> None:
    folder = write_tree(tmp_path / "_cubins", PLAIN)
    two = make_wheel(
        tmp_path / "w-1-py3-none-any.whl", inside("a/_cubins", OTHERS) | inside("b/_cubins", OTHERS)
    )
    text = finished_wheel(tmp_path / "text", bundle(made("p", "compute_80"), folder="demo/_cubins"))
    bare = make_wheel(tmp_path / "bare.whl", inside("demo/_cubins", OTHERS))
    for wheel, code, place, what in (
        (folder, "not-splittable", folder, "is not a wheel: only a wheel with one bundle can be split"),
        (two, "not-splittable", two, "has 2 bundles"),
        (
            text,
            "not-splittable",
            f"{text}/demo/_cubins",
            "does not contain machine code that could be moved into a companion wheel",
        ),
        (bare, "metadata-not-once", bare, "has 0 .dist-info/METADATA files, but a wheel has exactly one"),
    ):
        assert refusal(command, wheel, tmp_path / "x") == Coded(code, place, what)


INFO = "The.Demo-1.0.dist-info"
DAMAGED: dict[str, tuple[str, bytes, str, str]] = {
    "no text": (f"{INFO}/METADATA", b"Name: \xff\n", "metadata-unreadable", "is not text in UTF-8"),
    "no name": (
        f"{INFO}/METADATA",
        b"Metadata-Version: 2.1\n\nName: x\n",
        "metadata-unreadable",
        "does not have the fields Name and Version",
    ),
    "no bill": (f"{INFO}/sboms/{sbom.NAME}", b"[]", "not-as-written", ""),
    "no manifest": ("demo/_cubins/manifest.json", b"{}", "manifest-unreadable", "does not have 'format'"),
    "other code": ("demo/_cubins/a.sm_80.cubin", b"x", "file-changed", "its sha256 is "),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_wheel_is_not_split(tmp_path: Path, command: Command, how: str) -> None:
    whole = finished_wheel(tmp_path)
    name, data, code, value = DAMAGED[how]
    inside = wheel_files(whole)
    assert name in inside
    make_wheel(whole, inside | {name: data})
    ended = command("split", whole, "--by", "arch", "--into", tmp_path / "parts")
    assert Coded(code, f"{whole}/{name}", value) in ended.errors
    assert not (tmp_path / "parts").exists()


def test_a_wheel_that_record_does_not_describe_is_not_split(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    make_wheel(whole, wheel_files(whole) | {f"{INFO}/RECORD": b""})
    ended = command("split", whole, "--by", "arch", "--into", tmp_path / "parts")
    assert codes(ended.err) == ["not-in-record"]
    assert f"{whole}/demo/__init__.py\n" in ended.err
    assert not (tmp_path / "parts").exists()


def test_a_wheel_that_was_renamed_is_not_split(tmp_path: Path, command: Command) -> None:
    renamed = finished_wheel(tmp_path).rename(tmp_path / "main.whl")
    assert refusal(command, renamed, tmp_path / "parts") == Coded("wheel-misnamed", renamed)
    assert not (tmp_path / "parts").exists()


def test_a_wheel_whose_index_was_edited_is_not_split(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path, PLAIN | {"manifest.json": PLAIN["manifest.json"] + b"\n"})
    edited = Coded("not-as-written", f"{whole}/demo/_cubins/manifest.json", "line 12 ")
    assert refusal(command, whole, tmp_path / "parts") == edited


def test_a_wheel_is_not_replaced_by_its_part(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    before = whole.read_bytes()
    overwritten = Coded(
        "wheel-overwrites-itself", whole, "would be overwritten by a new wheel of the same name"
    )
    assert refusal(command, whole, tmp_path) == overwritten
    assert whole.read_bytes() == before


def test_companions_of_another_build_do_not_stay_beside_those_of_this_one(
    tmp_path: Path, command: Command
) -> None:
    parts = split_wheel(tmp_path)
    before = (parts / MAIN).read_bytes()
    (parts / "unfinished.whl").write_bytes(b"")
    without_sm80 = finished_wheel(tmp_path / "less", bundle(made("a", "sm_90"), folder="demo/_cubins"))
    assert refusal(command, without_sm80, parts) == Coded(
        "companion-of-other-build",
        parts / SM80,
        f"is a companion of another build of {MAIN}, and no other wheel in this folder uses it",
    )
    assert (parts / MAIN).read_bytes() == before


@pytest.mark.parametrize(
    "files", [None, {"demo/_cubins/a.py": b""}, {f"{SM80.split('-')[0]}/companion.json": b"{}"}]
)
def test_what_only_has_the_name_of_a_companion_does_not_stay_either(
    tmp_path: Path, command: Command, files: dict[str, bytes] | None
) -> None:
    strange = tmp_path / "parts" / SM80.replace("sm80", "sm70")
    strange.parent.mkdir()
    strange.write_bytes(b"")
    if files is not None:
        make_wheel(strange, files)
    error = refusal(command, finished_wheel(tmp_path), strange.parent)
    assert error == Coded("companion-of-other-build", strange)


def test_a_wheel_of_another_project_is_no_companion(tmp_path: Path, command: Command) -> None:
    other = tmp_path / "parts" / SM80.replace("sm80", "smart")
    other.parent.mkdir()
    make_wheel(other, {})
    assert command("split", finished_wheel(tmp_path), "--by", "arch", "--into", other.parent).code == 0
    assert {each.name for each in other.parent.iterdir()} == {*PARTS, other.name}


def test_companions_of_wheels_for_two_systems_stay_in_one_folder(tmp_path: Path, command: Command) -> None:
    parts = split_wheel(tmp_path)
    files, tag = bundle(made("a", "sm_87"), folder="demo/_cubins"), "py3-none-manylinux_2_28_aarch64"
    other = finished_wheel(tmp_path / "other", files, tag=tag)
    assert command("split", other, "--by", "arch", "--into", parts).code == 0
    assert {each.name for each in parts.iterdir()} == {*PARTS, other.name, SM80.replace("sm80", "sm87")}


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    (tmp_path / "parts" / SM80).mkdir(parents=True)
    unwritable = Coded("file-not-writable", tmp_path / "parts" / SM80)
    assert refusal(command, whole, tmp_path / "parts") == unwritable


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
    tmp_path: Path, command: Command, files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    code, out, err = command("verify", *(parts / name for name in PARTS))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(" files agree with the manifest; the loader is from hatch-cubin 0.1.0")
    said = "all files match companion.json; this is a companion of the main wheel The.Demo 1.0"
    assert lines[1:] == [f"{parts / name}: {said}" for name in (SM80, SM90)]


@FORMS
def test_of_a_companion_that_is_not_here_nothing_is_said(
    tmp_path: Path, command: Command, files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    (parts / SM80).unlink()
    code, out, _err = command("verify", parts / MAIN)
    assert code == 0
    assert out.endswith("; not found, so not checked: the-demo-cubins-sm80\n")


def test_an_installed_bundle_finds_its_companions_beside_its_package(
    tmp_path: Path, command: Command
) -> None:
    parts = split_wheel(tmp_path)
    site = install(tmp_path / "site", *(parts / name for name in PARTS))
    assert command("verify", site / "demo")[0] == 0
    shutil.rmtree(site / "the_demo_cubins_sm80")
    code, out, _err = command("verify", site / "demo")
    assert (code, out.rpartition("; ")[2]) == (
        0,
        "not found, so not checked: the-demo-cubins-sm80\n",
    )
    (site / "the_demo_cubins_sm90/a.sm_90.cubin").write_bytes(b"x")
    (site / "the_demo_cubins_sm90/b.sm_90.cubin").unlink()
    companion = site / "the_demo_cubins_sm90"
    errors = command("verify", site / "demo").errors
    assert Coded("file-changed", site / "demo/_cubins/a.sm_90.cubin", " 1 bytes") in errors
    assert Coded("file-missing", companion / "b.sm_90.cubin") in errors


def test_a_companion_of_another_version_is_told_as_that(tmp_path: Path, command: Command) -> None:
    parts, other = (
        split_wheel(tmp_path / "a"),
        split_wheel(tmp_path / "b", bundle(made("x"), folder="demo/_cubins")),
    )
    shutil.copy(other / SM90, parts / SM90)
    wrong = Coded(
        "companion-of-other-version",
        parts / SM90,
        "is a companion of another wheel, or of another version of this wheel",
    )
    assert wrong in command("verify", parts / MAIN).errors


def test_the_companion_of_another_wheel_in_the_same_folder_is_passed_over(
    tmp_path: Path, command: Command
) -> None:
    """As where the parts for Linux and for Windows lie in one folder."""
    parts, other = (
        split_wheel(tmp_path / "a"),
        split_wheel(tmp_path / "b", bundle(made("x"), folder="demo/_cubins")),
    )
    shutil.copy(other / SM90, parts / SM90.replace("-py3-", "-1-py3-"))  # which sorts before the right one
    assert command("verify", parts / MAIN)[0] == 0


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.sm_90.cubin", b"x", "file-changed"),
        ("more.cubin", b"x", "file-not-listed"),
        ("a.sm_90.cubin", None, "file-missing"),
        ("companion.json", b"{}", "not-as-written"),
    ],
)
def test_a_companion_alone_is_what_it_describes(
    tmp_path: Path, command: Command, name: str, data: bytes | None, code: str
) -> None:
    parts = split_wheel(tmp_path)
    name = f"the_demo_cubins_sm90/{name}"
    files: dict[str, Any] = {**wheel_files(parts / SM90), name: data}
    make_wheel(parts / SM90, {name: data for name, data in files.items() if data is not None})
    assert Coded(code, f"{parts / SM90}/{name}") in command("verify", parts / SM90).errors


def test_a_manifest_that_names_strange_companions(tmp_path: Path, command: Command) -> None:
    parts = split_wheel(tmp_path)
    files = wheel_files(parts / MAIN)
    name = "demo/_cubins/manifest.json"
    make_wheel(
        parts / MAIN,
        {**files, name: files[name].replace(b'"companion":"the_demo_cubins_sm80"', b'"companion":"../x"')},
    )
    inconsistent = Coded(
        "manifest-inconsistent", f"{parts / MAIN}/{name}", "in the companion '../x', but does not describe"
    )
    assert inconsistent in command("verify", parts / MAIN).errors


def test_what_inspect_shows_of_parts(tmp_path: Path, command: Command) -> None:
    parts = split_wheel(tmp_path)
    (parts / SM80).unlink()
    ended = command("inspect", parts / MAIN, parts / SM90, "--json")
    assert ended.code == 1
    facts = json.loads(ended.out)
    units = facts["results"][0]["bundles"][0]["units"]
    assert {(unit["module"], unit["arch"]): unit["problem"] for unit in units} == {
        ("a", "sm_80"): "belongs to the companion wheel the-demo-cubins-sm80, which is missing",
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
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    part = split_wheel(tmp_path) / SM90
    monkeypatch.chdir(tmp_path)
    error, *_ = command(*(part if word == "PART" else word for word in ALONE[verb])).errors
    what = "is a companion of The.Demo 1.0 [companion-alone]"
    hint = "name the main wheel instead: hatch-cubin then also reads the companion wheels in the same folder"
    assert error == f"hatch-cubin: error: {part}: {what}\n  hint: {hint}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("said", [b"", b"[]", b"{}"])
def test_a_companion_that_does_not_say_whose_it_is(tmp_path: Path, said: bytes) -> None:
    part = make_wheel(tmp_path / SM90, {"the_demo_cubins_sm90/companion.json": said})
    with (
        pytest.raises(BundleError, match="is a companion of another wheel"),
        open_wheel(str(part)),
    ):
        pass


def test_check_looks_at_a_companion_alone_as_verify_does(tmp_path: Path, command: Command) -> None:
    part = split_wheel(tmp_path) / SM90
    ended, name = command("check", part), "the_demo_cubins_sm90/a.sm_90.cubin"
    assert (ended.code, ended.out.splitlines()[0]) == (0, str(part))
    make_wheel(part, {**wheel_files(part), name: b"x"})
    changed = Coded(
        "file-changed", f"{part}/{name}", "does not have the digest and the size that companion.json"
    )
    assert changed in command("check", part).errors


@FORMS
def test_parts_are_unpacked_to_what_the_whole_is(
    tmp_path: Path, command: Command, files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    assert command("unpack", parts / MAIN, "--into", tmp_path / "out").code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == PLAIN


def test_parts_that_are_not_all_here_are_not_unpacked(tmp_path: Path, command: Command) -> None:
    parts = split_wheel(tmp_path)
    (parts / SM90).unlink()
    assert command("unpack", parts / MAIN, "--into", tmp_path / "out").code == 1
    assert not (tmp_path / "out").exists()


def test_check_and_the_page_say_what_gpus_run_with_all_companions_whichever_are_here(
    tmp_path: Path, command: Command
) -> None:
    parts = split_wheel(tmp_path)
    whole: list[str] = []
    for absent in ((), (SM80, SM90)):
        for name in absent:
            (parts / name).unlink()
        page = tmp_path / "page.html"
        command("inspect", parts / MAIN, "--html", page)
        assert (
            "belongs to the companion wheel the-demo-cubins-sm80, which is missing" in page.read_text("utf-8")
        ) == bool(absent)
        shown = page.read_text("utf-8").partition("What each GPU runs")[2].partition("</table>")[0]
        code, out, err = command("check", parts / MAIN, "--except", "b")
        assert code == 0
        said = "are missing, so they were not checked: the-demo-cubins-sm80, the-demo-cubins-sm90"
        assert (said in err) == bool(absent)
        assert not whole or [*out.splitlines()[3:], shown] == whole
        whole = [*out.splitlines()[3:], shown]
    assert "sm_90" in whole[-1]
