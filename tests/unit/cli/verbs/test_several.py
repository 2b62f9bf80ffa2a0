"""`inspect` and `verify` of several things at once: each is looked at, and all that is wrong is told."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.project.project import Project
from tests.command_line import Command
from tests.cubins import cubin, inside, make_wheel
from tests.helpers import Coded, bundle, made, write_tree

from .test_verify import CODE, FILES, OURS, Answer, recorded, wheel_of
from .test_verify_rebuild import wheel_of as forged


def test_several_wheels_are_shown_on_one_page_too(tmp_path: Path, command: Command) -> None:
    wheels = [
        make_wheel(tmp_path / f"{name}.whl", inside("demo/_cubins", bundle(made("k", data=cubin("k")))))
        for name in ("a", "b")
    ]
    html = tmp_path / "page.html"
    ended = command("inspect", *wheels, "--html", html)
    places = [f"{wheel}/demo/_cubins" for wheel in wheels]
    assert [line for line in ended.out.splitlines() if line.endswith("_cubins")] == places
    text = html.read_text("utf-8")
    assert re.findall(r"<h1>(.*?)</h1>", text) == ["a.whl and 1 more"]
    assert re.findall(r"<h2>(.*?)</h2>", text) == places
    assert f"<h3>{wheels[0]} &rarr; {wheels[1]}</h3>" in text  # two are compared


def test_three_wheels_or_one_that_cannot_be_read_are_not_compared(tmp_path: Path, command: Command) -> None:
    html, files = tmp_path / "page.html", bundle(made("k", data=cubin("k")))
    wheels = [make_wheel(tmp_path / f"{name}.whl", inside("demo/_cubins", files)) for name in "abc"]
    assert command("inspect", *wheels, "--html", html).code == 0
    assert " &rarr; " not in html.read_text("utf-8")
    assert command("inspect", wheels[0], "absent.whl", "--html", html).code == 1
    assert " &rarr; " not in html.read_text("utf-8")


def test_one_that_cannot_be_looked_into_keeps_no_other_from_it(tmp_path: Path, command: Command) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=cubin("k")))).as_posix()
    absent = Coded("no-such-wheel", "no_such_package")
    assert command("inspect", "no_such_package", place).errors == [absent]
    facts = json.loads(command("inspect", "no_such_package", place, "--json").out)
    assert [(each["named"], each["path"], len(each["bundles"])) for each in facts["results"]] == [
        ("no_such_package", "no_such_package", 0),
        (place, place, 1),
    ]
    assert [error["path"] for error in facts["errors"]] == ["no_such_package"]


@pytest.mark.parametrize("option", ["--html", "--report"])
def test_an_option_that_does_not_work_keeps_nothing_else_from_being_told(
    tmp_path: Path, command: Command, option: str
) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=cubin("k")))).as_posix()
    absent = str(tmp_path / "absent" / "file")
    ended = command("inspect", "no_such_package", place, option, absent, "--json")
    assert ended.code == 1
    facts = json.loads(ended.out)
    assert [len(each["bundles"]) for each in facts["results"]] == [0, 1]
    assert [error["path"] for error in facts["errors"]] == [absent, "no_such_package"]


def test_several_are_checked_and_each_is_told(tmp_path: Path, command: Command) -> None:
    """One that is damaged, and one that is not there, keep no other from being checked."""
    good, bad = wheel_of(tmp_path / "good", FILES), wheel_of(tmp_path / "bad", {**FILES, "more": b""})
    gone = tmp_path / "gone.whl"
    answer = Answer(command, bad, gone, good)
    agrees = f"{good}/demo/_cubins: all 8 files agree with the manifest; the loader is from {OURS}\n"
    assert (answer.code, answer.out) == (1, agrees)
    more = Coded("file-not-listed", "demo/_cubins/more")
    assert answer.errors == [more, Coded("no-such-wheel", gone)]
    facts = json.loads(Answer(command, bad, gone, good, "--json").out)
    assert (facts["ok"], facts["results"]) == (
        False,
        [
            {"named": str(bad), "path": str(bad), "bundles": ["demo/_cubins"], "ok": False},
            {"named": str(gone), "path": str(gone), "bundles": [], "ok": False},
            {"named": str(good), "path": str(good), "bundles": ["demo/_cubins"], "ok": True},
        ],
    )
    assert [error["path"] for error in facts["errors"]] == [f"{bad}/demo/_cubins/more", str(gone)]


def test_several_sound_ones(tmp_path: Path, command: Command) -> None:
    wheels = [wheel_of(tmp_path / name, FILES) for name in ("a", "b")]
    answer = Answer(command, *wheels, "--json")
    assert (answer.code, json.loads(answer.out)["ok"], answer.err) == (0, True, "")


@pytest.mark.nvrtc
def test_several_wheels_are_compared_with_one_rebuild(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = forged(tmp_path)
    other = make_wheel(
        tmp_path / "other.whl", recorded(inside("other/_cubins", bundle(made("k", data=CODE))))
    )
    again = shutil.copy(whole, tmp_path / "again.whl")
    builds: list[Project] = []
    build = pipeline.build

    def counted(project: Project, *, noted: bool) -> dict[str, bytes]:
        builds.append(project)
        return build(project, noted=noted)

    monkeypatch.setattr(pipeline, "build", counted)
    answer = Answer(command, *(whole, other, again, "--rebuild", "--project", tmp_path))
    assert len(builds) == 1
    assert [line for line in answer.out.splitlines() if "compiled again" in line] == [
        f"{wheel}/demo/_cubins: of 2 units compiled again, 2 have exactly the same bytes"
        for wheel in (whole, again)
    ]
    assert Coded("bundle-of-other-project", other, " (demo/_cubins)") in answer.errors
    write_tree(tmp_path / "demo", {"saxpy.cu": "__global__ void saxpy() { wrong; }"})
    answer = Answer(command, *(whole, again, "--rebuild", "--project", tmp_path))
    assert len(builds) == 2
    assert answer.errors == ['demo/saxpy.cu:1: identifier "wrong" is undefined [compiler-error]']
