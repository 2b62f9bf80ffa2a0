"""A unit that another release of the compiler has compiled: `explain` names both builds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import pyproject, run, wheel_files

from .projects import ONE_ARCH, demo

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("isolated")]

HALF = (
    '#include <cuda_fp16.h>\nextern "C" __global__ void half_of(half *x) { *x = *x * __float2half(0.5f); }\n'
)


def test_a_miss_after_another_release_of_cuda_names_both_builds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "12.9" if Toolkit(None).version == (13, 0) else "13.0"
    root = demo(tmp_path, f'toolkit = "{other}"\n{ONE_ARCH}', {"demo/__init__.py": "", "demo/half.cu": HALF})
    run(sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", root / "out", cwd=root)
    manifest = json.loads(wheel_files(root / "out/demo-1.0-py3-none-any.whl")["demo/_cubins/manifest.json"])
    was = manifest["toolchain"]["nvrtc"]
    assert was.startswith(f"{other}.")

    (root / "pyproject.toml").write_text(pyproject(ONE_ARCH))
    assert main(["explain", "--project", str(root), "half"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "miss  half for sm_90",
        f"      NVRTC {was} -> {Toolkit(None).nvrtc}, and the headers and options that come with it",
        "archs  'sm_90' (pyproject.toml:10)",
    ]
