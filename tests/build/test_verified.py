"""What every door builds passes `verify --rebuild`: wheels with all that is in them, editable installs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.bundle import sbom
from tests.cubins import OTHERS
from tests.helpers import run, write_tree

from . import test_setuptools as by_setuptools
from .projects import build, demo

pytestmark = pytest.mark.nvrtc

OPTIONS = (
    f"{by_setuptools.OPTIONS}[[{{table}}.source]]\npath = 'src/demo/saxpy.cu'\nvariants = {{ N = [1, 2] }}\n"
)
HALF = '#include <cuda_fp16.h>\nextern "C" __global__ void halve(half *x) { *x = __hmul(*x, 0.5f); }\n'
FILES = {**by_setuptools.FILES, "src/demo/half.cu": HALF, "src/demo/kernels/near.cuh": ""}


def hatch(root: Path) -> Path:
    return demo(root, OPTIONS.replace("{table}", "tool.hatch.build.hooks.cubin"), FILES)


def setuptools(root: Path) -> Path:
    return by_setuptools.project(root, OPTIONS.replace("{table}", "tool.hatch-cubin"), FILES)


def lines_of(what: Path, project: Path) -> list[str]:
    """Return what `verify --rebuild` says of what is right, without the bundle's place before each line."""
    command = (
        sys.executable,
        "-m",
        "hatch_cubin",
        "verify",
        str(what),
        "--rebuild",
        "--project",
        str(project),
    )
    return [line.partition("/_cubins: ")[2] for line in run(*command, cwd=project).stdout.splitlines()]


RIGHT = [
    "of 8 units compiled again, 8 have exactly the same bytes",
    f"of {OTHERS} other files made again, {OTHERS} have exactly the same bytes",
]


def test_a_wheel_of_each_backend(tmp_path: Path) -> None:
    by_hatch = build(hatch(tmp_path / "hatch"))
    assert lines_of(by_hatch, tmp_path / "hatch")[1:] == RIGHT
    root = setuptools(tmp_path / "setuptools")
    name = by_setuptools.answer(root, "build_wheel", "dist")
    assert lines_of(root / "dist" / name, root)[1:] == RIGHT
    # Which of them built it nothing tells, and nothing has to.
    assert lines_of(by_hatch, root)[1:] == RIGHT


def test_an_editable_install_of_hatch(tmp_path: Path) -> None:
    root = hatch(tmp_path)
    build(root, "editable", hooks_only=True)
    assert lines_of(root / "src/demo", root)[1:] == RIGHT


@pytest.mark.parametrize("mode", by_setuptools.MODES)
def test_an_editable_install_of_setuptools(tmp_path: Path, mode: str) -> None:
    root = setuptools(tmp_path / "project")
    by_setuptools.answer(root, "build_editable", str(tmp_path), {"editable_mode": mode})
    assert lines_of(root / "src/demo", root)[1:] == RIGHT
    links = root / "build/__editable__.demo-1.0-py3-none-any"
    assert links.is_dir() == (mode == "strict")
    if mode == "strict":
        assert lines_of(links, root)[1:] == RIGHT


def test_a_header_that_changes_no_code_changes_what_the_wheel_says_of_itself(tmp_path: Path) -> None:
    root = hatch(tmp_path)
    wheel = build(root)
    write_tree(root, {"include/far.cuh": "// was changed\n"})
    done = run(sys.executable, "-m", "hatch_cubin", "verify", wheel, "--rebuild", cwd=root, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1] == f"{wheel}/demo/_cubins: {RIGHT[0]}"
    assert done.stderr.splitlines()[-4:] == [
        (
            f"hatch-cubin: error: {wheel}/demo/_cubins: "
            "the rebuild differs in 2 files although all compiled code is equal [file-differs]"
        ),
        "  keys.json",
        f"  {sbom.NAME}",
        "  hint: verify the wheel with the sources and the toolkit of its build",
    ]
