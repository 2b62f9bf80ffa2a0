"""The recipes for releases and pull requests, run as far as a machine without GitHub can.

What installs tools is only read. Front ends are stood in for by hatchling, which builds the same wheel.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from hatch_cubin.config import toml_positions
from tests.docs_pages import blocks, page
from tests.helpers import REPOSITORY, SAXPY, run, write_tree

from .projects import compiled, demo
from .services import GitHub, Ran

pytestmark = pytest.mark.nvrtc

INSTALL = re.compile(r"python -m pip install (.*)")
BUILDS = {
    "python -m build --installer uv": "python -m hatchling build -t wheel -d dist",
    "python -m build --wheel --installer uv --outdir dist .": "python -m hatchling build -t wheel -d dist",
    "python -m build --wheel --installer uv --outdir ../released ../before": (
        "(cd ../before && python -m hatchling build -t wheel -d ../released)"
    ),
    "python -m cibuildwheel --output-dir wheelhouse": (
        'env "$CIBW_ENVIRONMENT_LINUX" python -m hatchling build -t wheel -d wheelhouse'
    ),
    'sudo chown -R "$(id -u)" /tmp/cubin-cache': 'chown -R "$(id -u)" "/tmp/cubin-cache"',
}
OTHER = SAXPY.replace("saxpy", "axpy")


class Workflow(GitHub):
    """A job of GitHub Actions that knows what is attested and published."""

    def __init__(self, recipe: str, project: Path, folder: Path) -> None:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        environ = {**os.environ, "PATH": path, "GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main"}
        super().__init__(recipe, project, folder, environ, "")
        self.recipe.setdefault("env", {})
        self.permissions = {name: job.get("permissions") for name, job in self.recipe["jobs"].items()}
        self.installed: list[Requirement] = []
        self.attested: dict[str, bytes] = {}
        self.published: dict[str, bytes] = {}

    def _command(self, command: str, workspace: Path, environ: Mapping[str, str]) -> None:
        lines = []
        for line in command.splitlines():
            if install := INSTALL.fullmatch(line):
                self.installed += map(Requirement, shlex.split(install[1]))
            else:
                lines.append(BUILDS.get(line, line))
                assert not lines[-1].startswith("python -m build")
        files = {"GITHUB_STEP_SUMMARY": str(workspace / "summary.md"), "GITHUB_WORKSPACE": str(workspace)}
        command = self._on_this_machine("\n".join(lines) or "true", workspace)
        there = {name: self._on_this_machine(value, workspace) for name, value in environ.items()}
        super()._command(command, workspace, {**there, **files})

    @staticmethod
    def _on_this_machine(text: str, workspace: Path) -> str:
        """Give the job a `/tmp/cubin-cache` of its own, which a container would see below `/host`."""
        return re.sub(r"(?:/host)?/tmp/cubin-cache\b", str(workspace.parent / "cubin-cache"), text)

    def _cached(self, workspace: Path, settings: Mapping[str, str]) -> Path:
        (workspace.parent / "cubin-cache").mkdir(exist_ok=True)
        return Path(self._on_this_machine(settings["path"], workspace))

    def _step(self, step: Any, workspace: Path, environ: Any, known: Any) -> dict[str, str]:
        if step.get("uses") == "actions/attest-build-provenance@v3":
            self.attested = _files(workspace, step["with"]["subject-path"])
        elif step.get("uses") == "pypa/gh-action-pypi-publish@release/v1":
            self.published = _files(workspace, "dist/*")
        else:
            return super()._step(step, workspace, environ, known)
        return {}

    def _download(self, workspace: Path, settings: dict[str, str]) -> None:
        super()._download(workspace, {"pattern": settings["name"], "merge-multiple": "true", **settings})

    def _ran(self, name: str, workspace: Path, environ: Mapping[str, str]) -> Ran:
        return Ran(name, 0, 0, workspace)


def _files(workspace: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(workspace.glob(pattern))}


def summary(ran: Ran) -> str:
    return (ran.workspace / "summary.md").read_text("utf-8")


def test_what_is_published_was_checked_and_attested(tmp_path: Path) -> None:
    workflow = Workflow("docs/ci/github-release.yml", demo(tmp_path / "project"), tmp_path)
    wheel, publish = workflow.push()
    assert (wheel.name, publish.name) == ("wheel", "publish")
    assert "## hatch-cubin check" in summary(wheel)
    assert [*workflow.published] == ["demo-1.0-py3-none-any.whl"]
    assert workflow.published == workflow.attested == _files(wheel.workspace, "dist/*")
    assert not (publish.workspace / "cubin-cache").exists()
    assert workflow.permissions == {
        "wheel": None,
        "publish": {"id-token": "write", "attestations": "write", "contents": "read"},
    }
    assert workflow.recipe["permissions"] == {"contents": "read"}
    assert {each.name for each in workflow.installed} == {"build", "hatch-cubin"}


def test_what_must_not_be_published_is_not(tmp_path: Path) -> None:
    project = demo(tmp_path / "project", 'archs = ["sm_90"]\ndefine = { ROOT = "/home/me/project" }\n')
    workflow = Workflow("docs/ci/github-release.yml", project, tmp_path)
    with pytest.raises(AssertionError, match=r"::error file=dist/demo-1.0.*contains the absolute path"):
        workflow.push()
    assert workflow.published == {}


def repository(tmp_path: Path) -> Path:
    """Return a checkout of a pull request, which has another kernel for another arch."""
    root = demo(tmp_path / "project", 'archs = ["sm_80", "sm_90"]\n')
    write_tree(root, {".gitignore": "_cubins/\ncubin-cache/\ndist/\n"})
    who = ("-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false")
    run("git", "init", "-q", cwd=root)
    run("git", "add", ".", cwd=root)
    run("git", *who, "commit", "-qm", "x", cwd=root)
    run("git", "update-ref", "refs/remotes/origin/main", "HEAD", cwd=root)
    write_tree(root, {"demo/axpy.cu": OTHER})
    return root


def test_a_pull_request_is_compared_with_what_it_goes_into(tmp_path: Path) -> None:
    workflow = Workflow("docs/ci/github-diff.yml", repository(tmp_path), tmp_path)
    (job,) = workflow.pull_request()
    assert "### kernels gained: 1\n" in summary(job)
    assert "| `axpy` | sm\\_80, sm\\_90 (all archs of this kernel) |" in summary(job)


def test_wheels_of_cibuildwheel_are_checked(tmp_path: Path) -> None:
    workflow = Workflow("docs/ci/github-cibuildwheel.yml", demo(tmp_path / "project"), tmp_path)
    (first,) = workflow.push()
    (job,) = workflow.pull_request()
    assert [compiled(each.workspace / "report.json") for each in (first, job)] == [1, 0]
    assert len(workflow.caches) == 1
    (wheel,) = (job.workspace / "wheelhouse").iterdir()
    assert zipfile.is_zipfile(wheel)
    assert f"### wheelhouse/{wheel.name}" in summary(job).replace("\\", "")


def test_the_recipe_and_the_guide_set_cibuildwheel_up_alike() -> None:
    (text,) = (text for text in blocks(page("guides/tools-around-wheels"), "toml") if "cibuildwheel" in text)
    table: Any = toml_positions.loads(text)["tool"]["cibuildwheel"]
    ((name, value),) = table.pop("linux")["environment"].items()
    expected = {f"CIBW_{key.replace('-', '_').upper()}": setting for key, setting in table.items()}
    workflow = Workflow("docs/ci/github-cibuildwheel.yml", REPOSITORY, REPOSITORY)
    assert workflow.recipe["jobs"]["wheels"]["env"] == {
        **expected,
        "CIBW_ENVIRONMENT_LINUX": f"{name}={value}",
    }
