"""A monorepo: packages that share a folder above them, through every door."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers import SAXPY, run, wheel_files, write_tree

from .projects import in_bundle, unpack

pytestmark = pytest.mark.nvrtc

HATCH = '[tool.hatch.build]\ndev-mode-dirs = ["."]\n\n[tool.hatch.build.hooks.cubin]\n'
DOORS = {
    "hatch": ("hatchling", "hatchling.build", HATCH),
    "setuptools": ("setuptools", "setuptools.build_meta", "[tool.hatch-cubin]\n"),
    "wrapper": (
        "flit_core",
        "hatch_cubin.backend",
        '[tool.hatch-cubin]\nbackend = "flit_core.buildapi"\n',
    ),
}
OPTIONS = """\
archs = ["sm_90"]
sources = ["**/*.cu", "csrc/**/*.cu"]
include-dirs = ["csrc/include"]
source-roots = { csrc = "../csrc" }
"""
SHARED = {
    "csrc/saxpy.cu": '#include "near.cuh"\n#include <inc.cuh>\n' + SAXPY,
    "csrc/near.cuh": "#pragma once\n",
    "csrc/include/inc.cuh": "#pragma once\n",
    "csrc/README.md": "no kernel needs it",
}
NEEDED = {f"source-roots/{name}" for name in SHARED if not name.endswith(".md")}
READ = "from demo import _cubins as c; print(len(c.read('saxpy', cc=(9, 0))))"


def package(root: Path, door: str) -> Path:
    """Write a package of a monorepo, with nothing in it that says which packages a wheel has."""
    requires, backend, table = DOORS[door]
    text = f"""\
[build-system]
requires = ["{requires}", "hatch-cubin"]
build-backend = "{backend}"

[project]
name = "demo"
version = "1.0"
description = "A demo"

{table}{OPTIONS}"""
    write_tree(root, SHARED)
    own = {
        "demo/own.cu": "#include <inc.cuh>\n" + SAXPY.replace("saxpy", "own"),
        "demo/__init__.py": "",
        "pyproject.toml": text,
    }
    return write_tree(root / "pkg", own)


def built(root: Path, kind: str, into: Path, hits: str = "0") -> Path:
    """Build an sdist or a wheel of the project in a folder, and return it."""
    command = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", into)
    run(*command, cwd=root, SOURCE_DATE_EPOCH="1700000000", HATCH_CUBIN_REQUIRE_HITS=hits)
    (made,) = into.iterdir()
    return made


@pytest.mark.parametrize(
    "door",
    [pytest.param(door, marks=pytest.mark.counted if door == "setuptools" else ()) for door in DOORS],
)
def test_a_package_with_a_folder_above_it_is_built_the_same_from_its_sdist(tmp_path: Path, door: str) -> None:
    root = package(tmp_path / "mono", door)
    wheel = wheel_files(built(root, "wheel", tmp_path / "wheel"))
    assert {name for name in wheel if ".dist-info/" not in name} == {
        "demo/__init__.py",
        *in_bundle("own.sm_90.cubin", "saxpy.sm_90.cubin"),
    }

    (tmp_path / "unpacked").mkdir()
    unpacked = unpack(built(root, "sdist", tmp_path / "sdist"), tmp_path / "unpacked")
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in files if "csrc" in name} == NEEDED
    again = built(unpacked, "wheel", tmp_path / "again", hits="1")
    assert wheel_files(again) == wheel

    backend = DOORS[door][1]
    code = f"from {backend.rpartition('.')[0]} import {backend.rpartition('.')[2]} as backend"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    run(sys.executable, "-c", f"{code}; backend.build_editable({str(tmp_path)!r})", cwd=root, PATH=path)
    verified = run(sys.executable, "-m", "hatch_cubin", "verify", "demo", "--rebuild", cwd=root).stdout
    assert "of 2 units compiled again, 2 have exactly the same bytes\n" in verified
    stale = "demo._cubins: the kernels were built before these files changed: ../csrc/near.cuh; "
    assert stale not in run(sys.executable, "-c", READ, cwd=root).stderr
    (tmp_path / "mono/csrc/near.cuh").write_text("#define saxpy saxpy2\n#define saxpy2 saxpy\n")
    assert stale in run(sys.executable, "-c", READ, cwd=root).stderr
    run(sys.executable, "-c", READ, cwd=root, HATCH_CUBIN_REBUILD="1", PATH=path)
    assert stale not in run(sys.executable, "-c", READ, cwd=root).stderr
