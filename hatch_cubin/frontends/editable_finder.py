"""Editable wheels whose backend's own finder does not see the bundle, which is in the tree alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..cache.entries import Content
from ..loader import finder as shipped
from ..project.project import Project
from ..project.source import BUNDLE_FOLDER
from .repack import Wheel


def finder(project: Project, wheel: Wheel) -> dict[str, Content]:
    """Return the files that an editable wheel has to have too; none where a folder of its own is enough."""
    bundle = project.root / project.bundle_folder
    package = Path(*project.package.split("."))
    if any(_is_same(folder / package, bundle.parent) for folder in _folders(wheel)):
        return {}
    name = _module_of(project.package)
    line = f"import {name}; {name}.find({f'{project.package}.{BUNDLE_FOLDER}'!a}, {str(bundle)!a})\n"
    return {f"{name}.py": [Path(shipped.__file__).read_bytes()], f"{name}.pth": [line.encode()]}


def _module_of(package: str) -> str:
    """Return the finder's name: another one for each package, in ASCII, as some Pythons read .pth files."""
    parts = package.replace("_", "__").replace(".", "_")
    return "_cubins_of_" + parts.encode("ascii", "backslashreplace").decode().replace("\\", "_")


def _folders(wheel: Wheel) -> Iterator[Path]:
    """Yield the folders that an editable wheel adds to `sys.path`."""
    for info in wheel.members:
        if info.filename.endswith(".pth"):
            for line in wheel.archive.read(info).decode("utf-8", "replace").splitlines():
                if not line.startswith(("import ", "import\t", "#")):
                    yield Path(line.strip())


def _is_same(folder: Path, other: Path) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)
