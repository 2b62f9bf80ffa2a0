"""What a failing build prints: all of it, and nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.helpers import SAXPY, pyproject, run, write_tree

from .projects import SETUPTOOLS, demo

EMPTY = {"demo/__init__.py": ""}
HATCHLING = (sys.executable, "-m", "hatchling")


def _fails(root: Path, target: str = "wheel", **environ: str) -> list[str]:
    """Return the lines that a failing build prints."""
    done = run(*HATCHLING, "build", "-t", target, cwd=root, check=False, **environ)
    assert (done.returncode, done.stdout) == (1, "")
    assert not (root / "dist").exists() or not list((root / "dist").iterdir())
    return done.stderr.splitlines()


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_every_mistake_in_the_table_is_reported_with_its_line(tmp_path: Path, target: str) -> None:
    options = """\
        arch = ["sm_90"]
        jobs = 0
        archs = [
          "sm_90",
          "sm90x",
        ]
        [[tool.hatch.build.hooks.cubin.source]]
        name = "x"
        """
    assert _fails(demo(tmp_path, options), target) == [
        (
            "hatch-cubin: error: pyproject.toml:10: 'arch' is not an option of "
            "[tool.hatch.build.hooks.cubin] [unknown-key]"
        ),
        "  hint: did you mean 'archs'?",
        (
            "hatch-cubin: error: pyproject.toml:11: jobs must be a whole number from 1 to 1024, not 0 "
            "[invalid-value]"
        ),
        "  hint: remove 'jobs': without this key, a build compiles on all cores of the processor",
        (
            "hatch-cubin: error: pyproject.toml:14: archs: 'sm90x' is not an arch; "
            "write sm_90, sm_90a, compute_90, 90-real, 9.0+PTX or all-major [unknown-arch]"
        ),
        "hatch-cubin: error: pyproject.toml:16: this table also needs 'path' [missing-key]",
        "  hint: for example, in this table:",
        '    path = "**/*.cu"  # the sources to which the table applies',
        "hatch-cubin: 4 errors, nothing was built",
    ]


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    assert _fails(demo(tmp_path), HATCH_CUBIN_JOBS="many") == [
        (
            "hatch-cubin: error: HATCH_CUBIN_JOBS: must be a whole number from 1 to 1024, not 'many' "
            "[invalid-variable]"
        ),
        "hatch-cubin: 1 error, nothing was built",
    ]


def test_a_mistake_is_found_while_requirements_are_asked_for(tmp_path: Path) -> None:
    root = demo(tmp_path, 'toolkit = "11"')
    code = "from hatchling.build import get_requires_for_build_wheel as ask; ask()"
    done = run(sys.executable, "-c", code, cwd=root, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        (
            "hatch-cubin: error: pyproject.toml:10: toolkit must be CUDA 12 or later, not '11' "
            "[unknown-cuda-version]"
        ),
        '  hint: toolkit = "12.9"',
        "hatch-cubin: 1 error, nothing was built",
    ]


@pytest.mark.nvrtc
def test_compile_errors_are_told_with_file_and_line_once_for_all_archs(tmp_path: Path) -> None:
    files = {
        **EMPTY,
        "demo/one.cu": SAXPY.replace("x[i];", "x[j];").replace("saxpy", "one"),
        "demo/two.cu": '#include "missing.cuh"\n',
    }
    lines = _fails(demo(tmp_path, 'archs = ["sm_80", "sm_90"]', files))
    errors = [line for line in lines if not line.startswith("  ")]
    assert errors == [
        'hatch-cubin: error: demo/one.cu:3: identifier "j" is undefined [compiler-error]',
        'hatch-cubin: error: demo/two.cu:1: cannot open source file "missing.cuh" [header-not-found]',
        "hatch-cubin: 2 errors, nothing was built",
    ]
    assert sum("while compiling one for sm_80, sm_90 (NVRTC " in line for line in lines) == 1
    assert "Traceback" not in "".join(lines)


@pytest.mark.nvrtc
def test_a_warning_is_told_once_and_the_wheel_is_built(tmp_path: Path) -> None:
    files = {**EMPTY, "demo/saxpy.cu": SAXPY.replace("int i", "int unused, i")}
    done = run(*HATCHLING, "build", "-t", "wheel", cwd=demo(tmp_path, 'archs = ["sm_80", "sm_90"]', files))
    assert done.stderr.splitlines()[-1] == "dist/demo-1.0-py3-none-any.whl"
    warnings = [line for line in done.stderr.splitlines() if "hatch-cubin: warning: " in line]
    assert warnings == [
        (
            'hatch-cubin: warning: demo/saxpy.cu:2: variable "unused" was declared but never referenced'
            " [compiler-warning]"
        )
    ]


@pytest.mark.nvrtc
def test_a_bundle_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    root = write_tree(demo(tmp_path), {"demo/_cubins": "a file where the folder should be"})
    code = (
        "from hatchling.builders.wheel import WheelBuilder\n"
        f"next(WheelBuilder({str(root)!r}).build(directory='dist', versions=['editable'], hooks_only=True))"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        f"hatch-cubin: error: {root}/demo/_cubins: cannot write the bundle: it is a file [file-not-writable]",
        "hatch-cubin: 1 error, nothing was built",
    ]


@pytest.mark.nvrtc
def test_a_successful_build_says_one_line_before_hatchlings_own(tmp_path: Path) -> None:
    done = run(*HATCHLING, "build", "-t", "wheel", cwd=demo(tmp_path, 'archs = ["sm_80", "sm_90"]'))
    line, artifact = done.stderr.splitlines()
    assert re.fullmatch(r"hatch-cubin: 2 units: 0 cached, 2 compiled in \d+\.\d s", line)
    assert artifact == "dist/demo-1.0-py3-none-any.whl"


def test_a_traceback_is_there_for_who_asks(tmp_path: Path) -> None:
    lines = _fails(demo(tmp_path, "jobs = 0"), HATCH_CUBIN_TRACEBACK="1")
    assert lines[0] == "Traceback (most recent call last):"
    assert (
        "hatch_cubin.errors.ConfigError: pyproject.toml:10: jobs must be a whole number from 1 to 1024, not 0"
    ) in lines


@pytest.mark.parametrize("front_end", [("build", "--no-isolation", "--wheel"), ("hatchling", "build")])
def test_a_front_end_passes_the_lines_on(tmp_path: Path, front_end: tuple[str, ...]) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": pyproject("jobs = 0"), **EMPTY})
    done = run(sys.executable, "-m", *front_end, cwd=root, check=False)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    what = "jobs must be a whole number from 1 to 1024, not 0 [invalid-value]"
    assert f"hatch-cubin: error: pyproject.toml:10: {what}\n" in said
    assert "Traceback" not in said


BUILD_META = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
PACKAGE = '[tool.setuptools]\npackages = ["demo"]\n[tool.hatch-cubin]\narchs = ["sm_90"]\n'


@pytest.mark.linux
@pytest.mark.nvrtc
@pytest.mark.parametrize("backend", ["hatchling", "setuptools"])
@pytest.mark.parametrize("redirection", ["2>&-", "<&- >&- 2>&-"])
def test_a_build_that_nobody_can_hear_makes_the_same_wheel(
    tmp_path: Path, backend: str, redirection: str
) -> None:
    root, out = demo(tmp_path / "project"), tmp_path / "out"
    command: tuple[str | Path, ...] = (*HATCHLING, "build", "-t", "wheel", "-d", out)
    if backend == "setuptools":
        write_tree(root, {"pyproject.toml": SETUPTOOLS + PACKAGE})
        command = (sys.executable, "-c", BUILD_META, out)
    run(*command, cwd=root)
    heard = (out / "demo-1.0-py3-none-any.whl").read_bytes()
    run("sh", "-c", f'exec "$@" {redirection}', "sh", *command, cwd=root, HATCH_CUBIN_CACHE_DIR=str(tmp_path))
    if backend == "hatchling":  # setuptools writes into its archives when they were made
        assert (out / "demo-1.0-py3-none-any.whl").read_bytes() == heard
    (root / "demo/saxpy.cu").write_text("no C++")
    assert run("sh", "-c", f'exec "$@" {redirection}', "sh", *command, cwd=root, check=False).returncode == 1
