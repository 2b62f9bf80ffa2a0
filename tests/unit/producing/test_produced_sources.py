"""Producers run once, and only if their texts are not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.common import user_folders
from hatch_cubin.errors import SourceError, ToolchainError
from hatch_cubin.producing import running
from hatch_cubin.producing.produced_sources import complete
from hatch_cubin.project.project import Project, ProjectSources, read_sources
from tests.helpers import found, refusal
from tests.producers import SCRIPT, producer_project, producer_table, returning

pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path / "own")


def paths(project: Project) -> list[str]:
    return [source.path for source in complete(project, read_sources(project))]


def test_produced_sources_are_beside_the_script(tmp_path: Path) -> None:
    project = producer_project(tmp_path / "project", files={"two.cu": "x"})
    sources = read_sources(project)
    assert ([each.path for each in sources], sources.is_complete) == (["demo/two.cu"], False)
    every = complete(project, sources)
    assert ([each.path for each in every], every.is_complete) == (["demo/one.cu", "demo/two.cu"], True)
    assert complete(project, every) is every


def test_a_producer_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    project = replace(producer_project(tmp_path / "project"), inform=said.append)
    first = complete(project, read_sources(project))
    assert said == ["running demo/gen.py"]
    monkeypatch.setattr(running, "subprocess", None)
    assert complete(project, read_sources(project)) == first
    with pytest.raises(AttributeError):
        complete(replace(project, recalls_texts=False), read_sources(project))


def test_a_build_that_does_not_recall_texts_does_not_keep_them(tmp_path: Path) -> None:
    project = producer_project(tmp_path / "project")
    paths(replace(project, recalls_texts=False))
    assert not (tmp_path / "own").exists()


def test_a_name_can_be_taken_only_once(tmp_path: Path) -> None:
    two = producer_table('call = "more"')
    script = f"{SCRIPT}more = sources\n"
    error = refusal(SourceError, paths, producer_project(tmp_path / "project", script, two))
    assert found(error) == [("produced-name-taken", "demo/one.cu")]
    assert "demo/gen.py:sources" in str(error)
    assert "demo/gen.py:more" in str(error)
    same = refusal(SourceError, paths, producer_project(tmp_path / "project", SCRIPT, producer_table()))
    assert (found(same), "delete one" in str(same)) == (found(error), True)
    files = {"one.cu": "x"}
    error = refusal(SourceError, paths, producer_project(tmp_path / "other", files=files))
    assert found(error) == [("produced-name-taken", "demo/one.cu")]
    assert "delete the file if demo/gen.py:sources wrote it" in str(error)


MODULE = '[[tool.hatch.build.hooks.cubin.module]]\nname = "m"\nmode = "lto"\nsources = ["demo/*.cu", "{}"]\n'


def test_tables_of_linked_modules_can_name_produced_sources(tmp_path: Path) -> None:
    project = producer_project(
        tmp_path / "project", returning("{'a.cu': 'x', 'b.cu': 'x'}"), MODULE.format("demo/a.cu")
    )
    sources = read_sources(project)
    assert sources.by_module_table == ((),)
    assert complete(project, sources).by_module_table == (("demo/a.cu", "demo/b.cu"),)
    project = producer_project(tmp_path / "project", SCRIPT, MODULE.format("demo/no.cu"))
    assert found(refusal(SourceError, paths, project)) == [("pattern-matches-nothing", "pyproject.toml:16")]


def test_all_sources_is_a_project_of_sources() -> None:
    assert ProjectSources((), ()).is_complete


def test_a_producer_does_not_run_without_its_requirements(tmp_path: Path) -> None:
    project = producer_project(tmp_path / "project", options='requires = ["no-such-wheel-here>=2"]\n')
    error = refusal(ToolchainError, paths, project)
    assert found(error) == [("requirement-not-installed", "pyproject.toml:13")]
    assert error.problems[0].hint == "pip install 'no-such-wheel-here>=2'"
