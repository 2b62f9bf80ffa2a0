"""Wheels of hits, with a lock: isolated builds install no CUDA, and make the same as with a compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_cubin.cli.main import main
from tests.helpers import COPY_PTX, SAXPY, run, write_tree

from .projects import build_sdist, demo, unpack
from .test_setuptools import answer, project

pytestmark = pytest.mark.nvrtc

OPTIONS = """\
toolkit = "13"
archs = ["sm_90", "compute_90"]
include-dirs = ["include"]
[tool.hatch.build.hooks.custom]
"""
SPY = """\
import importlib.metadata
import os
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Spy(BuildHookInterface):
    def finalize(self, version, build_data, artifact_path):
        with open(os.environ["SPY"], "w") as file:
            file.writelines(f"{found.metadata['Name']}\\n" for found in importlib.metadata.distributions())
"""
FILES = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": f'#include "far.h"\n{SAXPY}',
    "demo/copy.ptx": COPY_PTX,
    "include/far.h": "#include <cuComplex.h>\n",
    "hatch_build.py": SPY,
}
FRONT_ENDS = {
    # Makes the sdist first, and the wheel from that, in a folder of its own.
    "uv build": ("uv", "build", "--out-dir", "out"),
    "pip wheel": ("pip", "wheel", "--no-deps", "--wheel-dir", "out", "."),
}


def _isolated(
    root: Path, front_end: str = "uv build", *, check: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", *FRONT_ENDS[front_end], cwd=root, check=check, **environ)


@pytest.mark.usefixtures("isolated")
def test_a_wheel_of_hits_needs_no_cuda(tmp_path: Path) -> None:
    root, spied = demo(tmp_path / "project", OPTIONS, FILES), tmp_path / "installed"
    here = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", "out")
    run(*here, cwd=root, SPY=str(spied))
    assert "nvidia-cuda-nvrtc" in spied.read_text().split()
    (wheel,) = (root / "out").glob("*.whl")
    compiled = wheel.read_bytes()
    assert main(["lock", "--project", str(root)]) == 0
    for front_end in FRONT_ENDS:
        wheel.unlink()
        _isolated(root, front_end, HATCH_CUBIN_LOCKED="1", SPY=str(spied))
        installed = spied.read_text().split()
        assert "hatch-cubin" in installed
        assert [name for name in installed if name.startswith(("cuda", "nvidia"))] == []
        assert wheel.read_bytes() == compiled
    write_tree(root, {"include/far.h": "#include <cuComplex.h>\n\n"})
    told = _isolated(root, check=False, HATCH_CUBIN_LOCKED="1", SPY=str(spied))
    assert (
        "cubin.lock: is stale, and HATCH_CUBIN_LOCKED is set [lock-stale]\n  include/far.h is changed\n"
        in told.stderr
    )


def test_the_lock_goes_with_the_sdist_whatever_the_project_leaves_out(tmp_path: Path) -> None:
    more = '[tool.hatch.build.targets.sdist]\nonly-include = ["demo"]\n'
    root = demo(tmp_path / "project", 'archs = ["sm_90"]', more=more)
    assert main(["lock", "--project", str(root)]) == 0
    unpacked = unpack(build_sdist(root), tmp_path / "unpacked")
    assert (unpacked / "cubin.lock").read_bytes() == (root / "cubin.lock").read_bytes()


# The same with setuptools


def _asked(root: Path) -> list[str]:
    return [each for each in answer(root, "get_requires_for_build_wheel") if each != "wheel"]


@pytest.mark.counted
def test_setuptools_asks_for_no_wheel_where_all_is_cached(tmp_path: Path) -> None:
    root = project(tmp_path / "project", 'toolkit = "13"\narchs = ["sm_90"]\n')
    assert main(["lock", "--project", str(root)]) == 0
    assert _asked(root) == []
    wheels = json.loads((root / "cubin.lock").read_text())["wheels"]
    write_tree(root, {"demo/more.cu": SAXPY.replace("saxpy", "more")})
    assert _asked(root)[0] == f"cuda-core=={wheels['cuda-core']}"


def test_setuptools_puts_the_lock_into_the_sdist(tmp_path: Path) -> None:
    root = project(tmp_path / "project", 'archs = ["sm_90"]\n')
    assert main(["lock", "--project", str(root)]) == 0
    (tmp_path / "out").mkdir()
    archive = tmp_path / "out" / answer(root, "build_sdist", str(tmp_path / "out"))
    unpacked = unpack(archive, tmp_path / "unpacked")
    assert (unpacked / "cubin.lock").read_bytes() == (root / "cubin.lock").read_bytes()
