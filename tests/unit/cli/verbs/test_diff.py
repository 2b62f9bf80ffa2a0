"""`diff`: two wheels, or a wheel and what the project builds; and what a job of CI makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.wheels.comparing.diff import FAIL_ON_KINDS
from tests.command_line import Command
from tests.helpers import SAXPY, Coded, bundle, pyproject, write_tree
from tests.sample_wheels import Kernel, code, units, wheel_of, whole_wheel
from tests.unit.wheels.reading.test_page import Page

from .test_check import Answer

BASE: dict[Kernel, bytes] = {
    (name, arch): code(name) for name in ("a", "b", "c") for arch in ("sm_80", "sm_90")
}
WORSE = {key: data for key, data in BASE.items() if key != ("b", "sm_80")} | {
    ("a", "sm_90"): code("a", spills=4, stack=16, registers=40, size=4000)
}


def diff(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Answer:
    try:
        ended: Any = main(["diff", *map(str, arguments)])
    except SystemExit as exc:
        ended = exc.code
    out, err = capsys.readouterr()
    return Answer(ended, out.splitlines(), err.splitlines())


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[Path, Path]:
    return wheel_of(tmp_path / "old", BASE), wheel_of(tmp_path / "new", WORSE)


def test_two_wheels(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    answer = diff(capsys, *wheels)
    sizes = [wheel.stat().st_size for wheel in wheels]
    assert (answer.code, answer.err) == (0, [])
    old, new = (len(code("a", **size)) for size in ({}, {"spills": 4, "stack": 16, "size": 4000}))
    percent = f"{100 * (new - old) / (3 * old):+.1f} %"
    assert answer.out[0] == f"{wheels[0]} -> {wheels[1]}"
    assert answer.out[1].endswith(f", {100 * (sizes[1] - sizes[0]) / sizes[0]:+.1f} %")
    assert answer.out[2:12] == [
        "",
        "kernels lost: 1",
        "  kernel  for",
        "  b       sm_80",
        "",
        "kernels that use more than before: 1",
        "  kernel  arch   what       before  after",
        "  a       sm_90  spills          0      4",
        "  a       sm_90  registers      32     40",
        "  a       sm_90  stack           0     16",
    ]
    assert next(line for line in answer.out if line.startswith("  sm_90")).endswith(percent)


def test_the_facts(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads("\n".join(diff(capsys, *wheels, "--json").out))
    (bundle,) = facts.pop("bundles")
    sizes = [wheel.stat().st_size for wheel in wheels]
    assert facts == {
        "format": 1,
        "verb": "diff",
        "before": str(wheels[0]),
        "after": str(wheels[1]),
        "bytes": {"before": sizes[0], "after": sizes[1]},
        "errors": [],
    }
    assert [each["kernel"] for each in bundle["lost"]] == ["b"]
    assert [each["what"] for each in bundle["changes"]] == ["spills", "registers", "stack"]


def test_a_newer_wheel_that_is_named_first_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer, older = (
        wheel_of(tmp_path / version, BASE).rename(tmp_path / f"demo-{version}-py3-none-any.whl")
        for version in ("1.10.0", "1.9.0")
    )
    answer = diff(capsys, newer, older)
    hint = f"  hint: name the older wheel first: hatch-cubin diff {older} {newer}"
    assert (answer.code, answer.err[1:]) == (0, [hint])
    assert answer.err[0] == Coded("newer-wheel-first", newer, "1.10.0", "1.9.0")
    assert "newer-wheel-first" not in "\n".join(diff(capsys, older, newer).err)
    assert any("1.10.0 is newer than 1.9.0" in line for line in diff(capsys, newer, older, "--markdown").out)


def test_as_markdown(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    lines = diff(capsys, *wheels, "--markdown", "--fail-on", "lost").out
    assert lines[lines.index("### kernels lost: 1") + 2 :][:3] == [
        "| kernel | for |",
        "| --- | --- |",
        "| `b` | sm\\_80 |",
    ]
    assert "| `a` | `sm_90` | spills | 0 | 4 |" in lines
    assert lines[-2].endswith(
        "| kernels are missing after the change: 1, but --fail-on lost does not allow this; b for sm\\_80 |"
    )


def test_on_a_page_the_difference_comes_first(
    wheels: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert diff(capsys, *wheels, "--html", page).code == 0
    text = page.read_text("utf-8")
    assert text.index("kernels lost: 1") < text.index("<h2>")
    assert len(Page(text).units) == len(BASE) + len(WORSE)
    assert f"<h1>{wheels[0].name} and {wheels[1].name}</h1>" in text
    absent = diff(capsys, *wheels, "--html", tmp_path / "absent/page.html")
    assert absent.err == [
        (
            f"hatch-cubin: error: {tmp_path}/absent/page.html: cannot be written: No such file or directory"
            " [file-not-writable]"
        )
    ]
    assert "kernels lost: 1" in absent.out


# What must not be worse


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("lost", ["kernels are missing after the change: 1, but --fail-on lost does not allow this"]),
        (
            "spills,stack",
            [
                "kernels use more register spills than before: 1, but --fail-on spills does not allow this",
                "kernels use more stack than before: 1, but --fail-on stack does not allow this",
            ],
        ),
        ("registers=8", []),
        (
            "registers=7",
            ["kernels use more registers than before: 1, but --fail-on registers=7 does not allow this"],
        ),
        ("registers=25%", []),
        (
            "registers=24.9%, shared",
            ["kernels use more registers than before: 1, but --fail-on registers=24.9% does not allow this"],
        ),
        ("size=90%", []),
        ("size=1MB", []),
        ("stack=15B", ["kernels use more stack than before: 1, but --fail-on stack=15B does not allow this"]),
    ],
)
def test_only_what_is_worse_by_more_than_that_fails(
    wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str], limits: str, said: list[str]
) -> None:
    answer = diff(capsys, *wheels, "--fail-on", limits)
    assert answer.code == bool(said)
    errors = [line for line in answer.err if "error: " in line]
    assert errors == [f"hatch-cubin: error: {wheels[1]}: {each} [kernels-worse]" for each in said]


def test_the_size_of_the_wheel(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    answer = diff(capsys, *wheels, "--fail-on", "size")
    assert answer.code == 1
    assert answer.err[0].startswith(f"hatch-cubin: error: {wheels[1]}: the size has grown from ")
    assert answer.err[0].endswith(" %, but --fail-on size does not allow this [wheel-grown]")
    assert diff(capsys, *wheels[::-1], "--fail-on", "size").code == 0


def test_without_two_wheels_the_size_of_the_bundles(
    wheels: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_tree(tmp_path / "demo/_cubins", bundle(*units(WORSE)))
    answer = diff(capsys, wheels[0], folder, "--fail-on", "size=5%")
    assert answer.out[1].startswith("  unpacked: ")
    assert answer.err[0].startswith(f"hatch-cubin: error: {folder}: the size has grown from ")


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ("spill", f"'spill' is not one of {', '.join(FAIL_ON_KINDS)}: did you mean 'spills'?"),
        ("x", f"'x' is not one of {', '.join(FAIL_ON_KINDS)}"),
        ("lost=3", "'lost' does not accept a limit: a single kernel is enough for an error"),
        ("spills=few", "'spills=few' needs a number after the '=', as in 'registers=8' or 'size=5%'"),
        ("size=%", "'size=%' needs a number after the '=', as in 'registers=8' or 'size=5%'"),
        ("size=much", "must be a size such as '2 GiB', not 'much'"),
    ],
)
def test_what_fail_on_does_not_take(capsys: pytest.CaptureFixture[str], limits: str, why: str) -> None:
    answer = diff(capsys, "a.whl", "b.whl", "--fail-on", limits)
    assert answer.code == 2
    assert answer.err[-1] == f"hatch-cubin diff: error: argument --fail-on: {why}"


# What cannot be compared


def test_all_that_keeps_either_from_being_looked_into_is_told(tmp_path: Path, command: Command) -> None:
    errors = command("diff", "a.whl", tmp_path).errors
    assert errors == [Coded("no-bundle", tmp_path), Coded("no-such-wheel", "a.whl")]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = wheel_of(tmp_path / "old", BASE)
    new = whole_wheel(tmp_path / "new", bundle(*units({**BASE, ("a", "sm_80"): b"no code"})))
    answer = diff(capsys, old, new)
    assert (answer.code, answer.err) == (
        1,
        [f"hatch-cubin: error: {new}/demo/_cubins/a.sm_80.cubin: is not a cubin [code-unreadable]"],
    )


def test_a_pattern_that_no_shell_has_expanded_means_one(
    wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    new = wheels[1].parent
    assert diff(capsys, wheels[0], f"{new}/*.whl").out[0] == f"{wheels[0]} -> {wheels[1]}"
    (new / "other.whl").write_bytes(wheels[1].read_bytes())
    both = f"{wheels[1]}, {new}/other.whl"
    assert diff(capsys, wheels[0], f"{new}/*.whl").err == [
        (
            f"hatch-cubin: error: {new}/*.whl: matches 2 files, but must match only one: {both}"
            " [several-wheels]"
        )
    ]


def test_without_a_project_a_second_wheel_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert diff(capsys, wheel_of(tmp_path / "old", BASE)).err[1:] == [
        "  hint: name two wheels, or the project to compare the wheel with: --project DIR"
    ]


# A wheel and the project


@pytest.mark.nvrtc
def test_a_wheel_and_what_the_project_builds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = {"pyproject.toml": pyproject('archs = ["sm_80", "sm_90"]\n'), "demo/__init__.py": ""}
    monkeypatch.chdir(write_tree(tmp_path, {**project, "demo/saxpy.cu": SAXPY}))
    assert main(["bundle", "--into", "demo"]) == 0
    (tmp_path / "demo/_cubins").rename(tmp_path / "before")
    write_tree(tmp_path, {"pyproject.toml": pyproject('archs = ["sm_90"]\n')})
    capsys.readouterr()
    answer = diff(capsys, "before", "--fail-on", "lost")
    assert answer.out[0] == "before -> the project in ."
    assert answer.err[-2:] == [
        (
            "hatch-cubin: error: .: kernels are missing after the change: 1, "
            "but --fail-on lost does not allow this [kernels-worse]"
        ),
        "  saxpy for sm_80",
    ]
