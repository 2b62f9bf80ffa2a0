"""The first guide, executed as it stands: files written, commands run in order, output compared."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs_pages import page
from tests.helpers import run

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
