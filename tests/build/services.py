"""What GitHub and GitLab do with a pipeline, as far as the recipes go: jobs, caches, artifacts, commands."""

from __future__ import annotations

import abc
import fnmatch
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.helpers import REPOSITORY


class Ran(NamedTuple):
    """A job that is done: its name, and the report of the build in it."""

    name: str
    hits: int
    compiled: int
    workspace: Path


class Service(abc.ABC):
    """Runs the jobs of a pipeline one after the other, each in a new folder with a copy of the project."""

    def __init__(
        self, recipe: str, project: Path, folder: Path, environ: Mapping[str, str], key: str | None = None
    ) -> None:
        """Take a recipe as it is; with a *key*, with those lines that sign."""
        text = (REPOSITORY / recipe).read_text("utf-8")
        self.recipe: dict[Any, Any] = yaml.safe_load(text if key is None else with_signatures(text))
        self.caches: dict[str, bytes] = {}
        self._project = project
        self._folder = folder
        self._environ = environ
        self._key = key or ""  # which signs: a secret that only the default branch gets
        self._artifacts: dict[str, bytes] = {}
        self._numbers = itertools.count()

    @abc.abstractmethod
    def push(self) -> list[Ran]:
        """Run the pipeline as for a commit on the default branch."""

    @abc.abstractmethod
    def pull_request(self) -> list[Ran]:
        """Run it as for a request to take a change in."""

    def _new_workspace(self) -> Path:
        job = self._folder / f"job {next(self._numbers)}"
        (job / "home").mkdir(parents=True)
        return Path(shutil.copytree(self._project, job / "project"))

    @staticmethod
    def _home(workspace: Path) -> str:
        """Return the home folder of a job, which has a machine of its own."""
        return str(workspace.parent / "home")

    def _command(self, command: str, workspace: Path, environ: Mapping[str, str]) -> None:
        """Run one command as both services do, by a shell that stops at the first failure."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=workspace,
            env={
                **self._environ,
                "HOME": self._home(workspace),
                "HATCH_CUBIN_REPORT": str(workspace / "report.json"),
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def _ran(self, name: str, workspace: Path, environ: Mapping[str, str]) -> Ran:
        report = Path(environ.get("HATCH_CUBIN_REPORT", workspace / "report.json"))
        facts = json.loads(report.read_text("utf-8"))
        return Ran(name, facts["hits"], facts["compiled"], workspace)


class GitHub(Service):
    """GitHub Actions: caches are tar archives that never change, artifacts are zip archives."""

    def push(self) -> list[Ran]:
        return [*self._run("push")]

    def pull_request(self) -> list[Ran]:
        return [*self._run("pull_request")]

    def _run(self, event: str) -> Iterator[Ran]:
        self._artifacts = {}
        self._run_id = next(self._numbers)
        for name, job in self.recipe["jobs"].items():
            axes = job.get("strategy", {}).get("matrix", {})
            jobs = [*itertools.product(*([str(value) for value in values] for values in axes.values()))]
            for values in jobs:
                yield self._job(name, job, event, dict(zip(axes, values, strict=True)), len(jobs))

    def _job(self, name: str, job: Any, event: str, matrix: Mapping[str, str], total: int) -> Ran:
        workspace = self._new_workspace()
        known = {"github.workspace": str(workspace), "github.event_name": event}
        known |= {"github.run_id": str(self._run_id), "github.run_attempt": "1"}
        known["strategy.job-total"] = str(total)
        known["secrets.CUBIN_SIGNING_KEY"] = self._key
        known |= {f"matrix.{axis}": value for axis, value in matrix.items()}
        environ = _expanded({**(self.recipe.get("env") or {}), **job.get("env", {})}, known)
        for step in job["steps"]:
            if _holds(step.get("if", ""), known):
                outputs = self._step(step, workspace, environ, known)
                known |= {f"steps.{step.get('id')}.outputs.{key}": value for key, value in outputs.items()}
        return self._ran(" ".join([name, *matrix.values()]), workspace, environ)

    def _step(
        self, step: Any, workspace: Path, environ: Mapping[str, str], known: Mapping[str, str]
    ) -> dict[str, str]:
        if "run" in step:
            output = workspace / "output"
            output.touch()
            command = _expanded({"run": step["run"]}, known)["run"]
            own = _expanded(step.get("env", {}), known)
            self._command(command, workspace, {**environ, **own, "GITHUB_OUTPUT": str(output)})
            return dict(line.split("=", 1) for line in output.read_text("utf-8").splitlines())
        action, _, version = step["uses"].partition("@")
        assert version
        settings = _expanded(step.get("with", {}), known)
        act: Callable[[Path, dict[str, str]], dict[str, str] | None] | None = {
            "actions/cache/restore": self._restore,
            "actions/cache/save": self._save,
            "actions/upload-artifact": self._upload,
            "actions/download-artifact": self._download,
            "actions/checkout": None,
            "actions/setup-python": None,
        }[action]
        return (act and act(workspace, settings)) or {}

    def _restore(self, workspace: Path, settings: dict[str, str]) -> dict[str, str]:
        assert "," not in settings["key"]  # the action refuses it
        wanted = settings["key"]
        found = wanted if wanted in self.caches else None
        for key in reversed(self.caches):
            if found is None and key.startswith(settings["restore-keys"].strip()):
                found = key
        if found is not None:
            with tarfile.open(fileobj=io.BytesIO(self.caches[found])) as archive:
                archive.extractall(self._cached(workspace, settings), filter="data")
        return {"cache-hit": "true" if found == wanted else ""}

    def _save(self, workspace: Path, settings: dict[str, str]) -> None:
        assert settings["key"] not in self.caches
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            archive.add(self._cached(workspace, settings), ".")
        self.caches[settings["key"]] = data.getvalue()

    def _cached(self, workspace: Path, settings: Mapping[str, str]) -> Path:
        """Return the folder that a step restores or saves."""
        path = settings["path"].replace("~", self._home(workspace))
        return workspace / path

    def _upload(self, workspace: Path, settings: dict[str, str]) -> None:
        paths = settings["path"].split()
        base = workspace / paths[0] if len(paths) == 1 else workspace
        self._artifacts[settings["name"]] = _zipped(base, [workspace / path for path in paths])

    def _download(self, workspace: Path, settings: dict[str, str]) -> None:
        assert settings["merge-multiple"] == "true"
        for name, data in self._artifacts.items():
            if fnmatch.fnmatchcase(name, settings["pattern"]):
                _unzip(data, workspace / settings["path"])


class GitLab(Service):
    """GitLab CI: caches and artifacts are zip archives of folders inside the project."""

    def push(self) -> list[Ran]:
        protected = {"HATCH_CUBIN_SIGNING_KEY": self._key}
        return [*self._run({"CI_COMMIT_BRANCH": "main", "CI_PIPELINE_SOURCE": "push", **protected})]

    def pull_request(self) -> list[Ran]:
        return [*self._run({"CI_COMMIT_BRANCH": "", "CI_PIPELINE_SOURCE": "merge_request_event"})]

    def _run(self, source: Mapping[str, str]) -> Iterator[Ran]:
        self._artifacts = {}
        for stage in self.recipe.get("stages", [None]):
            for name, job in self.recipe.items():
                if isinstance(job, dict) and "script" in job and job.get("stage") == stage:
                    for variables in _of_each(job.get("parallel", {"matrix": [{}]})):
                        shown = [value for key, value in variables.items() if key != "CI_NODE_TOTAL"]
                        yield self._job(name, job, {**source, **variables}, shown)

    def _job(self, name: str, job: Any, environ: Mapping[str, str], matrix: list[str]) -> Ran:
        workspace = self._new_workspace()
        environ = {"CI_PROJECT_DIR": str(workspace), "CI_DEFAULT_BRANCH": "main", **environ}
        (rule, *_later) = (each for each in job["rules"] if _matches(each["if"], environ))
        for variables in (self.recipe["variables"], job.get("variables", {}), rule.get("variables", {})):
            environ |= {key: os.path.expandvars(_with(value, environ)) for key, value in variables.items()}
        for needed in job.get("needs", []):
            for artifact, data in self._artifacts.items():
                if artifact.startswith(f"{needed} "):
                    _unzip(data, workspace)
        cache = job.get("cache")
        key = cache and _with(cache["key"], environ)
        if key in self.caches:
            _unzip(self.caches[key], workspace)
        for command in job["script"]:
            self._command(command, workspace, environ)
        if cache and _with(cache["policy"], environ) == "pull-push":
            self.caches[key] = _zipped(workspace, [workspace / path for path in cache["paths"]])
        paths = [workspace / path for path in job["artifacts"]["paths"]]
        self._artifacts[" ".join([name, *matrix])] = _zipped(workspace, paths)
        return self._ran(" ".join([name, *matrix]), workspace, environ)


def with_signatures(text: str) -> str:
    """Return a recipe with those lines that are a comment until a project signs."""
    return re.sub(r"(?m)^( *)# ((?:  )?HATCH_CUBIN_\w+:|(?:env|variables):$)", r"\1\2", text)


def _of_each(parallel: Any) -> Iterator[dict[str, str]]:
    """Yield the variables of each job that one of GitLab's stands for: so many, or one a combination."""
    if isinstance(parallel, int):
        for number in range(1, parallel + 1):
            yield {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(parallel)}
        return
    for matrix in parallel["matrix"]:
        for values in itertools.product(*matrix.values()):
            yield dict(zip(matrix, values, strict=True))


def _expanded(values: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Return *values* with the expressions of GitHub's in them replaced."""
    written = {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()
    }
    return {
        key: re.sub(r"\$\{\{ (.+?) \}\}", lambda match: _value(match[1], known), value)
        for key, value in written.items()
    }


def _value(expression: str, known: Mapping[str, str]) -> str:
    """Return what an expression of GitHub's gives: a name, a comparison, or `comparison && name || ''`."""
    condition, _, chosen = expression.removesuffix(" || ''").rpartition(" && ")
    if condition:
        return known[chosen] if _holds(condition, known) else ""
    return str(_holds(chosen, known)).lower() if " == " in chosen else known[chosen]


def _holds(condition: str, known: Mapping[str, str]) -> bool:
    """Say whether a condition of GitHub's is true: comparisons, all of which must be."""
    for comparison in filter(None, condition.split(" && ")):
        name, operator, value = comparison.split()
        if (known[name] == value.strip("'")) != (operator == "=="):
            return False
    return True


def _matches(condition: str, environ: Mapping[str, str]) -> bool:
    """Say whether a condition of GitLab's is true: one comparison."""
    left, right = (_with(side, environ).strip('"') for side in condition.split(" == "))
    return left == right


def _with(text: str, environ: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda match: environ[match[1]], text)


def _zipped(base: Path, paths: list[Path]) -> bytes:
    """Return an archive as artifacts are: without empty folders and hidden files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in paths:
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                name = file.relative_to(base)
                if file.is_file() and not any(part.startswith(".") for part in name.parts):
                    archive.write(file, name)
    return data.getvalue()


def _unzip(data: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)  # noqa: S202 - its own
