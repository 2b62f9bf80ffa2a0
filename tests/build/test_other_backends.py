"""Build backends that know nothing of hatch-cubin: `bundle` first, then they as usual."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin import __version__
from hatch_cubin.bundle import sbom
from tests.cubins import OTHERS
from tests.helpers import SAXPY, run, wheel_files, write_tree

from .conftest import Venv
from .projects import METADATA, in_bundle

pytestmark = pytest.mark.nvrtc

BACKENDS = {"flit": ("flit_core", "flit_core.buildapi"), "uv": ("uv_build", "uv_build")}


@pytest.mark.parametrize("name", BACKENDS)
def test_a_wheel_of_another_backend_has_the_kernels_and_can_load_them(
    tmp_path: Path, venv: Venv, name: str
) -> None:
    requirement, backend = BACKENDS[name]
    pyproject = f"""\
[build-system]
requires = ["{requirement}"]
build-backend = "{backend}"

[project]
name = "demo"
version = "1.0"
description = "A demo"

[tool.hatch-cubin]
archs = ["sm_90"]
"""
    root = write_tree(
        tmp_path / "project",
        {
            "pyproject.toml": pyproject,
            ".gitignore": "_cubins/\n",
            "src/demo/__init__.py": "",
            "src/demo/saxpy.cu": SAXPY,
        },
    )
    run(sys.executable, "-m", "hatch_cubin", "bundle", "--into", "src/demo", cwd=root)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, ".", cwd=root)
    (wheel,) = tmp_path.glob("*.whl")
    assert {name for name in wheel_files(wheel) if not name.endswith("/")} == {
        "demo/__init__.py",
        "demo/saxpy.cu",
        *in_bundle("saxpy.sm_90.cubin", sbom.NAME),
        *METADATA,
    }
    assert run(sys.executable, "-m", "hatch_cubin", "verify", wheel, "--rebuild", cwd=root).stdout == (
        f"{wheel}/demo/_cubins: all 8 files agree with the manifest; the loader is from hatch-cubin "
        f"{__version__}\n"
        f"{wheel}/demo/_cubins: of 1 unit compiled again, 1 has exactly the same bytes\n"
        f"{wheel}/demo/_cubins: of {OTHERS} other files made again, {OTHERS} have exactly the same bytes\n"
    )
    venv.install(wheel)
    code = "from demo import _cubins as c; print(len(c.read('saxpy', cc=(9, 0))))"
    size = len(wheel_files(wheel)["demo/_cubins/saxpy.sm_90.cubin"])
    assert venv.run("-c", code) == f"{size}\n"
