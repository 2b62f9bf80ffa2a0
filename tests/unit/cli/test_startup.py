"""The command line is quick where nothing is compiled: it imports what it needs, when it needs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import pyproject, run, write_tree

pytestmark = pytest.mark.counted

SLOW = {"cuda", "dataclasses", "hatchling", "importlib.metadata", "json", "pathlib", "platformdirs", "shutil"}
HELP = "import argparse; argparse.ArgumentParser().format_help()"  # imports dataclasses from Python 3.15 on
LIST = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"


def imported(root: Path, *arguments: str) -> set[str]:
    """Return the modules that the command line imports, except those that Python and argparse need."""
    run_it = "import runpy; runpy.run_module('hatch_cubin', run_name='__main__')"
    call = f"sys.argv[1:] = {list(arguments)}; {run_it}"
    idle, busy = (run(sys.executable, "-c", LIST + code, cwd=root, check=False) for code in (HELP, call))
    return {*busy.stderr.splitlines()[-1].split()} - {*idle.stderr.splitlines()[-1].split()}


def test_what_a_command_leaves_is_not_looked_through_when_it_ends(tmp_path: Path) -> None:
    count = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 1000))\n"
    call = "sys.argv[1:] = ['--version']; from hatch_cubin.cli.main import main; main()"
    assert run(sys.executable, "-c", count + call, cwd=tmp_path).stdout.splitlines()[-1] == "True"


def test_help_needs_the_frame_alone(tmp_path: Path) -> None:
    names = imported(tmp_path, "--help")
    assert {name for name in names if name.startswith("hatch_cubin.")} == {
        "hatch_cubin.cli",
        "hatch_cubin.cli.main",
        "hatch_cubin.common",
        "hatch_cubin.common.streams",
    }
    assert names & SLOW == set()


@pytest.mark.parametrize(
    "arguments",
    [["plan"], ["bake", "--jobs", "1"], ["bundle", "--into", "demo"], ["explain", "k.cu"]],
    ids=" ".join,
)
def test_a_wrong_table_is_told_before_anything_slow_is_imported(tmp_path: Path, arguments: list[str]) -> None:
    write_tree(tmp_path, {"pyproject.toml": pyproject("arch = 1\n")})
    names = imported(tmp_path, *arguments)
    assert "hatch_cubin.config.reader" in names
    assert names & SLOW == set()
