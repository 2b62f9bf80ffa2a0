"""The example project: built as it stands, installed where nothing else is, tested by its own tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import REPOSITORY, run, wheel_files

from .conftest import Venv
from .projects import LOADER

ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return shutil.copytree(REPOSITORY / "example_project", tmp_path / "example")


@pytest.mark.usefixtures("isolated")
def test_the_example_project_passes_its_own_tests_when_it_is_installed(
    tmp_path: Path, example: Path, venv: Venv
) -> None:
    out = tmp_path / "out"
    run(sys.executable, "-m", "uv", "build", "--out-dir", out, example, cwd=tmp_path)
    wheel = out / "waves-1.0.0-py3-none-any.whl"
    assert {name for name in wheel_files(wheel) if not name.startswith("waves-1.0.0.dist-info/")} == {
        "waves/__init__.py",
        "waves/_vector.py",
        "waves/py.typed",
        *(f"waves/_cubins/{name}" for name in LOADER),
        *(f"waves/_cubins/{module}.{arch}.cubin" for module in ("fill", "reduce", "saxpy") for arch in ARCHS),
        "waves/_cubins/fill.compute_80.ptx",
        "waves/_cubins/reduce.compute_120.ptx",
        "waves/_cubins/saxpy.compute_120.ptx",
    }
    venv.install(wheel, "pytest")
    installed = venv.uv("list")
    assert "waves" in installed
    assert not [name for name in ("hatch", "nvrtc") if name in installed]
    tests = shutil.copytree(example / "tests", tmp_path / "tests")
    assert " passed" in venv.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
