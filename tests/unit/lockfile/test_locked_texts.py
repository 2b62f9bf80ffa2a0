"""Locks of projects whose sources a script produces."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.common import user_folders
from hatch_cubin.errors import ConfigError, LockError, ToolchainError
from hatch_cubin.lockfile import lock_format, locked_build, locked_texts, required_wheels
from hatch_cubin.producing import running
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit import installed_wheels
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX, SAXPY, found, refusal
from tests.producers import KERNEL, producer_project

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("unmeasured")]

TEXTS = {
    "one.cu": {"text": '#include "own.cuh"\n' + KERNEL.format(name="one", value="own"), "define": {"own": 3}},
    "mm[B=1].cu": KERNEL.format(name="mm", value=1),
    "mm[B=1].sm_90a.cu": KERNEL.format(name="mm", value=90),
    "scale.cu": {"text": "template <class T> __global__ void scale(T *x) {}", "instantiate": ["scale<int>"]},
    "copy.ptx": f"// {'long ' * 20}\n{COPY_PTX}",
}
SCRIPT = f"""\
import os
from . import parts

def sources():
    open("demo/in/t.txt").close()
    return {TEXTS!r}
"""
FILES = {
    "parts.py": "",
    "in/t.txt": "",
    "own.cuh": "#pragma once\n",
    "plain.cu": SAXPY,
}
OPTIONS = """\
produces = ["cu", "ptx"]
inputs = ["demo/in/*", "demo/own.cuh"]
environment = ["LEVEL"]
requires = ["pytest"]
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are kept in a folder of this test's own, without the headers that are slow to unpack."""
    folder, users = tmp_path / "own", user_folders.own_folder()
    folder.mkdir()
    (folder / "headers").symlink_to(users / "headers")
    monkeypatch.setattr(user_folders, "own_folder", lambda: folder)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    cache = {"HATCH_CUBIN_CACHE_DIR": str(tmp_path / "cache")}
    return producer_project(tmp_path / "project", SCRIPT, OPTIONS, FILES, LEVEL="1", **cache)


def lock(project: Project) -> lock_format.LockFile:
    made = pipeline.make_lock(project)
    (project.root / lock_format.NAME).write_text(lock_format.encode(made), "utf-8")
    return made


def without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no producer run, and no earlier text be found."""
    user_folders.remove_recalled_facts()
    monkeypatch.setattr(running, "run", None)


def test_a_lock_has_the_digests_of_texts_and_of_everything_they_depend_on(project: Project) -> None:
    made = lock(project)
    (entry,) = made.producers.values()
    assert [*made.producers] == ["demo/gen.py:sources"]
    assert [*entry["modules"]] == ["demo/gen.py", "demo/parts.py"]
    assert [*entry["files"]] == ["demo/in/t.txt", "demo/own.cuh"]
    assert ([*entry["folders"]], [*entry["environment"]]) == (["demo/in"], ["LEVEL"])
    assert entry["texts"].keys() == TEXTS.keys()
    assert entry["texts"]["copy.ptx"]["ptx"] == ".version 7.0\n.target sm_80\n"
    assert entry["texts"]["scale.cu"]["settings"] == {"instantiate": ["scale<int>"]}
    text = lock_format.encode(made)
    assert lock_format.decode(text) == made
    assert "__global__" not in text
    assert "long long" not in text


def test_a_locked_build_runs_nothing_and_is_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pipeline.build(project)
    lock(project)
    without_runs(monkeypatch)
    monkeypatch.setattr(Toolkit, "load", None)
    strict = replace(project, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"})
    locked, sources = pipeline.build_held(strict, None)
    assert {
        name: b"".join(data) if isinstance(data, list) else data for name, data in locked.items()
    }.keys() == (plain.keys())
    assert pipeline.build(strict) == plain
    assert sources == ["demo/own.cuh", "demo/plain.cu"]
    assert "demo/mm[B=1].sm_90a.cu" in {each["name"] for each in json.loads(plain[sbom.NAME])["components"]}


def test_a_locked_build_requires_nothing_of_producers(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = replace(project, config=replace(project.config, toolkit="13"))
    lock(project)
    without_runs(monkeypatch)
    for name, value in project.environ.items():
        monkeypatch.setenv(name, value)

    def required() -> list[str]:
        return required_wheels.required_wheels(project.config, project.root, lambda: project)

    assert required() == []
    (project.root / "demo/gen.py").write_text(f"{SCRIPT}#")
    assert "pytest" in required()
    # A build that asked before the edit has none of them.
    monkeypatch.setattr(installed_wheels, "version_of", lambda _name: None)
    (problem,) = refusal(ToolchainError, pipeline.build, project).problems
    assert problem.code == "requirement-not-installed"
    assert "demo/gen.py is changed" in problem.details[0]
    assert "build again" in str(problem.hint)
    assert str(problem.hint).endswith(" pytest")


def write(name: str, text: str) -> Callable[[Project], Project]:
    def edit(project: Project) -> Project:
        (project.root / "demo" / name).write_text(text)
        return project

    return edit


def with_rule(**values: Any) -> Callable[[Project], Project]:
    def edit(project: Project) -> Project:
        (rule,) = project.config.producer
        return replace(project, config=replace(project.config, producer=(replace(rule, **values),)))

    return edit


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (write("gen.py", f"{SCRIPT}#"), "demo/gen.py is changed, and a producer imports it"),
        (write("parts.py", "#"), "demo/parts.py is changed, and a producer imports it"),
        (write("in/t.txt", "#"), "demo/in/t.txt is changed, and a producer reads it"),
        (write("in/new.txt", ""), "demo/in/new.txt is changed, and a producer reads it"),
        (
            lambda project: replace(project, environ={**project.environ, "LEVEL": "2"}),
            "the environment variable LEVEL is changed, and a producer reads it",
        ),
        (with_rule(environment=()), "the environment variable LEVEL is changed, and a producer reads it"),
        (with_rule(call="more"), "the producer demo/gen.py:more is new"),
    ],
)
def test_a_change_of_what_a_producer_uses_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Project], Project], change: str
) -> None:
    lock(project)
    without_runs(monkeypatch)
    changed = edit(project)
    verdict = locked_build.evaluate(changed, read_sources(changed))
    assert verdict is not None
    assert change in verdict.plan.changes
    strict = replace(changed, environ={**changed.environ, "HATCH_CUBIN_LOCKED": "1"})
    assert found(refusal(LockError, pipeline.build, strict)) == [("lock-stale", lock_format.NAME)]


def test_names_in_a_listed_folder_and_lost_producers_are_changes(project: Project) -> None:
    made = lock(project)
    (project.root / "demo/in/sub").mkdir()
    assert locked_texts.with_locked_texts(made.producers, project, read_sources(project))[1] == [
        "files in the folder demo/in are added or removed, and a producer may read the folder's file names"
    ]
    assert [*locked_texts.producer_changes(made.producers, [])] == [
        "the producer demo/gen.py:sources is gone"
    ]


def test_an_unlocked_module_is_compared_as_usual(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(project)
    without_runs(monkeypatch)
    (project.root / "demo/plain.cu").write_text(f"{SAXPY}\n")
    verdict = locked_build.evaluate(project, read_sources(project))
    assert verdict is not None
    assert verdict.plan.changes == ("demo/plain.cu is changed",)


def test_a_check_runs_producers_or_says_that_it_could_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lock(project)
    assert pipeline.check_lock(project, made) == pipeline.LockCheck([])
    other = {**made.producers["demo/gen.py:sources"]["texts"]["one.cu"], "sha256": "0" * 64}
    texts = {**made.producers["demo/gen.py:sources"]["texts"], "one.cu": other}
    forged = {"demo/gen.py:sources": {**made.producers["demo/gen.py:sources"], "texts": texts}}
    changes = pipeline.check_lock(project, made._replace(producers=forged)).changes
    assert changes == ("demo/one.cu is changed",)
    without_runs(monkeypatch)
    without = with_rule(requires=("no-such-thing==1",))(project)
    unchecked = (
        "the texts of the producer demo/gen.py:sources were not compared with the lock, "
        "because the producer needs packages that are not installed: "
    )
    assert pipeline.check_lock(without, made) == pipeline.LockCheck((), [f"{unchecked}no-such-thing 1"])


def test_another_text_in_an_unchanged_project_is_named(project: Project, tmp_path: Path) -> None:
    random = SCRIPT.replace("open(", "TEXTS = os.path.exists('../flag'); open(").replace(
        "return {", "return {} if TEXTS else {"
    )
    random = random.replace("{} if TEXTS else ", "", 1)
    (project.root / "demo/gen.py").write_text(
        random.replace("    return ", "    found = ")
        + "    found['mm[B=1].cu'] += '//' * TEXTS\n    return found\n"
    )
    made = lock(project)
    (tmp_path / "flag").write_text("")
    user_folders.remove_recalled_facts()
    (change,) = pipeline.check_lock(project, made).changes
    assert change.startswith("demo/mm[B=1].cu: demo/gen.py has returned a different text for the same inputs")
    assert "correct the function" in change  # a new lock does not help
    shutil.rmtree(tmp_path / "cache")
    environ = {**project.environ, "HATCH_CUBIN_LOCKED": "1"}
    error = refusal(LockError, pipeline.build, replace(project, environ=environ))
    assert error.problems[0].details == (change,)
    assert error.problems[0].hint == lock_format.HINT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text.pop("ptx"), "ptx"),
        (lambda text: text.update(settings={"nothing": 1}), "settings"),
    ],
)
def test_a_lock_with_a_valid_digest_but_wrong_texts_is_refused(
    project: Project, change: Callable[[dict[str, Any]], object], code: str
) -> None:
    made = lock(project)
    entry = json.loads(json.dumps(made.producers["demo/gen.py:sources"]))
    change(entry["texts"]["copy.ptx"])
    producers = {"demo/gen.py:sources": entry}
    error = refusal(
        ConfigError if code == "ptx" else Exception,
        locked_texts.with_locked_texts,
        producers,
        project,
        read_sources(project),
    )
    assert {"ptx": "lock-damaged", "settings": "unknown-key"}[code] == error.problems[0].code  # type: ignore[attr-defined]


def test_macros_that_only_an_unknown_text_may_use_are_not_reported(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    config = replace(project.config, define=(("own", "3"),))
    project = replace(project, config=config, inform=said.append)
    lock(project)
    without_runs(monkeypatch)
    said.clear()
    pipeline.build(project)
    assert not [each for each in said if "unused-macro" in each]


def test_the_command_for_a_lock_installs_what_producers_import(tmp_path: Path) -> None:
    project = producer_project(tmp_path, options='requires = ["pytest>=8"]\n')
    lock(project)
    command = locked_build.install_command(project)
    assert command is not None
    assert command.endswith(" 'pytest>=8'")
