"""A project as `init` leaves it: its kernels are built, and uv notices when they are gone or outdated."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import SAXPY, run, write_tree

pytestmark = pytest.mark.nvrtc

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "demo"
version = "1.0"
requires-python = ">=3.10"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"pyproject.toml": PYPROJECT, "src/demo/__init__.py": "", "src/demo/saxpy.cu": SAXPY}
    root = write_tree(tmp_path / "project", files)
    run(sys.executable, "-m", "hatch_cubin", "init", cwd=root)
    return root


def sync(root: Path) -> dict[str, bytes]:
    """Install the project as uv does, and return the kernels that are there then."""
    command = (sys.executable, "-m", "uv", "sync", "--python", sys.executable)
    run(*command, cwd=root, HATCH_CUBIN_ARCHS="sm_90")
    return {path.name: path.read_bytes() for path in (root / "src/demo/_cubins").glob("*.cubin")}


@pytest.mark.usefixtures("isolated")
def test_uv_builds_again_where_kernels_are_gone_or_outdated(project: Path) -> None:
    first = sync(project)
    assert [*first] == ["saxpy.sm_90.cubin"]
    sync(project)  # uv knows how a project was before it was built: the first time, without kernels
    shutil.rmtree(project / "src/demo/_cubins")
    assert sync(project) == first
    (project / "src/demo/saxpy.cu").write_text(SAXPY.replace("+=", "-="))
    assert sync(project) != first
