"""The pytest plugin, in sessions of their own: what it records, and what fails a session."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import pytest_plugin
from hatch_cubin.loader._text_key import text_key
from tests.helpers import REPOSITORY, run, write_tree
from tests.standin import install

from .loader import cupy_double

# Each function of this file hides a compile in another way.
HIDDEN = Path(__file__).with_name("hidden_compiles.txt").read_text("utf-8")
BEGIN = HIDDEN.partition("def test_")[0]
WAYS = re.findall(r"^def test_(\w+)", HIDDEN, re.MULTILINE)
# Before, between and after tests.
PLACES = {
    "import": BEGIN + "compiles('import')\ndef test_it(): pass\n",
    "conftest": BEGIN + "def test_it(): pass\n",
    "fixture": BEGIN + "@pytest.fixture(scope='session')\n"
    "def f():\n yield\n compiles('fixture')\ndef test_it(f): pass\n",
    "atexit": BEGIN + "import atexit\ndef test_it(): atexit.register(compiles, 'atexit')\n",
    "fork": BEGIN + "import atexit\ndef test_it():\n compiles('fork')\n"
    " child = os.fork()\n if not child:\n  atexit._run_exitfuncs()\n  os._exit(0)\n"
    " os.waitpid(child, 0)\n",
    "unconfigure": BEGIN + "def test_it(): pass\n",
    "exit": BEGIN + "def test_it():\n compiles('exit'); pytest.exit('hidden', 0)\n",
    "status": BEGIN + "def test_it(): compiles('status')\n",
    "no test": BEGIN + "compiles('no test')\n",
}
CONFTESTS = {
    "conftest": BEGIN + "compiles('conftest')\n",
    "unconfigure": BEGIN + "def pytest_unconfigure(config): compiles('unconfigure')\n",
    "status": "def pytest_sessionfinish(session): session.exitstatus = 0\n",
}

pytestmark = pytest.mark.counted


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a package and a CuPy."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    install(tmp_path / "pkg", cupy_double.files())
    double = "from tests.unit.loader.cupy_double import make\nglobals().update(vars(make()))\n"
    return write_tree(tmp_path, {"cupy.py": double, "pytest.ini": "[pytest]\n"})


def session(project: Path, *arguments: str, test: str = "", conftest: str = "", **environ: str) -> Any:
    write_tree(project, {"test_it.py": BEGIN + test if BEGIN not in test else test, "conftest.py": conftest})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "hatch_cubin.pytest_plugin",
        "-p",
        "xdist",
        *arguments,
    ]
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{project}{os.pathsep}{REPOSITORY}"}
    return run(*command, cwd=project, check=False, **plain, **environ)


def recorded(folder: Path) -> set[str]:
    return {path.read_text("utf-8").partition("\n")[2] for path in folder.glob("*.cu")}


def test_a_session_without_the_options_sees_nothing(project: Path) -> None:
    done = session(project, test="def test_it(): compiles('x')\n")
    assert (done.returncode, "hatch-cubin" in done.stderr) == (0, False), done


# One object whose kernel is never requested, and one whose text is in the package.
NOTHING_COMPILED = (
    f"TEXT = {cupy_double.TEXT!r}\n"
    "def test_it():\n    RawKernel('// x', 'saxpy')\n    RawKernel(TEXT, 'saxpy').kernel\n"
)


def test_a_session_that_compiles_nothing_passes(project: Path) -> None:
    done = session(project, "--forbid-run-time-compiles", "-W", "error", test=NOTHING_COMPILED)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one", "xdist"])
def test_a_session_that_records_nothing_says_so(project: Path, workers: tuple[str, ...]) -> None:
    done = session(project, "--record-cubins=calls", *workers, test=NOTHING_COMPILED)
    assert (done.returncode, (project / "calls").exists()) == (0, False), done
    assert done.stderr.startswith(f"hatch-cubin: nothing was recorded in {project / 'calls'}: "), done
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "test"),
    [
        ("--collect-only", NOTHING_COMPILED),
        ("--version", NOTHING_COMPILED),
        ("--nonsense", NOTHING_COMPILED),
        ("-v", "import a_module_that_is_missing\n"),
        ("-v", ""),
    ],
)
def test_a_session_that_runs_no_test_says_nothing_about_recording(
    project: Path, option: str, test: str
) -> None:
    assert "recorded" not in session(project, "--record-cubins=calls", option, test=test).stderr


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one", "xdist"])
@pytest.mark.parametrize("begin", ["", "def test_it(): "], ids=["collected", "run"])
def test_a_package_without_modules_for_calls_is_told_with_the_key_that_adds_them(
    project: Path, begin: str, workers: tuple[str, ...]
) -> None:
    test = f"{begin}import pkg._cubins.core\n"
    (project / "pkg/_cubins/core.py").unlink(missing_ok=True)
    done = session(project, "--record-cubins=in/calls", *workers, test=test)
    told = [line for line in done.stderr.splitlines() if "pkg._cubins.core," in line]
    assert (done.returncode != 0, len(told)) == (True, 1), done
    assert told[0].endswith('recorded = ["in/calls"]')
    assert "sources for cuda.core" in told[0]


def test_a_run_that_forbids_compiles_tells_the_key_without_a_folder(project: Path) -> None:
    done = session(project, "--forbid-run-time-compiles", test="import pkg._cubins.core\n")
    assert 'recorded = ["FOLDER"]' in done.stderr, done


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one", "xdist"])
def test_no_way_hides_a_compile(project: Path, workers: tuple[str, ...]) -> None:
    done = session(project, "--forbid-run-time-compiles", "--record-cubins=calls", *workers, test=HIDDEN)
    assert done.returncode == 1, done
    assert " failed" not in done.stdout, done.stdout
    assert "error" not in done.stdout.partition("short test summary")[2], done.stdout
    assert f"{len(WAYS)} calls compiled at run time" in done.stderr
    assert recorded(project / "calls") == {f"// {name}" for name in {*WAYS} - {"nvcc", "option"}}


@pytest.mark.parametrize("place", PLACES)
def test_no_moment_hides_a_compile(project: Path, place: str) -> None:
    done = session(
        project,
        "--forbid-run-time-compiles",
        "--record-cubins=calls",
        test=PLACES[place],
        conftest=CONFTESTS.get(place, ""),
    )
    assert (done.returncode, recorded(project / "calls")) == (1, {f"// {place}"}), done


@pytest.mark.parametrize("option", ["-pno:warnings", "--collect-only"])
def test_no_option_hides_a_compile(project: Path, option: str) -> None:
    test = "compiles('x')\ndef test_it(): pass\n"
    assert session(project, "--forbid-run-time-compiles", option, test=test).returncode == 1


def test_a_test_that_fails_keeps_its_status(project: Path) -> None:
    done = session(project, "--forbid-run-time-compiles", "--nonsense", test="")
    assert done.returncode == 4
    interrupted = "def test_it():\n    compiles('x')\n    raise KeyboardInterrupt\n"
    assert session(project, "--forbid-run-time-compiles", test=interrupted).returncode == 2


def test_two_recordings_merge(project: Path) -> None:
    test = (
        "def test_it():\n"
        "    for names in (['k<int>'], ['k<float>'], None):\n"
        "        RawModule(code='other\\r\\n', name_expressions=names, options=('-DN=4',)).module\n"
    )
    done = session(project, "--record-cubins=calls", test=test)
    key = text_key("cupy", ("-DN=4",), "other\n")
    names = sorted(path.name for path in (project / "calls").iterdir())
    assert (done.returncode, len(names), f"{key}.cu" in names) == (0, 3, True)
    assert {name[:64] for name in names} == {key}
    texts = sorted(path.read_bytes() for path in (project / "calls").iterdir())
    assert texts[0].partition(b"\n") == (
        b'// {"front": "cupy", "instantiate": ["k<float>"], "options": ["-DN=4"]}',
        b"\n",
        b"other\n",
    )
    again = session(project, "--record-cubins=calls", test=test)
    assert ("0 new recorded calls" in again.stderr, "nothing" in again.stderr) == (True, False)


def test_an_outer_record_is_left_in_place(project: Path) -> None:
    """A session that runs inside another one has a folder of its own."""
    outer = project / "outer"
    outer.mkdir()
    conftest = "import os\ndef pytest_unconfigure(config): config.add_cleanup(lambda: None)\n"
    done = session(
        project, "--forbid-run-time-compiles", test="compiles('x')\n", conftest=conftest,
        HATCH_CUBIN_RECORD=str(outer),
    )  # fmt: skip
    assert (done.returncode, list(outer.iterdir())) == (1, [])


def call(**changed: Any) -> dict[str, Any]:
    plain = {"front": "cupy", "text": "x", "options": [], "names": [], "key": "1" * 64}
    return {**plain, **changed}


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (["-DN=4", "--std=c++17"], ["-DN=4", "--std=c++17"]),
        (["-I", "ROOT/include"], ["-Iinclude"]),
        (["-IROOT/a/../include", "-Iinclude"], ["-Iinclude", "-Iinclude"]),
        (["--include-path=ROOT/include"], ["-Iinclude"]),
        (["--include-path", "/usr/include", "-I../x", "-I"], ["-I."]),
    ],
)
def test_include_folders_are_those_of_the_project(
    tmp_path: Path, options: list[str], written: list[str]
) -> None:
    given = call(options=[option.replace("ROOT", str(tmp_path)) for option in options])
    assert pytest_plugin.write_recorded(tmp_path / "calls", tmp_path, given)
    (path,) = (tmp_path / "calls").iterdir()
    assert json.loads(path.read_text().partition("\n")[0][3:])["options"] == written


def test_a_call_with_other_include_folders_has_a_file_of_its_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        pytest_plugin.write_recorded(tmp_path / "calls", tmp_path, call(options=[f"-I{folder}"]))
    assert len([*(tmp_path / "calls").iterdir()]) == 2


@pytest.mark.parametrize("text", ["\ud800", "// a lone\rcarriage return\n"])
def test_a_text_that_a_file_cannot_have_is_not_recorded(tmp_path: Path, text: str) -> None:
    assert not pytest_plugin.write_recorded(tmp_path / "calls", tmp_path, call(text=text))
