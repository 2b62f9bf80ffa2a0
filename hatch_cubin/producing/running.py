"""Call a producer (a Python function) in a new process.

The new process has a time limit, an empty home folder, the project as its working folder, and no environment
variables except declared ones, so that the producer returns the same texts on every machine. The separate
process does not protect from a hostile project, because a build runs the project's code anyway.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..common import temporary_folders
from ..errors import Location, Problem, SourceError
from ..project.project import Project
from ..project.source_roots import ProjectTree
from . import producer_script
from .failures import ProducerResult, problems_of
from .producer_inputs import Produced, Producer

_FOR_STACKS = 1  # after its time limit, the process has this many seconds to write the stacks of its threads
_SITE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_OF_SYSTEM = ("SYSTEMROOT",)  # Windows cannot start a program without this variable


def run(project: Project, producer: Producer, table: Location) -> Produced:
    """Return what a producer returned; a SourceError gives the reasons why the result cannot be used."""
    with temporary_folders.make() as folder:
        files = {name: str(folder / name) for name in ("answer", "stacks")}
        request = {**_request(project, producer), **files}
        (folder / "request.json").write_text(json.dumps(request), "utf-8")
        status = _wait(project, producer, folder)
        output = (folder / "output").read_text("utf-8", "replace")
        stacks = (folder / "stacks").read_text("utf-8") if status is None else ""
        result = ProducerResult(status, output, _content(folder / "answer"), stacks)
    if problems := [*problems_of(producer, result, table)]:
        raise SourceError(*problems)
    if result.last_lines:
        printed = Problem("has printed:", Location(producer.rule.path), details=result.last_lines)
        project.inform(str(printed))
    return [(name, value) for name, value in result.content["sources"]]


def _content(path: Path) -> Mapping[str, Any]:
    """Return the answer in a file; an empty answer if the process ended without writing the file."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _request(project: Project, producer: Producer) -> dict[str, Any]:
    tree, inputs = project.tree, producer.inputs
    folders = [(str(each.folder), each.name) for each in tree.roots]
    environment = (sys.prefix, sys.exec_prefix, sys.base_prefix, *filter(_is_site_folder, sys.path))
    exempt = [path for path in map(os.path.abspath, environment) if _is_inside(tree, path)]
    return {
        "module": producer.module,
        "call": producer.rule.call,
        "script": producer.rule.path,
        "packages": producer.packages,
        "folders": [*folders, (os.path.abspath(tree.root), "")],
        "exempt": [*exempt, *map(os.path.realpath, exempt)],
        "path": [path for path in sys.path if _is_importable(tree, path)],
        "files": inputs.paths,
        "listed": [*inputs.folders],
        "seconds": producer.rule.seconds,
    }


def _is_site_folder(path: str) -> bool:
    return os.path.basename(path) in _SITE_FOLDERS


def _is_importable(tree: ProjectTree, path: str) -> bool:
    """Return whether the process may import from a folder of `sys.path`.

    Imports from the project's folders are not allowed, except from an environment inside the project.
    """
    if path == "" or os.path.realpath(path) == os.path.realpath(tree.root):
        return False
    is_of_environment = _is_inside(tree, sys.prefix) and Path(path).is_relative_to(sys.prefix)
    return not _is_inside(tree, path) or _is_site_folder(path) or is_of_environment


def _is_inside(tree: ProjectTree, path: str) -> bool:
    """Return whether a path is below a folder of the project."""
    real = Path(os.path.realpath(path))
    return any(Path(os.path.realpath(folder)) in real.parents for folder in tree.folders)


def _wait(project: Project, producer: Producer, folder: Path) -> int | None:
    """Run the process in its temporary *folder*, and return its exit status; None after a time-out."""
    home, temporary = folder / "home", folder / "tmp"
    home.mkdir()
    temporary.mkdir()
    scratch = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    homes = {"HOME": str(home), "USERPROFILE": str(home)}
    named = {
        name: project.environ[name]
        for name in (*_OF_SYSTEM, *producer.rule.environment)
        if name in project.environ
    }
    environ = {**homes, **scratch, "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", **named}
    command = [sys.executable, "-B", "-s", "-u", producer_script.__file__, str(folder / "request.json")]
    with (
        open(folder / "output", "wb") as output,
        subprocess.Popen(  # noqa: S603 - the project's own code, as in every build
            command,
            cwd=project.root,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait(producer.rule.seconds + _FOR_STACKS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and every process that it has started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
