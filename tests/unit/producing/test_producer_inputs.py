"""Everything that the texts of a producer depend on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.common import file_access
from hatch_cubin.errors import ConfigError, SourceError
from hatch_cubin.producing import producer_inputs
from hatch_cubin.producing.producer_inputs import Producer, find_producers
from hatch_cubin.project.project import Project
from tests.helpers import found, make_project, refusal
from tests.producers import SCRIPT, producer_project, producer_table


def producer(project: Project) -> Producer:
    (one,) = find_producers(project)
    return one


def project_with(tmp_path: Path, options: str, **files: str) -> Project:
    return producer_project(
        tmp_path, SCRIPT, options, {name.replace("__", "/"): text for name, text in files.items()}
    )


TEMPLATES = {"t/a.j2": "A", "t/b.j2": "B", "t/in/c.j2": "C", "t/.hidden": "", "other.txt": ""}


@pytest.mark.parametrize(
    ("pattern", "files", "folders"),
    [
        ("demo/other.txt", ["demo/other.txt"], []),
        ("demo/t/*.j2", ["demo/t/a.j2", "demo/t/b.j2"], ["demo/t"]),
        ("demo/t/*/*.j2", ["demo/t/in/c.j2"], ["demo/t/in"]),
        (
            "demo/t/**",
            ["demo/t/.hidden", "demo/t/a.j2", "demo/t/b.j2", "demo/t/in/c.j2"],
            ["demo/t", "demo/t/in"],
        ),
        ("demo/**/*.j2", ["demo/t/a.j2", "demo/t/b.j2", "demo/t/in/c.j2"], ["demo/t", "demo/t/in"]),
        ("**/c.j2", ["demo/t/in/c.j2"], ["demo/t/in"]),
        ("*.txt", ["demo/other.txt"], ["demo"]),
        ("*.*", ["demo/__init__.py", "demo/gen.py", "demo/other.txt"], ["demo"]),
    ],
)
def test_inputs_are_files_and_the_folders_that_a_glob_searches(
    tmp_path: Path, pattern: str, files: list[str], folders: list[str]
) -> None:
    inputs = producer(producer_project(tmp_path, SCRIPT, f'inputs = ["{pattern}"]', TEMPLATES)).inputs
    assert ([*inputs.files], [*inputs.folders]) == (files, folders)
    assert inputs.paths == sorted({"demo/gen.py", *files})


def write(name: str, text: str) -> Callable[[Path, Project], Project]:
    def edit(root: Path, project: Project) -> Project:
        (root / "demo" / name).write_text(text)
        return project

    return edit


def variable(value: str) -> Callable[[Path, Project], Project]:
    return lambda _root, project: replace(project, environ={**project.environ, "LEVEL": value})


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        (write("gen.py", f"{SCRIPT}#"), True),
        (write("parts.py", "#"), True),
        (write("t/a.j2", "AA"), True),
        (write("t/new.txt", ""), True),
        (write("t/.swap", ""), False),
        (write("__init__.py", "X = 1"), False),
        (write("more.py", "X = 1"), False),
        (variable("2"), True),
        (variable("1"), False),
    ],
)
def test_the_key_follows_declared_inputs(
    tmp_path: Path, edit: Callable[[Path, Project], Project], changes: object
) -> None:
    options = 'inputs = ["demo/t/*.j2"]\nenvironment = ["LEVEL", "UNSET"]'
    script = f"from . import parts\n{SCRIPT}"
    project = producer_project(tmp_path, script, options, {**TEMPLATES, "parts.py": ""}, LEVEL="1")
    before = producer(project).key()
    assert (producer(edit(tmp_path, project)).key() != before) is changes
    assert producer(project).inputs.environment["UNSET"] is None


def test_the_key_follows_the_table_and_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = producer_project(tmp_path)
    one = producer(project)
    keys = {one.key(), one._replace(rule=replace(one.rule, call="other")).key()}
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    keys.add(one.key())
    monkeypatch.setattr(producer_inputs, "_FORMAT", 2)
    assert len({*keys, one.key()}) == 4


def test_a_path_beside_the_script_is_suggested_with_its_folder(tmp_path: Path) -> None:
    table = f'{producer_table(path="demo/in/gen.py")}inputs = ["scale.txt"]'
    project = make_project(tmp_path, {"in/gen.py": SCRIPT, "in/scale.txt": "4"}, table)
    (said,) = refusal(ConfigError, find_producers, project).problems
    assert (said.code, (said.hint or "").partition("?")[0]) == (
        "pattern-matches-nothing",
        "did you mean 'demo/in/scale.txt'",
    )


def test_missing_files_are_named_with_their_lines(tmp_path: Path) -> None:
    project = producer_project(tmp_path, SCRIPT, 'inputs = ["demo/no.txt", "demo/t"]', {"t/a.j2": ""})
    other = producer_project(tmp_path, SCRIPT, producer_table(path="demo/gem.py"))
    error = refusal(ConfigError, find_producers, project)
    assert found(error) == [("pattern-matches-nothing", "pyproject.toml:13")] * 2
    assert [each.hint for each in error.problems] == [
        None,
        'the path is a folder: write "demo/t/**" for the files in it',
    ]
    (missing,) = refusal(ConfigError, find_producers, other).problems
    assert (missing.code, missing.hint) == ("producer-not-found", "did you mean 'demo/gen.py'?")
    other = producer_project(
        tmp_path / "moved",
        SCRIPT,
        producer_table('inputs = ["data.txt"]', path="gen.py"),
        {"in/data.txt": ""},
    )
    hints = [each.hint for each in refusal(ConfigError, find_producers, other).problems]
    assert hints == ["did you mean 'demo/gen.py'?", "did you mean 'demo/in/data.txt'?"]
    project = producer_project(tmp_path / "empty", SCRIPT)
    (tmp_path / "empty/demo/gen.py").unlink()
    (missing,) = refusal(ConfigError, find_producers, project).problems
    assert (missing.code, missing.hint) == ("producer-not-found", None)


def test_an_input_cannot_lead_out_of_the_project_or_be_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = producer_project(tmp_path / "project", SCRIPT, 'inputs = ["demo/in.txt"]')
    (tmp_path / "out.txt").write_text("")
    link = tmp_path / "project/demo/in.txt"
    link.symlink_to(tmp_path / "out.txt")
    assert found(refusal(SourceError, find_producers, project)) == [("link-leads-outside", "demo/in.txt")]
    link.unlink()
    link.write_text("")

    def refuse(_path: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(file_access, "open_plain", refuse)
    assert found(refusal(SourceError, find_producers, project)) == [("file-not-readable", "demo/in.txt")]


def test_a_script_at_the_top_of_the_project_can_read_it(tmp_path: Path) -> None:
    (tmp_path / "gen.py").parent.mkdir(exist_ok=True)
    (tmp_path / "gen.py").write_text(SCRIPT)
    project = producer_project(tmp_path)
    rule = replace(project.config.producer[0], path="gen.py", inputs=("pyproject.toml",))
    project = replace(project, config=replace(project.config, producer=(rule,)))
    assert producer(project).inputs.paths == ["gen.py", "pyproject.toml"]
