"""One byte changed: exactly the units that can see it are compiled again, in a real build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.toolkit import assembler, libraries, toolkit
from tests.helpers import COPY_PTX, SAXPY

from .projects import build, demo

pytestmark = pytest.mark.nvrtc

OPTIONS = """\
archs = ["sm_90", "sm_100"]
include-dirs = ["include"]
define = { N = 1 }
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/far.cu"
options = { lineinfo = false }
"""
FILES = {
    "demo/__init__.py": "",
    "demo/near.cu": SAXPY,
    "demo/far.cu": '#include "one.h"\n' + SAXPY,
    "demo/one.h": "#include <two.h>\n",
    "include/two.h": "#pragma once\n",
    "include/unread.h": "#pragma once\n",
    "demo/copy.ptx": COPY_PTX,
}
SOURCES = {"near", "far", "copy"}
EVERYTHING = {f"{source} for {arch}" for source in SOURCES for arch in ("sm_90", "sm_100")}


def units(*sources: str) -> set[str]:
    return {name for name in EVERYTHING if name.partition(" ")[0] in sources}


def edit(name: str, old: str, new: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """Return what puts *new* in the place of *old* in one file of a project."""

    def change(root: Path, _patch: pytest.MonkeyPatch) -> None:
        text = (root / name).read_text()
        assert text.count(old) == 1
        (root / name).write_text(text.replace(old, new))

    return change


def another_data_model(_root: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(toolkit, "DATA_MODEL", "llp64")


def another_patch(_root: Path, patch: pytest.MonkeyPatch) -> None:
    real = toolkit._exact_build

    def other(name: str, *asked: Any) -> str:
        return f"{real(name, *asked)}{'9' * (name == 'NVRTC')}"

    patch.setattr(toolkit, "_exact_build", other)
    patch.setattr(libraries, "installation", lambda _wanted: None)  # nothing is recalled
    find = assembler.find

    def find_other(wanted: str | None, major: int, build: str, hint: str) -> str:
        return find(wanted, major, build.removesuffix("9"), hint)

    patch.setattr(assembler, "find", find_other)


@pytest.mark.parametrize(
    ("change", "compiled"),
    [
        pytest.param(lambda _root, _patch: None, set(), id="nothing"),
        pytest.param(edit("demo/near.cu", "+= a", "-= a"), units("near"), id="source"),
        pytest.param(edit("demo/copy.ptx", "7.0", "7.1"), units("copy"), id="PTX"),
        pytest.param(edit("demo/one.h", "two.h>", "two.h> "), units("far"), id="header"),
        pytest.param(edit("include/two.h", "once", "once "), units("far"), id="header of a header"),
        pytest.param(edit("include/unread.h", "once", "once "), set(), id="header that nothing reads"),
        pytest.param(edit("pyproject.toml", "N = 1", "N = 2"), units("near", "far"), id="macro"),
        pytest.param(edit("pyproject.toml", "false", "true"), units("far"), id="option of a source"),
        pytest.param(
            edit("pyproject.toml", "sm_90", "sm_120"),
            {f"{source} for sm_120" for source in SOURCES},
            id="arch",
        ),
        pytest.param(another_patch, EVERYTHING, id="NVRTC patch"),
        pytest.param(another_data_model, EVERYTHING, id="data model"),
    ],
)
def test_exactly_what_can_see_a_change_is_compiled_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
    compiled: set[str],
) -> None:
    root, report = demo(tmp_path / "project", OPTIONS, FILES), tmp_path / "report.json"
    monkeypatch.setenv("HATCH_CUBIN_REPORT", str(report))
    build(root)
    assert compiled_units(report) == EVERYTHING
    change(root, monkeypatch)
    build(root)
    assert compiled_units(report) == compiled


def compiled_units(report: Path) -> set[str]:
    listed = json.loads(report.read_text("utf-8"))["units"]
    return {f"{unit['module']} for {unit['arch']}" for unit in listed if unit["state"] == "compiled"}
