"""What an editable install has noted: `verify` knows what it would run, and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import layout
from hatch_cubin.bundle.manifest import canonical
from hatch_cubin.errors import BundleError, Problem
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.wheels.checking.editable_check import EDITABLE_FILE, check_editable_file
from hatch_cubin.wheels.checking.verify import bundle_problems
from hatch_cubin.wheels.reading.bundles import Bundle, open_wheel
from tests.cubins import cubin
from tests.helpers import bundle, made, write_tree

FOLDER = "src/demo/_cubins"
EDITED = "was edited or damaged: hatch-cubin would write this file differently"


def noted(
    tmp_path: Path, build: layout.RebuildCommand = layout.HATCH_REBUILD, found_at: str | None = None
) -> bytes:
    write_tree(tmp_path, {"src/demo/k.cu": "// k"})
    return layout.describe_editable(
        ProjectTree(tmp_path), FOLDER, layout.EditableInputs(["src/demo/k.cu"]), build, found_at
    )[EDITABLE_FILE]


@pytest.mark.parametrize(
    ("build", "found_at"),
    [
        (layout.HATCH_REBUILD, None),
        (layout.WRAPPER_REBUILD, None),
        (layout.setuptools_rebuild("lenient"), None),
        (layout.setuptools_rebuild("compat"), None),
        (layout.setuptools_rebuild("strict"), "/home/me/project"),
    ],
)
def test_what_a_build_notes_is_right(
    tmp_path: Path, build: layout.RebuildCommand, found_at: str | None
) -> None:
    data = noted(tmp_path, build, found_at)
    assert check_editable_file(data, FOLDER) == json.loads(data)


def put(**fields: Any) -> Callable[[Any], object]:
    return lambda notes: notes.update(fields)


@pytest.mark.parametrize(
    "change",
    [
        put(rebuild=["-c", "import evil"]),
        put(rebuild=[*layout.HATCH_REBUILD.command, "--evil"]),
        put(rebuild=[*layout.setuptools_rebuild("evil').x('").command]),
        put(rebuild="x", needs="y"),
        put(needs=["evil"]),
        put(needs=None),
        put(root="/home/evil"),
        put(root="../../../../evil"),
        put(root=None),
        put(files=[]),
        put(files={"k.cu": 1}),
        put(files={"k.cu": [1, 2, ""]}),
        put(more=1),
        lambda notes: notes.pop("files"),
    ],
)
def test_what_would_run_anything_else_is_told(tmp_path: Path, change: Callable[[Any], object]) -> None:
    notes = json.loads(noted(tmp_path))
    change(notes)
    with pytest.raises(ValueError, match=EDITED):
        check_editable_file(f"{canonical(notes)}\n".encode(), FOLDER)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_what_are_no_notes_are_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=EDITED):
        check_editable_file(data, FOLDER)


def test_a_place_that_is_not_the_projects_is_told(tmp_path: Path) -> None:
    for folder in ("src/deeper/demo/_cubins", None):
        with pytest.raises(ValueError, match=EDITED):
            check_editable_file(noted(tmp_path), folder)


@pytest.mark.parametrize("name", ["_editable.py", EDITABLE_FILE])
def test_verify_compares_the_notes_and_what_reads_them(tmp_path: Path, name: str) -> None:
    code = {
        f"src/demo/_cubins/{each}": data
        for each, data in bundle(made("k", data=cubin("k")), folder=FOLDER).items()
    }
    write_tree(tmp_path, {"src/demo/k.cu": "// k", **code})
    notes = layout.describe_editable(
        ProjectTree(tmp_path), FOLDER, layout.EditableInputs(["src/demo/k.cu"]), layout.HATCH_REBUILD
    )
    for each, data in notes.items():
        (tmp_path / FOLDER / each).write_bytes(data)

    def said() -> list[tuple[str, str]]:
        with open_wheel(str(tmp_path / "src")) as opened:
            found = bundle_problems(opened.bundles[0], in_wheel=False)
            return [(problem.code, Path(str(problem.where)).name) for problem in found]

    assert said() == []
    (tmp_path / FOLDER / name).write_bytes(notes[name] + b" ")
    assert said() == [("not-as-written", name)]


def test_notes_that_cannot_be_read_are_told() -> None:
    files = {**bundle(), EDITABLE_FILE: b""}

    def read(name: str) -> bytes:
        if name == EDITABLE_FILE:
            raise BundleError(Problem("cannot be read"))
        return files[name]

    found = Bundle("demo/_cubins", dict.fromkeys(files), read)
    assert [problem.what for problem in bundle_problems(found, in_wheel=False)] == ["cannot be read"]
