"""Producers run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.errors import Location, SourceError
from hatch_cubin.producing import running
from hatch_cubin.producing.producer_inputs import find_producers
from hatch_cubin.project.project import Project
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import found, refusal, write_tree
from tests.producers import producer_project, returning

pytestmark = pytest.mark.usefixtures("unmeasured")
TABLE = Location("pyproject.toml", 11)


def run(project: Project) -> dict[str, Any]:
    (producer,) = find_producers(project)
    return dict(running.run(project, producer, TABLE))


def test_the_process_has_a_clean_environment(tmp_path: Path) -> None:
    script = """\
import os, sys, tempfile
from . import parts
def sources():
    home = os.path.expanduser("~")
    assert os.listdir(home) == [] and tempfile.gettempdir().startswith(os.path.dirname(home))
    return {
        "a.cu": "\\n".join([
            os.environ["LEVEL"], str("OTHER" in dict(os.environ)), __file__, __name__, parts.TEXT,
            str(sys.dont_write_bytecode), str(sys.flags.no_user_site), str(hash("a")),
            os.path.relpath(os.getcwd(), os.path.dirname(os.path.abspath(__file__))),
        ])
    }
"""
    files = {"parts.py": "TEXT = 'parts'", "__init__.py": "import demo._cubins"}
    texts = [
        run(producer_project(tmp_path / name, script, 'environment = ["LEVEL"]', files, LEVEL="2", OTHER="x"))
        for name in ("one", "two")
    ]
    lines = texts[0]["a.cu"].splitlines()
    assert lines[:5] == ["2", "False", "demo/gen.py", "demo.gen", "parts"]
    assert lines[5:7] == ["True", "1"]
    assert lines[8] == ".."
    assert texts[0] == texts[1]


def test_undeclared_files_of_the_project_are_an_error_even_if_the_script_hides_it(tmp_path: Path) -> None:
    script = """\
import os, pathlib
def sources():
    try:
        pathlib.Path("demo/extra.txt").read_text()
        os.listdir("demo")
    except Exception:
        pass
    open("demo/known.txt").close()
    return {"a.cu": "x"}
"""
    files = {"extra.txt": "", "known.txt": ""}
    error = refusal(
        SourceError, run, producer_project(tmp_path, script, 'inputs = ["demo/known.txt"]', files)
    )
    assert found(error) == [("undeclared-input", str(TABLE))]
    pasted = 'inputs = ["demo/known.txt", "demo/*"]'
    assert error.problems[0].hint == f"write in the producer table: {pasted}"
    assert run(producer_project(tmp_path, script, pasted, files)) == {"a.cu": "x"}


def test_a_module_that_is_imported_by_a_computed_name_is_an_undeclared_file(tmp_path: Path) -> None:
    script = (
        "import importlib\ndef sources(): return {'a.cu': importlib.import_module('demo.' + 'late').TEXT}\n"
    )
    files = {"late.py": "TEXT = 'x'"}
    (one,) = refusal(SourceError, run, producer_project(tmp_path, script, "", files)).problems
    assert one.hint == 'write in the producer table: inputs = ["demo/late.py"]'
    assert run(producer_project(tmp_path, script, 'inputs = ["demo/late.py"]', files)) == {"a.cu": "x"}


def test_an_exception_names_the_line_of_the_script(tmp_path: Path) -> None:
    script = "import json\ndef sources():\n    print('printed')\n    return {'a.cu': json.loads('{')}\n"
    (one,) = refusal(SourceError, run, producer_project(tmp_path, script)).problems
    assert (one.code, one.where) == ("producer-failed", Location("demo/gen.py", 4))
    assert one.details == ("demo/gen.py:4: return {'a.cu': json.loads('{')}", "printed")


def test_a_process_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    script = """\
import subprocess, sys
def sources():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("child", child.pid, flush=True)
    child.wait()
"""
    error = refusal(SourceError, run, producer_project(tmp_path, script, "seconds = 2"))
    assert found(error) == [("producer-timed-out", str(TABLE))]
    place, *_of_python, line = error.problems[0].details
    assert place == "demo/gen.py:5: in sources"
    pid = int(line.split()[1])
    deadline = time.monotonic() + 20
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_a_thread_that_the_function_leaves_running_does_not_matter(tmp_path: Path) -> None:
    script = """\
import threading, time
def sources():
    threading.Thread(target=time.sleep, args=(600,)).start()
    return {"a.cu": "x"}
"""
    assert run(producer_project(tmp_path, script)) == {"a.cu": "x"}


def test_the_output_is_shown_even_if_nothing_is_wrong(tmp_path: Path) -> None:
    said: list[str] = []
    script = "def sources():\n    print('printed')\n    return {'a.cu': 'x'}\n"
    assert run(replace(producer_project(tmp_path, script), inform=said.append)) == {"a.cu": "x"}
    assert said == ["demo/gen.py: has printed:\n  printed"]


def test_a_process_that_ends_without_an_answer_is_reported(tmp_path: Path) -> None:
    script = "import os\ndef sources():\n    print('before')\n    os._exit(7)\n"
    (one,) = refusal(SourceError, run, producer_project(tmp_path, script)).problems
    assert (one.code, one.details) == ("producer-crashed", ("before",))


def test_the_project_own_folders_are_not_searched_for_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = ProjectTree(tmp_path)
    write_tree(tmp_path, {"src/x": "", ".venv/lib/site-packages/x": "", "env/lib/x": ""})
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    paths = ["", ".", str(tmp_path), str(tmp_path / "src"), str(tmp_path / ".venv/lib/site-packages")]
    monkeypatch.chdir(tmp_path)
    importable = [
        path for path in (*paths, str(tmp_path / "env/lib"), "/usr/lib") if running._is_importable(tree, path)
    ]
    assert importable == [str(tmp_path / ".venv/lib/site-packages"), str(tmp_path / "env/lib"), "/usr/lib"]


def test_an_environment_inside_the_project_is_exempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = producer_project(tmp_path, returning("{'a.cu': open('.venv/x').read()}"))
    write_tree(tmp_path, {".venv/x": "x"})
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path / ".venv"))
    assert run(project) == {"a.cu": "x"}


def test_a_source_root_is_part_of_the_project(tmp_path: Path) -> None:
    write_tree(tmp_path, {"csrc/t.txt": "x"})
    project = producer_project(tmp_path / "project", returning("{'a.cu': open('../csrc/t.txt').read()}"))
    project = replace(project, config=replace(project.config, source_roots=(("csrc", "../csrc"),)))
    (one,) = refusal(SourceError, run, project).problems
    assert one.hint == 'write in the producer table: inputs = ["csrc/t.txt"]'


def test_where_there_are_no_groups_of_processes_the_process_itself_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with monkeypatch.context() as patched:
        patched.setattr(os, "name", "nt")
        running._end(process)
    process.communicate()
    assert process.returncode
