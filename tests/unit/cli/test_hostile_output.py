"""What verbs and front ends print of projects and wheels that others wrote: nothing in it is a command."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path

import pytest

from hatch_cubin import backend
from hatch_cubin.cli.main import VERBS, main
from tests import hostile_texts
from tests.cubins import cubin, inside, make_wheel
from tests.helpers import bundle, made, pyproject, write_tree
from tests.unit.frontends.test_hatch import _hook

NAMES = [text for text in hostile_texts.TEXTS if "\ud800" not in text and "\0" not in text]
OF_WHEELS = ("inspect", "verify", "check", "unpack", "split", "diff")
SOURCE = """\
extern "C" __global__ void k(float *x) {{
  *x =
{text}
  ;
}}
"""


@pytest.fixture(autouse=True)
def _in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HATCH_CUBIN_JOBS", "1")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """A wheel that holds together, and in which each name is a command."""
    built = [
        made(
            f"m{number}{text}",
            kernels={f"k{text}": f"k{text}"},
            data=cubin(f"k{number}{text}"),
            variant={f"V{text}": text},
            source=f"demo/{text}.cu",
            options={"std": text},
        )
        for number, text in enumerate(NAMES)
    ]
    files = bundle(*built, toolchain={"nvrtc": "13.0.88", "nvjitlink": NAMES[2]})
    damaged = {name: data[:-1] if name.endswith(".cubin") else data for name, data in files.items()}
    packages = {f"p{text}".replace("/", "|"): damaged for text in NAMES} | {"demo": files}
    members = {
        name: data
        for package, own in packages.items()
        for name, data in inside(f"{package}/_cubins", own).items()
    }
    members |= {f"{name}\n::error::x": b"x" for name in ("demo/_cubins/extra", "demo/x.cu")}
    members |= {f"demo{text}-1.0.dist-info/RECORD": f'"{text}",sha256=x,1\n'.encode() for text in NAMES[:3]}
    path = tmp_path / "##[group]demo-1.0-py3-none-any.whl"
    return str(make_wheel(path, members))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with contextlib.suppress(SystemExit):
        main([*arguments])
    return "".join(capsys.readouterr())


def assert_harmless(output: str) -> None:
    assert hostile_texts.commands(output) == []
    assert hostile_texts.steering(output) == ""


@pytest.mark.parametrize("verb", OF_WHEELS)
@pytest.mark.parametrize("more", [(), ("--json",), ("--markdown",)], ids=" ".join)
def test_what_a_wheel_holds_commands_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wheel: str, verb: str, more: tuple[str, ...]
) -> None:
    output = ("--into", str(tmp_path / "into")) if verb in ("unpack", "split") else ()
    other = (wheel,) if verb == "diff" else ()
    text = said(capsys, verb, wheel, *other, *output, *more)
    assert text
    assert_harmless(text)


def test_what_the_arguments_hold_commands_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for text in hostile_texts.TEXTS:
        for arguments in (
            (text,),
            ("plan", text),
            ("verify", text),
            ("plan", "--archs", text),
            ("inspect", text, "--json"),
        ):
            assert_harmless(said(capsys, *arguments))


def options_of(text: str) -> str:
    """Return a table in which everything is *text*."""
    value = json.dumps(text)
    return f"""
        archs = [{value}]
        sources = [{value}]
        package = {value}
        {value} = 1
        define = {{ {value} = {value} }}
        options = {{ std = {value}, ptxas-options = [{value}], {value} = 1 }}
        header-packages = [{value}]
    """


@pytest.mark.parametrize("verb", ["plan", "bake", "lock", "explain", "bundle", "cache", "init"])
def test_what_a_table_holds_commands_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for text in NAMES:
        root = write_tree(tmp_path, {"pyproject.toml": pyproject(options_of(text)), "demo/__init__.py": ""})
        own = ("show",) if verb == "cache" else ()
        assert_harmless(said(capsys, verb, *own, "--project", str(root)))


def hostile_project(root: Path, *, printable: bool = True) -> Path:
    """Write a project whose files are named by commands, and whose sources do not compile where they are."""
    names = [text.replace("/", "|") for text in NAMES if text.isprintable() is printable]
    texts = [*map("".join, itertools.pairwise(NAMES))][: len(names)]
    sources = zip(names, texts, strict=True)
    files = {
        f"demo/{number}{name}.cu": SOURCE.format(text=text) for number, (name, text) in enumerate(sources)
    }
    options = 'archs = ["sm_90"]\n'
    return write_tree(root, {"pyproject.toml": pyproject(options), "demo/__init__.py": "", **files})


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "verb", [("plan",), ("bake",), ("lock",), ("explain", "demo/0::stop-commands::token.cu")], ids=" ".join
)
def test_what_sources_hold_commands_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]
) -> None:
    text = said(capsys, *verb, "--project", str(hostile_project(tmp_path)))
    assert "stop-commands" in text
    assert_harmless(text)


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_what_files_are_named_commands_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    text = said(capsys, verb, "--project", str(hostile_project(tmp_path, printable=False)))
    assert "error::b" in text
    assert_harmless(text)


@pytest.mark.nvrtc
def test_annotations_are_the_only_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    found = hostile_texts.commands(said(capsys, "bake", "--project", str(hostile_project(tmp_path))))
    assert found
    assert all(line.startswith(("::error file=", "::error::")) for line in found)
    assert all("\x1b" not in line and "##[" not in line.partition("::")[2] for line in found)


@pytest.mark.nvrtc
def test_no_front_end_prints_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hostile_project(tmp_path)
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        _hook(root).initialize("standard", {})
    text = "".join(capsys.readouterr())
    assert "stop-commands" in text
    assert_harmless(text)
    wrapped = pyproject("", requires='"hatch-cubin"').replace("hatchling.build", "hatch_cubin.backend")
    table = '[tool.hatch-cubin]\nbackend = "hatchling.build"\narchs = ["sm_90"]\n'
    (root / "pyproject.toml").write_text(wrapped.partition("[tool.hatch.build")[0] + table)
    with pytest.raises(SystemExit):
        backend.build_wheel(str(root / "dist"))
    text = "".join(capsys.readouterr())
    assert "stop-commands" in text
    assert_harmless(text)


def test_every_verb_is_tried() -> None:
    assert {*OF_WHEELS, "plan", "bake", "lock", "explain", "bundle", "cache", "init", "keygen"} == {*VERBS}
    assert os.environ["HATCH_CUBIN_JOBS"] == "1"
