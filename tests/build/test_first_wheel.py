"""The first guide, executed as it stands: files written, commands run in order, output compared."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs_pages import PAGES, page
from tests.helpers import SAXPY, run, wheel_files

from .projects import sdist

pytestmark = pytest.mark.nvrtc

_STEP = re.compile(
    r"^<!-- file: (?P<file>\S+) -->\n```\S+\n(?P<content>.*?)^```\n"
    r"|^```sh\n(?P<commands>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_MARK = "@@ next step"


def script(steps: list[re.Match[str]]) -> str:
    """Return what a reader types, each step's output behind a line of its own."""
    lines = ["set -eu", "exec 2>&1"]
    for step in steps:
        lines.append(f"echo '{_MARK}'")
        if file := step["file"]:
            lines += [f"mkdir -p $(dirname {file})", f"cat > {file} <<'END'\n{step['content']}END"]
        else:
            lines.append(step["commands"])
    return "\n".join(lines)


def as_pattern(output: str) -> str:
    """Return a pattern of an output: a line that is `…` stands for any lines, one in a line for any text."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in output.splitlines()
    ]
    return "".join(lines)


@pytest.mark.usefixtures("isolated")
@pytest.mark.skipif(sys.platform == "win32", reason="the guide's shell is not that of Windows")
def test_the_first_guide_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_DATA_DIR", str(tmp_path / "hatch"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    steps = list(_STEP.finditer(page("guides/first-wheel")))
    folder = tmp_path / "empty"
    folder.mkdir()
    printed = run("bash", "-c", script(steps), cwd=folder).stdout
    outputs = printed.split(f"{_MARK}\n")[1:]
    assert [step["file"] for step in steps if step["file"]] == [
        "pyproject.toml",
        "src/vectors/saxpy.cu",
        "src/vectors/__init__.py",
    ]
    for step, output in zip(steps, outputs, strict=True):
        if step["output"]:
            assert re.fullmatch(as_pattern(step["output"]), output), output
    shown = re.findall(r"^```toml\n(\[tool.*?)^```$", page("guides/first-wheel"), re.MULTILINE | re.DOTALL)
    project = folder / "vectors"
    assert [table in (project / "pyproject.toml").read_text() for table in shown] == [True]
    sources = {"src/vectors/__init__.py", "src/vectors/saxpy.cu"}
    assert sdist(project) == {*sources, ".gitignore", "pyproject.toml", "PKG-INFO"}


@pytest.mark.usefixtures("isolated")
@pytest.mark.skipif(sys.platform == "win32", reason="the guide's shell is not that of Windows")
@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_uv_alone_and_pipx_alone_make_a_first_wheel(tmp_path: Path, tool: str) -> None:
    """The other tools of this environment are not on PATH: a step that needs one fails."""
    folder, commands = tmp_path / "empty", tmp_path / "commands"
    folder.mkdir()
    commands.mkdir()
    names = {"uv": ["uv", "uvx"], "pipx": ["pipx"]}[tool]
    for name in [*names, "python3"]:
        found = Path(sys.executable) if name == "python3" else Path(sys.executable).with_name(name)
        (commands / name).symlink_to(found)
    shown = re.search(
        rf"^<!-- only: {tool} -->\n```console\n(.*?)^```$",
        page("guides/first-wheel"),
        re.MULTILINE | re.DOTALL,
    )
    assert shown
    first, *others = shown[1].splitlines()
    script = [first, f"cat > src/vectors/saxpy.cu <<'END'\n{SAXPY}\nEND", *others]
    path = f"{commands}:/usr/bin:/bin"
    printed = run("bash", "-euc", "\n".join(script), cwd=folder, PATH=path).stdout
    assert "saxpy   sm_90 " in printed
    (wheel,) = (folder / "vectors/dist").glob("*.whl")
    assert "vectors/_cubins/saxpy.sm_90.cubin" in wheel_files(wheel)
    assert {line for line in others if line in PAGES["README.md"]} == set(others[:1])
