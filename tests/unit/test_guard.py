"""The guard of the tests' folders: what it reports, and what a test sees of the user's settings."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sandbox
from tests.helpers import REPOSITORY, run, write_tree

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the guard knows paths of POSIX")

# What a test may do to get at something outside: the line that it runs, and what is reported.
OUTSIDE = {
    "reads": ("open(OUT / 'file').read()", "open OUT/file"),
    "reads by bytes": ("os.close(os.open(os.fsencode(OUT / 'file'), os.O_RDONLY))", "open OUT/file"),
    "reads by dots": ("open(tmp_path / '../../../../outside/file').read()", "open OUT/file"),
    "reads where it is": ("os.chdir(OUT); open('file').read()", "open OUT/file"),
    "writes": ("(OUT / 'new').write_text('')", "open OUT/new"),
    "lists": ("os.listdir(OUT)", "os.listdir OUT"),
    "walks": ("list(OUT.glob('*'))", "os.(?:scandir|listdir) OUT"),
    "makes": ("(OUT / 'folder').mkdir()", "os.mkdir OUT/folder"),
    "moves away": ("(OUT / 'moves').rename(tmp_path / 'x')", "os.rename OUT/moves"),
    "moves there": ("(tmp_path / 'x').write_text(''); (tmp_path / 'x').rename(OUT / 'x')", "os.rename OUT/x"),
    "removes": ("(OUT / 'goes').unlink()", "os.remove OUT/goes"),
    "links": ("(OUT / 'link').symlink_to('file')", "os.symlink OUT/link"),
    "opens a database": ("sqlite3.connect(OUT / 'base')", "sqlite3.connect OUT/base"),
    "reads the user's home": ("os.environ.pop('HOME'); os.listdir(Path.home())", "os.listdir /"),
    "in a thread": (
        "t = threading.Thread(target=os.listdir, args=[OUT]); t.start(); t.join()",
        "os.listdir OUT",
    ),
    "in a fork": ("p = os.fork() or (os.listdir(OUT), os._exit(0)); os.waitpid(p, 0)", "os.listdir OUT"),
    "in another Python": ("python('import os; os.listdir(%r)' % str(OUT))", "os.listdir OUT"),
    "in a Python of that": ("nested('open(%r)' % str(OUT / 'file'))", "open OUT/file"),
    "gives a home": (
        "subprocess.run(['true'], env={'HOME': str(OUT)})",
        "subprocess.Popen true with the home OUT",
    ),
    "gives itself a home": (
        "os.environ['HOME'] = str(OUT); subprocess.run(['true'])",
        "subprocess.Popen true .* OUT",
    ),
    "calls a host": ("call('192.0.2.1')", "socket.connect 192.0.2.1"),
    "calls a host from another Python": (
        f"python({'CALL'} + \"call('192.0.2.1')\")",
        "socket.connect 192.0.2.1",
    ),
    "has a fixture of a module": ("request.getfixturevalue('of_module')", "os.listdir OUT"),
    "has a fixture of the session": ("request.getfixturevalue('of_session')", "os.listdir OUT"),
}
INSIDE = {
    "own folder": "(tmp_path / 'x').write_text(''); os.listdir(tmp_path)",
    "home": "(Path.home() / 'x').write_text(''); os.listdir(Path.home())",
    "another home": "assert not (Path.home() / 'x').exists()",
    "cache": "assert os.listdir(os.environ['HATCH_CUBIN_CACHE_DIR']) == []",
    "temporary files": "tempfile.TemporaryFile().close(); tempfile.mkdtemp()",
    "checkout": "open('pyproject.toml').read()",
    "libraries": "python('import ssl, sqlite3, json')",
    "devices": "open(os.devnull, 'w').close(); os.listdir('/proc/self/fd')",
    "this machine": "socket.create_server(('127.0.0.1', 0)).close(); call('127.0.0.1')",
    "no such place": "pytest.raises(OSError, os.listdir, '/no-such-folder-of-anybody/x')",
    "asks whether it exists": "assert (OUT / 'file').exists()",
}
CALL = """
import socket
def call(host):
    with socket.socket() as opened:
        opened.setblocking(False)
        opened.connect_ex((host, 9))
"""
TESTS = """
import os, socket, sqlite3, subprocess, sys, tempfile, threading
from pathlib import Path
import pytest
CALL = {call!r}
exec(CALL)
OUT = Path({out!r})

def python(code):
    subprocess.run([sys.executable, "-c", code], check=True)

def nested(code):
    python("import subprocess, sys; subprocess.run([sys.executable, '-c', %r], check=True)" % code)

@pytest.fixture(scope="module")
def of_module():
    os.listdir(OUT)

@pytest.fixture(scope="session")
def of_session():
    os.listdir(OUT)

@pytest.mark.parametrize("what", {lines!r}.values(), ids={names!r})
def test_it(what, tmp_path, request, monkeypatch):
    monkeypatch.chdir({repository!r})
    with monkeypatch.context():
        before = dict(os.environ)
        try:
            exec(what)
        finally:
            os.environ.clear()
            os.environ.update(before)
"""


def outcomes(folder: Path, text: str, **environ: str) -> dict[str, str]:
    """Run tests in a process of its own, and return what pytest says of each."""
    write_tree(folder, {"project/pytest.ini": "[pytest]\n", "project/test_it.py": text})
    command = (sys.executable, "-m", "pytest", "-p", "tests.isolation_plugin", "-pno:cacheprovider", "-qrA")
    where = ("-c", folder / "project/pytest.ini", "--color=no", folder / "project/test_it.py")
    (folder / "temp").mkdir()
    own = {"PYTEST_DEBUG_TEMPROOT": str(folder / "temp"), "PYTEST_ADDOPTS": "", "PYTHONPATH": ""}
    printed = run(*command, *where, cwd=REPOSITORY, check=False, **own, **environ).stdout
    return dict(_parsed(printed))


def _parsed(printed: str) -> Iterator[tuple[str, str]]:
    """Yield each test with what was reported of it: nothing if it passed and left its folders nowhere."""
    for name in re.findall(r"(?m)^(?:PASSED|FAILED) \S+?::test_it\[(.+?)\]", printed):
        headings = rf"^_+ (?:ERROR at teardown of )?test_it\[{re.escape(name)}\] _+$"
        told = re.findall(rf"(?ms){headings}\n(.*?)(?=^[_=]+ )", printed)
        yield name, "\n".join(told)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder outside, and what is reported of each test."""
    folder = tmp_path_factory.mktemp("guarded")
    write_tree(folder, {f"outside/{name}": "" for name in ("file", "moves", "goes")})
    lines = {"import": "pass"} | {name: line for name, (line, _told) in OUTSIDE.items()} | INSIDE
    shown = {"out": str(folder / "outside"), "lines": lines, "names": [*lines], "call": CALL}
    return folder / "outside", outcomes(folder, TESTS.format(**shown, repository=str(REPOSITORY)))


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_is_reported(told: tuple[Path, dict[str, str]], name: str) -> None:
    out, found = told
    wanted = OUTSIDE[name][1].replace("OUT", re.escape(str(out)))
    assert re.fullmatch(f"outside of the tests' own folders:\n{wanted}.*, in .*\n", found[name]), found[name]


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_inside_is_not_reported(told: tuple[Path, dict[str, str]], name: str) -> None:
    _out, found = told
    assert found[name] == ""


def test_another_python_may_read_the_environment_of_the_tests(tmp_path: Path) -> None:
    """pip, for one, runs itself by the Python of the environment that it installs into."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    code = f"import os; os.listdir({str(Path(pytest.__file__).parent)!r})"
    run(tmp_path / "venv/bin/python", "-c", code, cwd=tmp_path)


def test_what_a_test_imports_is_reported(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside/file": ""})
    text = f"open({str(tmp_path / 'outside/file')!r}).close()\nimport pytest\n"
    text += "@pytest.mark.parametrize('_x', ['first'])\ndef test_it(_x):\n    pass\n"
    assert f"open {tmp_path}/outside/file, in " in outcomes(tmp_path, text)["first"]


def test_a_test_sees_nothing_of_the_users_settings(tmp_path: Path) -> None:
    """But it finds the package index as the user does."""
    home = write_tree(
        tmp_path / "home",
        {
            ".config/pip/pip.conf": (
                "[global]\nindex-url = https://index.example/simple\ntarget = /nowhere\n"
                "[install]\nuser = yes\nextra-index-url =\n  https://a.example\n  https://b.example\n"
            ),
            ".config/uv/uv.toml": (
                'no-build = true\nfind-links = ["/a", "/b"]\n[[index]]\nurl = "https://c.example"\n'
                '[[index]]\nname = "own"\nurl = "https://d.example"\ndefault = true\n'
            ),
            ".gitconfig": "[core]\n  autocrlf = true\n",
            ".netrc": "",
            ".cache/hatch-cubin/recall": "in the way",
        },
    )
    poison = {
        **dict.fromkeys(("HATCH_CUBIN_ARCHS", "HATCH_CUBIN_REMOTE", "CUDA_HOME", "CUDA_PATH"), "/poison"),
        **dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "HATCH_DATA_DIR", "HATCH_CONFIG"), "/poison"),
        **dict.fromkeys(("GIT_DIR", "GIT_INDEX_FILE", "CFLAGS", "PYTHONSTARTUP", "AWS_PROFILE"), "/poison"),
        **dict.fromkeys(
            ("PIP_TARGET", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "UV_PYTHON", "UV_NO_CACHE"), "1"
        ),
    }
    # What the test prints is what it and all that it starts see.
    report = tmp_path / "seen.json"
    text = (
        "import json, os, pytest\n@pytest.mark.parametrize('_x', ['first'])\ndef test_it(_x, tmp_path):\n"
        "    (tmp_path / 'seen').write_text(json.dumps(dict(os.environ)))\n"
        f"    os.replace(tmp_path / 'seen', {str(report)!r})\n"
    )
    xdg = {"PIP_INDEX_URL": "", "PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": "", "UV_FIND_LINKS": ""}
    outcomes(tmp_path, text, HOME=str(home), **{**xdg, **poison})
    seen = json.loads(report.read_text("utf-8"))
    assert seen.keys() & poison.keys() == set()
    assert Path(seen["HOME"]) != home
    assert seen["PIP_INDEX_URL"] == "https://index.example/simple"
    assert seen["PIP_EXTRA_INDEX_URL"] == "https://a.example https://b.example"
    assert seen["PIP_CONFIG_FILE"] == os.devnull
    assert seen["UV_DEFAULT_INDEX"] == "own=https://d.example"
    assert (seen["UV_INDEX"], seen["UV_FIND_LINKS"]) == ("https://c.example", "/a,/b")
    assert seen["NETRC"] == str(home / ".netrc")


def test_a_user_who_can_write_no_cache_gets_one_of_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_CACHE_DIR")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "downloads"))
    monkeypatch.setenv("HOME", str(write_tree(tmp_path / "home", {".cache": "in the way"})))
    assert sandbox.caches(tmp_path / "own") == {
        "PIP_CACHE_DIR": str(tmp_path / "downloads"),
        "UV_CACHE_DIR": str(tmp_path / "own/uv"),
    }
