"""Builds that end, in whatever way, leave nothing behind."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.helpers import refusal, run

from .projects import add_hook, build, demo, leftovers, tree

pytestmark = pytest.mark.nvrtc


def test_a_build_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    root = demo(tmp_path / "project")
    before = tree(root)
    build(root)
    assert tree(root) == before | {"dist/demo-1.0-py3-none-any.whl"}
    assert leftovers(temporary) == []


BUILD = (sys.executable, "-W", "error::ResourceWarning", "-m", "hatchling", "build", "-t", "wheel")


def test_hooks_only_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    root = demo(tmp_path / "project")
    before = tree(root)
    done = run(*BUILD, "--hooks-only", cwd=root)
    assert "ResourceWarning" not in done.stderr
    assert (tree(root), leftovers(temporary)) == (before, [])


@pytest.mark.parametrize(("body", "code"), [("raise RuntimeError", 1), ("raise SystemExit(3)", 3)])
def test_a_failure_of_another_hook_leaves_nothing_behind(
    tmp_path: Path, temporary: Path, body: str, code: int
) -> None:
    root = demo(tmp_path / "project")
    add_hook(root, body)
    before = tree(root)
    done = run(*BUILD, cwd=root, check=False, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == code
    assert "ResourceWarning" not in done.stderr
    assert (tree(root), leftovers(temporary)) == (before, [])


def test_a_failing_compile_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    root = demo(tmp_path / "project", files={"demo/__init__.py": "", "demo/bad.cu": "not C++"})
    before = tree(root)
    assert run(*BUILD, cwd=root, check=False).returncode == 1
    assert tree(root) == before
    assert leftovers(temporary) == []


def test_no_place_for_temporary_files_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")

    def full(**_options: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert refusal(SystemExit, build, demo(tmp_path)).code == 1
    what = "temporary files cannot be written: No space left on device"
    assert capsys.readouterr().err.splitlines() == [
        f"hatch-cubin: error: {what} [no-temporary-folder]",
        "hatch-cubin: 1 error, nothing was built",
    ]
