"""GitHub shows an error at its line of the repository, also where a build from an sdist runs elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import run

from .projects import demo

pytestmark = pytest.mark.nvrtc


def test_an_error_of_a_build_from_an_sdist_is_shown_where_the_repository_has_the_file(tmp_path: Path) -> None:
    broken = "__global__ void k(int *x) {\n  wrong(x);\n}\n"
    demo(tmp_path / "packages/demo", files={"demo/__init__.py": "", "demo/k.cu": broken})
    place = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path), "PWD": str(tmp_path)}
    command = (sys.executable, "-m", "build", "--no-isolation", "packages/demo")
    done = run(*command, cwd=tmp_path, check=False, **place)
    assert done.returncode != 0
    (told,) = (line for line in (done.stdout + done.stderr).splitlines() if line.startswith("::"))
    expected = '::error file=packages/demo/demo/k.cu,line=2::identifier "wrong" is undefined%0A'
    assert told.startswith(expected)
