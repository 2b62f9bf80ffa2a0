"""Check `editable.json` of an editable install, which lists the watched sources and the build command."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from ...bundle.layout import (
    HATCH_REBUILD,
    WRAPPER_REBUILD,
    EditableInputs,
    describe_editable,
    setuptools_rebuild,
)
from ...bundle.manifest import NOT_OURS, canonical
from ...project.project import Project

EDITABLE_FILE = "editable.json"

_FIELDS = {"files", "folders", "needs", "rebuild", "root", "table"}
# In a strict editable install, setuptools makes a folder with links to the files in _cubins, so editable.json
# contains the absolute path of the project.
_LINKED = setuptools_rebuild("strict")
_BUILDS = {
    (*build.command, *build.needs): build
    for build in (
        HATCH_REBUILD,
        WRAPPER_REBUILD,
        setuptools_rebuild("lenient"),
        setuptools_rebuild("compat"),
        _LINKED,
    )
}


def check_editable_file(data: bytes, folder: str | None) -> dict[str, Any]:
    """Return the content of `editable.json`.

    Raise ValueError if the file is damaged, or if it contains a command that no build of hatch-cubin writes.
    """
    with contextlib.suppress(*NOT_OURS):
        notes: dict[str, Any] = json.loads(data)
        root, build = notes["root"], _BUILDS[_commands_of(notes)]
        from_bundle = None if folder is None else Path(os.path.relpath(".", folder)).as_posix()
        found = os.path.isabs(root) if build is _LINKED else root == from_bundle
        shaped = {*notes} == _FIELDS and all(len(stamp) == 4 for stamp in notes["files"].values())
        if found and shaped and data == f"{canonical(notes)}\n".encode():
            return notes
    raise ValueError("was edited or damaged: hatch-cubin would write this file differently")


def rebuilt_editable_file(project: Project, data: bytes, sources: list[str]) -> bytes:
    """Return the `editable.json` that a build of *project* from *sources* writes.

    The modification times of the sources are taken from *data*, because each checkout of a project gives its
    files new times.
    """
    try:
        notes = check_editable_file(data, project.bundle_folder)
    except ValueError:
        return b""
    build = _BUILDS[_commands_of(notes)]
    found_at = project.root.as_posix() if build is _LINKED else None
    inputs = EditableInputs(sources, project.config.place.content)
    files = describe_editable(project.tree, project.bundle_folder, inputs, build, found_at)
    again = json.loads(files[EDITABLE_FILE])
    for name, stamp in again["files"].items():
        stamp[1:3] = notes["files"].get(name, stamp)[1:3]
    for stamp, before in zip(again["table"][1:2], notes["table"][1:2], strict=False):
        stamp[1:3] = before[1:3]
    return f"{canonical(again)}\n".encode()


def _commands_of(notes: dict[str, Any]) -> tuple[str, ...]:
    return (*notes["rebuild"], *notes["needs"])
