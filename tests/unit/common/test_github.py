"""What GitHub Actions is told: problems at their lines, as the repository has them, and a job's summary."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hatch_cubin.common import github
from hatch_cubin.errors import ConfigError, Location, Problem, annotate, reported
from tests.helpers import write_tree


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout of a job, as its current folder."""
    root = tmp_path / "workspace"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("PWD", str(root))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(root))
    return root


def told(capsys: pytest.CaptureFixture[str], *problems: Problem, folder: str | None = None) -> list[str]:
    with pytest.raises(SystemExit, match=r"^1$"), reported(lambda _message: None, folder=folder):
        raise ConfigError(*problems)
    return capsys.readouterr().err.splitlines()


@pytest.mark.usefixtures("workspace")
def test_each_problem_is_an_error_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    details = tuple(f"line {number}" for number in range(30))
    assert told(
        capsys,
        Problem("nowhere"),
        Problem("of a file", Location("pyproject.toml")),
        Problem("wrong", Location("src/k.cu", 3), "mend it", details),
    ) == [
        "::error file=pyproject.toml::of a file",
        f"::error file=src/k.cu,line=3::wrong%0A  {'%0A  '.join(details[:20])}%0A  hint: mend it",
        "::error::nowhere",
    ]


@pytest.mark.usefixtures("workspace")
def test_what_would_mean_something_to_github_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    problem = Problem("50 %, or: a\n::error::b", Location("a,line=9::b:\n%.cu", 1))
    assert told(capsys, problem) == [
        "::error file=a%2Cline=9%3A%3Ab%3A%0A%25.cu,line=1::50 %25, or: a\\n::error::b"
    ]


def test_elsewhere_nothing_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(capsys, Problem("wrong")) == []
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    assert told(capsys, Problem("wrong")) == []


@pytest.mark.usefixtures("workspace")
def test_what_nobody_hears_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    annotate("warning", [Problem("wrong")])


# Where a file is in the repository


def test_a_file_of_a_project_that_is_named_by_its_folder(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(workspace, {"packages/a/src/k.cu": "", "src/k.cu": ""})
    problem = Problem("wrong", Location("src/k.cu", 3))
    assert told(capsys, problem, folder="packages/a") == ["::error file=packages/a/src/k.cu,line=3::wrong"]
    assert told(capsys, problem) == ["::error file=src/k.cu,line=3::wrong"]


def test_a_project_that_is_the_current_folder(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(workspace, {"packages/a/k.cu": "", "packages/b/k.cu": ""})
    monkeypatch.chdir(workspace / "packages/b")
    assert github.in_repository("k.cu", None) == "packages/b/k.cu"


def test_in_a_build_from_an_sdist_the_folder_helps_that_the_front_end_was_called_in(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(workspace, {"packages/a/src/k.cu": "", "packages/b/src/k.cu": "", "src/k.cu": ""})
    monkeypatch.chdir(write_tree(tmp_path / "unpacked", {"src/k.cu": ""}))
    assert github.in_repository("src/k.cu", None) == "src/k.cu"
    monkeypatch.setenv("PWD", str(workspace / "packages/b"))
    assert github.in_repository("src/k.cu", None) == "packages/b/src/k.cu"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a/k.cu"], "a/k.cu"),
        (["packages/a/k.cu"], "packages/a/k.cu"),
        (["a/k.cu", "packages/a/k.cu"], "k.cu"),
        (["deep/in/a/k.cu"], "k.cu"),
        ([], "k.cu"),
    ],
    ids=["one", "two levels", "either", "too deep", "none"],
)
def test_otherwise_the_only_project_that_has_such_a_file(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], found: str
) -> None:
    write_tree(workspace, dict.fromkeys(files, ""))
    monkeypatch.chdir(write_tree(tmp_path / "unpacked", {"k.cu": ""}))
    assert github.in_repository("k.cu", None) == found


def test_absolute_paths_and_those_of_nowhere(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(workspace, {"k.cu": ""})
    assert github.in_repository(str(workspace / "k.cu"), None) == "k.cu"
    assert github.in_repository("/absent/k.cu", None) == "/absent/k.cu"
    assert github.in_repository("a\0b", None) == "a\0b"
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert github.in_repository("k.cu", "packages") == "k.cu"


def test_a_current_folder_that_is_gone(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: str, start: str = "") -> str:
        raise FileNotFoundError(path)

    write_tree(workspace, {"k.cu": ""})
    monkeypatch.setattr(os.path, "relpath", gone)
    assert github.in_repository("k.cu", None) == "k.cu"


# The summary of a job


def test_a_summary_is_added_to_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    assert github.summarize(["# elsewhere"]) is None
    assert not file.exists()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for lines in ([], ["# one", "text"], ["# two \udcff"]):
        assert github.summarize(lines) is None
    assert file.read_text("utf-8") == "# one\ntext\n\n# two \\udcff\n\n"


def test_a_summary_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert github.summarize(["# one"]) is None
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    fault = github.summarize(["# one"])
    assert fault is not None
    assert fault.strerror == "Is a directory"
