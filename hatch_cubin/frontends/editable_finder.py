"""Make Python find the folder _cubins in an editable install.

In an editable install, _cubins stays in the source tree and is not installed. The import finder of the build
backend may know only the files that the backend itself installs, so hatch-cubin adds its own finder if
necessary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..cache.entries import Content
from ..loader import finder as shipped_finder
from ..project.project import Project
from ..project.source import BUNDLE_FOLDER
from .repack import Wheel


def finder_files(project: Project, wheel: Wheel) -> dict[str, Content]:
    """Return files to add to an editable wheel, so that Python can import _cubins from the source tree.

    No file is needed if the wheel adds the source folder to `sys.path`, because Python finds _cubins there.
    """
    bundle = project.root / project.bundle_folder
    package = Path(*project.package.split("."))
    if any(_is_same(folder / package, bundle.parent) for folder in _folders(wheel)):
        return {}
    name = _module_name(project.package)
    found = f"{project.package}.{BUNDLE_FOLDER}"
    start = f"\n\ndef start() -> None:\n    find({found!a}, {str(bundle)!a})\n"
    return {
        f"{name}.py": [Path(shipped_finder.__file__).read_bytes(), start.encode()],
        f"{name}.pth": [f"import {name}; {name}.start()\n".encode()],
        # PEP 829: Python 3.15 reads this file and ignores the import line in the .pth file. Python 3.18
        # ignores all import lines.
        f"{name}.start": [f"{name}:start\n".encode()],
    }


def _module_name(package: str) -> str:
    """Return the name of the finder's module, which is unique for each package.

    The name has only ASCII characters, because a .pth file contains the name, and the encoding of .pth files
    depends on the version of Python.
    """
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
