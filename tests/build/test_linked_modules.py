"""Linked modules in whole builds: the sdist has all that is linked, and its wheel is the tree's."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from tests.helpers import SAXPY, load_bundle, run, wheel_files

from .projects import demo

pytestmark = pytest.mark.nvrtc

OPTIONS = """\
archs = ["sm_90", "compute_90"]
cache-dir = ".cubins"
[[tool.hatch.build.hooks.cubin.module]]
name = "solver"
sources = ["src/solver/*.cu"]
mode = "lto"
variants = { STEP = [1, 2] }
[[tool.hatch.build.hooks.cubin.module]]
name = "joined"
sources = ["src/solver/k.cu"]
mode = "rdc"
archs = ["sm_90"]
link = ["lib/f.ptx"]
"""
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) _Z1fi(.param .b32 a) {
  .reg .b32 %r<3>; ld.param.u32 %r1, [a]; add.s32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }
"""
FILES = {
    "src/demo/__init__.py": "",
    "src/demo/saxpy.cu": SAXPY,
    "src/solver/k.cu": '#include "f.h"\nextern "C" __global__ void k(int *p) { *p = f(*p); }\n',
    "src/solver/f.cu": '#include "f.h"\n__device__ int f(int a) { return a + STEP; }\n',
    "src/solver/f.h": "__device__ int f(int);\n",
    "lib/f.ptx": PTX,
}


def test_a_wheel_of_an_sdist_has_the_same_linked_modules_and_passes_verify(tmp_path: Path) -> None:
    root = demo(tmp_path / "project", OPTIONS, FILES)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", "out")
    run(*build, cwd=root)
    (sdist,), (wheel,) = ((root / "out").glob(f"*.{kind}") for kind in ("tar.gz", "whl"))
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert FILES.keys() <= names
    of_sdist = wheel_files(wheel)
    run(*build, "--wheel", cwd=root)
    assert wheel_files(wheel) == of_sdist
    bundle = {name.rpartition("/")[2]: data for name, data in of_sdist.items() if "/_cubins/" in name}
    cubins = load_bundle(tmp_path / "bundle", bundle)
    found = [
        cubins.find("k", STEP=2, module="solver", cc=(9, 0)),
        cubins.find("k", module="joined", cc=(9, 0)),
    ]
    assert [Path(each.path).name for each in found] == ["solver.STEP-2.sm_90.cubin", "joined.sm_90.cubin"]
    assert [each.source for each in found] == ["src/solver/f.cu", "src/solver/k.cu"]
    verify = (sys.executable, "-m", "hatch_cubin", "verify", str(wheel), "--rebuild", "--json")
    assert json.loads(run(*verify, cwd=root).stdout)["errors"] == []
