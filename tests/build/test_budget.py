"""A wheel that is larger than `max-size` allows stays nowhere, whoever builds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import SAXPY, run, write_tree

from .projects import SETUPTOOLS, demo

pytestmark = pytest.mark.nvrtc

OPTIONS = 'max-size = "10 KB"\narchs = ["sm_80", "sm_90"]\n'
FILES = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY}
WRAPPED = """\
[build-system]
requires = ["flit_core", "hatch-cubin"]
build-backend = "hatch_cubin.backend"

[project]
name = "demo"
version = "1.0"
description = "-"
requires-python = ">=3.10"
"""


def of_hatch(root: Path) -> str:
    demo(root, OPTIONS)
    return "from hatchling.build import build_wheel"


def of_setuptools(root: Path) -> str:
    write_tree(root, {"pyproject.toml": f"{SETUPTOOLS}[tool.hatch-cubin]\n{OPTIONS}", **FILES})
    return "from setuptools.build_meta import build_wheel"


def of_wrapper(root: Path) -> str:
    table = f'[tool.hatch-cubin]\nbackend = "flit_core.buildapi"\n{OPTIONS}'
    write_tree(root, {"pyproject.toml": f"{WRAPPED}\n{table}", **FILES})
    return "from hatch_cubin.backend import build_wheel"


def build(root: Path, take: str) -> tuple[int, list[str], list[str]]:
    """Return the exit code, the wheels that are there then, and what was said."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = run(sys.executable, "-c", f"{take}; build_wheel('dist')", cwd=root, check=False, PATH=path)
    there = sorted(path.name for path in root.rglob("*.whl"))
    return done.returncode, there, done.stderr.splitlines()


@pytest.mark.counted
@pytest.mark.parametrize("door", [of_hatch, of_setuptools, of_wrapper])
def test_no_door_leaves_a_wheel_that_is_too_large(tmp_path: Path, door: Callable[[Path], str]) -> None:
    (tmp_path / "dist").mkdir()
    take = door(tmp_path)
    code, wheels, said = build(tmp_path, take)
    assert (code, wheels) == (1, [])
    table = (tmp_path / "pyproject.toml").read_text().splitlines()
    line = table.index('max-size = "10 KB"') + 1
    start = next(number for number, each in enumerate(said) if "error: " in each)
    wheel = "demo-1.0-py3-none-any.whl"
    assert said[start].startswith(f"hatch-cubin: error: pyproject.toml:{line}: {wheel} has ")
    assert said[start].endswith(" KB, but max-size allows only 10.0 KB [wheel-too-large]")
    assert said[start + 1].startswith("  the largest files: demo/_cubins/__init__.py ")
    end = said.index("hatch-cubin: 1 error, nothing was built")
    remedies = {each.rpartition(" would save ")[0] for each in said[start + 2 : end]}
    assert remedies >= {
        f"  leaving out sm_{arch} (some kernels would not run on {arch // 10}.{arch % 10})"
        for arch in (80, 90)
    }

    text = (tmp_path / "pyproject.toml").read_text().replace("10 KB", "1 MB")
    (tmp_path / "pyproject.toml").write_text(text)
    code, wheels, _said = build(tmp_path, take)
    assert (code, wheels) == (0, ["demo-1.0-py3-none-any.whl"])
