"""The part of a producer that runs in its own process, called in this one."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import json
import linecache
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.producing import producer_script
from hatch_cubin.producing.producer_script import ProjectFinder, ReadRecorder, plain
from tests.helpers import write_tree

FILES = {
    "src/demo/__init__.py": "raise RuntimeError",
    "src/demo/kernels/__init__.py": "raise RuntimeError",
    "src/demo/kernels/gen.py": "from .parts import TEXT\nFILE = __file__\n"
    "def sources():\n    return {'a.cu': TEXT}\n",
    "src/demo/kernels/parts.py": "TEXT = 'text'\n",
    "src/demo/kernels/t.j2": "template",
    "src/demo/plain/deep.py": "",
    "src/space/inner.py": "",
}


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectFinder]:
    write_tree(tmp_path, FILES)
    packages = [("org.space", "src/space"), ("demo", "src/demo")]
    one = ProjectFinder(packages, lambda path: str(tmp_path / path))
    monkeypatch.setattr(sys, "meta_path", [one, *sys.meta_path])
    before = {*sys.modules}
    yield one
    for name in {*sys.modules} - before:
        if name.split(".")[0] in {"demo", "org"}:
            del sys.modules[name]


@pytest.mark.usefixtures("finder")
def test_modules_have_names_relative_to_the_project_and_packages_do_not_run() -> None:
    gen = importlib.import_module("demo.kernels.gen")
    assert (gen.__name__, gen.FILE, gen.sources()) == (
        "demo.kernels.gen",
        "src/demo/kernels/gen.py",
        {"a.cu": "text"},
    )
    assert gen.sources.__code__.co_filename == "src/demo/kernels/gen.py"
    assert importlib.import_module("demo").__file__ == "src/demo/__init__.py"


@pytest.mark.usefixtures("finder")
def test_sources_and_resources_of_modules_can_be_read() -> None:
    gen = importlib.import_module("demo.kernels.gen")
    assert inspect.getsource(gen).startswith("from .parts")
    assert importlib.import_module("demo").__loader__.get_source("demo") == ""  # type: ignore[union-attr]
    assert (importlib.resources.files("demo.kernels") / "t.j2").read_text() == "template"
    for name in ("demo.kernels", "demo.kernels.gen"):
        assert pkgutil.get_data(name, "t.j2") == b"template"
    assert gen.__loader__.get_resource_reader("").path == (  # type: ignore[union-attr]
        Path(importlib.import_module("demo.kernels").__path__[0])
    )


@pytest.mark.usefixtures("finder")
def test_a_name_of_the_project_is_not_searched_for_elsewhere() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("demo.missing")
    assert caught.value.name == "demo.missing"


@pytest.mark.usefixtures("finder")
def test_a_package_inside_a_namespace_is_found() -> None:
    assert importlib.import_module("org.space.inner").__file__ == "src/space/inner.py"


@pytest.mark.usefixtures("finder")
def test_a_folder_of_a_package_needs_no_init() -> None:
    assert importlib.import_module("demo.plain.deep").__file__ == "src/demo/plain/deep.py"


@pytest.mark.usefixtures("finder")
def test_other_modules_are_found_as_usual() -> None:
    assert importlib.import_module("wave").__file__ != "wave.py"
    assert pkgutil.resolve_name("json").__file__ == json.__file__


class Open:
    """Events of files and folders below a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recorder = ReadRecorder(
            [(str(root / "csrc"), "roots"), (str(root), "")], [str(root / ".venv")], ["a.txt"], ["listed"]
        )

    def seen(self, event: str, *arguments: Any) -> tuple[list[str], list[str]]:
        self.recorder(event, arguments)
        return [*self.recorder.read], [*self.recorder.listed()]


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    files = ["a.txt", "b.txt", "listed/x", "other/x", ".venv/x", ".git/x", "in/__pycache__/x", "csrc/x"]
    write_tree(tmp_path, dict.fromkeys(files, ""))
    monkeypatch.chdir(tmp_path)
    return Open(tmp_path)


@pytest.mark.parametrize(
    ("event", "arguments", "read", "listed"),
    [
        ("open", ("b.txt", "r", 0), ["b.txt"], []),
        ("open", (b"b.txt", None, os.O_RDWR), ["b.txt"], []),
        ("open", ("csrc/x", "r", 0), ["roots/x"], []),
        ("open", ("other", None, 0), [], ["other"]),
        ("sqlite3.connect", ("b.txt",), ["b.txt"], []),
        ("sqlite3.connect", (":memory:",), [], []),
        ("os.listdir", ("other",), [], ["other"]),
        ("os.scandir", (None,), [], ["."]),
        ("os.listdir", ("listed",), [], []),
        ("os.scandir", ("other/_cubins",), [], []),
        ("ctypes.dlopen", (None,), [], []),
        ("open", ("a.txt", "r", 0), [], []),
        ("open", ("absent.txt", "r", 0), [], []),
        ("open", ("b.txt", "w", os.O_WRONLY | os.O_TRUNC), [], []),
        ("open", (7, "r", 0), [], []),
        ("open", (".venv/x", "r", 0), [], []),
        ("open", (".git/x", "r", 0), [], []),
        ("open", ("in/__pycache__/x", "r", 0), [], []),
        ("open", ("/etc/hostname", "r", 0), [], []),
        ("compile", ("b.txt", "x"), [], []),
        ("os.listdir", (), [], []),
    ],
)
def test_undeclared_files_and_folders_are_noted(
    recorder: Open, event: str, arguments: tuple[Any, ...], read: list[str], listed: list[str]
) -> None:
    assert recorder.seen(event, *arguments) == (read, listed)


def test_a_link_is_noted_by_both_of_its_names(recorder: Open) -> None:
    (recorder.root / "link").symlink_to("b.txt")
    assert recorder.seen("open", "link", "r", 0)[0] == ["link", "b.txt"]


def test_nothing_is_noted_after_the_end(recorder: Open) -> None:
    recorder.recorder.is_on = False
    assert recorder.seen("open", "b.txt", "r", 0) == ([], [])


class Index:
    def __index__(self) -> int:
        return 5


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("a", "a"),
        (None, None),
        (True, True),
        (1.5, 1.5),
        (Index(), 5),
        (("a", [1]), ["a", [1]]),
        (range(3), [0, 1, 2]),
        ({"a": {"b": 1}}, {"a": {"b": 1}}),
        (b"a\xff", {"": "bytes", "data": "a\xff"}),
        ({1: "a"}, {"": "dict"}),
    ],
)
def test_values_are_sent_as_json(value: object, sent: object) -> None:
    assert plain(value) == sent


def call(monkeypatch: pytest.MonkeyPatch, text: str, call: str = "sources") -> dict[str, Any]:
    """Return the answer of a module with this text."""
    module = SimpleNamespace(__name__="demo.gen")

    def load(_name: str) -> object:
        exec(compile(text, "demo/gen.py", "exec"), vars(module))  # noqa: S102 - the text of this test
        return module

    monkeypatch.setattr(importlib, "import_module", load)
    return producer_script.answer_of({"module": "demo.gen", "call": call}, ReadRecorder([], [], [], []))


def test_what_a_function_returns_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, "def sources(): return {'a.cu': 'text', 1: b''}") == {
        "sources": [["a.cu", "text"], [{"": "int"}, {"": "bytes", "data": ""}]]
    }
    values = "{'a.cu': ('text',), 'b.cu': {'text': ''}}"
    assert call(monkeypatch, f"def sources(): return {values}") == {
        "sources": [["a.cu", {"": "tuple"}], ["b.cu", {"text": ""}]]
    }
    assert call(monkeypatch, "def sources(): return ['a.cu']") == {"other": "list"}
    absent = {"absent": ["texts"], "classes": [], "value": None}
    assert call(monkeypatch, "from os.path import join\ndef texts(): pass\n_x = 1") == absent
    assert call(monkeypatch, "def texts(): pass\ndef main(): pass") == absent
    assert call(monkeypatch, "sources = {}") == {"absent": [], "classes": [], "value": "dict"}
    text = "class G:\n  def sources(self): pass\nclass Other: pass"
    assert call(monkeypatch, text) == {"absent": [], "classes": ["G"], "value": None}


@pytest.mark.parametrize(
    ("text", "error", "frames", "missing"),
    [
        ("def sources():\n  1 / 0", "ZeroDivisionError: division by zero", [2], None),
        ("import nowhere_", "ModuleNotFoundError: No module named 'nowhere_'", [1], "nowhere_"),
        ("def sources(:", "SyntaxError: ", [1], None),
        ("def sources():\n  compile('(', '<text>', 'exec')", "SyntaxError: ", [2], None),
        ("def sources():\n  raise SystemExit(3)", "SystemExit: 3", [2], None),
        ("X = 1\ndef sources(archs): pass", "TypeError: sources() missing", [2], None),
    ],
)
def test_an_exception_is_answered_with_the_project_own_frames(
    monkeypatch: pytest.MonkeyPatch, text: str, error: str, frames: list[int], missing: str | None
) -> None:
    answer = call(monkeypatch, text)
    assert answer["error"].startswith(error)
    assert [(file, line) for file, line, *_more in answer["frames"]] == [
        ("demo/gen.py", line) for line in frames
    ]
    assert answer["missing"] == missing


def test_the_process_answers_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {**FILES, "roots/texts.py": "TEXT = 1\n", "undeclared.txt": ""})
    gen = (
        "import tools\ndef sources():\n    open('undeclared.txt').close()\n    return {'a.cu': tools.TEXT}\n"
    )
    write_tree(tmp_path, {"src/demo/kernels/gen.py": gen})
    hooks: list[Callable[[str, tuple[Any, ...]], None]] = []
    for name in ("path", "argv", "meta_path"):
        monkeypatch.setattr(sys, name, [*getattr(sys, name)])
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.chdir(tmp_path)
    request = {
        "module": "demo.kernels.gen",
        "call": "sources",
        "script": "src/demo/kernels/gen.py",
        "packages": [["demo", "src/demo"], ["tools", "roots"]],
        "folders": [[str(tmp_path / "roots"), "roots"], [str(tmp_path), ""]],
        "exempt": [],
        "path": sys.path,
        "files": [],
        "listed": [],
        "seconds": 60,
        "answer": str(tmp_path / "answer.json"),
        "stacks": str(tmp_path / "stacks"),
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    (tmp_path / "roots" / "__init__.py").write_text("")
    try:
        sys.argv[1:] = [str(tmp_path / "request.json")]
        runpy.run_path(producer_script.__file__, run_name="__main__")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in {"demo", "tools"}]:
            del sys.modules[name]
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["error"] == "AttributeError: module 'tools' has no attribute 'TEXT'"
    assert (answer["read"], answer["listed"], len(hooks), ended) == ([], {}, 1, [0])


def test_the_causes_of_an_exception_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
def sources():
  try:
    1 / 0
  except ZeroDivisionError as exc:
    try:
      {}[1]
    except KeyError:
      raise RuntimeError('bad') from exc
"""
    answer = call(monkeypatch, text)
    assert (answer["error"], [line for _file, line, *_more in answer["frames"]]) == ("RuntimeError: bad", [8])
    assert [(text, frames[0][1]) for text, frames in answer["causes"]] == [
        ("ZeroDivisionError: division by zero", 3)
    ]
    in_circle = call(monkeypatch, text.replace("RuntimeError('bad') from exc", "exc from exc"))
    assert in_circle["causes"] == []
    hidden = call(monkeypatch, text.replace("from exc", "from None"))
    assert hidden["causes"] == []


def test_frames_of_compiled_modules_are_not_the_projects() -> None:
    assert [producer_script._is_own(file) for file in ("demo/gen.py", "cuda/core/_device.pyx", "<text>")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("import parts", "write: from demo.kernels import parts"),
        ("import parts as p", "write: from demo.kernels import parts as p"),
        ("from parts import TEXTS", "write: from demo.kernels.parts import TEXTS"),
        ("import parts, os", "the name of this module is demo.kernels.parts"),
        ("import nowhere_", None),
        ("import demo.kernels.part", "did you mean 'parts'?"),
        ("from demo.kernels import part", "did you mean 'parts'?"),
        ("from demo.kernels import nothing", None),
        ("from demo.plain import nothing", None),
        ("from demo.kernels.parts import TEXTS", None),
        ("from demo import RuntimeError", "hatch-cubin does not run src/demo/__init__.py when "),
        ("import demo; demo.RuntimeError", "hatch-cubin does not run src/demo/__init__.py when "),
        *[
            (line, "_cubins does not exist before the build: import _cubins only inside the functions that ")
            for line in ("from demo import _cubins", "import demo._cubins", "from demo._cubins import find")
        ],
        ("from json import nothing", None),
        ("object().nothing", None),
        ("raise ImportError('other')", None),
    ],
)
@pytest.mark.usefixtures("finder")
def test_a_name_that_cannot_be_imported_has_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, hint: str | None
) -> None:
    monkeypatch.chdir(tmp_path)  # as in the process of a producer
    linecache.clearcache()
    (tmp_path / "src/demo/kernels/gen.py").write_text(line)
    request = {"module": "demo.kernels.gen", "call": "sources"}
    found = producer_script.answer_of(request, ReadRecorder([], [], [], []))["hint"]
    assert found is hint is None or found.startswith(hint)


@pytest.mark.usefixtures("finder")
def test_kernels_of_an_earlier_build_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are absent where the project is built for the first time."""
    monkeypatch.chdir(tmp_path)
    write_tree(
        tmp_path / "src/demo", {"_cubins/__init__.py": "", "kernels/gen.py": "from demo import _cubins"}
    )
    request = {"module": "demo.kernels.gen", "call": "sources"}
    found = producer_script.answer_of(request, ReadRecorder([], [], [], []))
    assert found["error"].startswith("ImportError: cannot import name '_cubins' from 'demo'")


def test_variables_are_recorded_that_are_absent_and_that_the_project_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.environ, "__class__", producer_script.WatchedEnviron)
    monkeypatch.setenv("IS_SET", "1")
    absent: dict[str, None] = {}
    monkeypatch.setattr(os.environ, "absent", absent, raising=False)
    text = "import os\nx = os.environ.get('A'), os.getenv('B', 'b'), 'C' in os.environ, os.getenv('IS_SET')"
    values: dict[str, Any] = {}
    exec(compile(text, "demo/gen.py", "exec"), values)  # noqa: S102
    assert (values["x"], [*absent]) == ((None, "b", False, "1"), ["A", "B", "C"])
    assert "IS_SET" in os.environ
    assert "D" not in os.environ
    assert [*absent] == ["A", "B", "C"]


def test_a_folder_has_undeclared_files_but_no_undeclared_modules(tmp_path: Path) -> None:
    write_tree(
        tmp_path, dict.fromkeys(["t/a.j2", "t/b.j2", "t/x.py", "t/in/c", "t/.swap", "t/_cubins/x"], "")
    )
    assert producer_script.undeclared_in("t", str(tmp_path / "t"), ["t/a.j2"]) == ["t/b.j2"]
    assert producer_script.undeclared_in(".", str(tmp_path / "t"), []) == ["a.j2", "b.j2"]
    assert producer_script.undeclared_in("t/_cubins", str(tmp_path / "no"), []) is None
