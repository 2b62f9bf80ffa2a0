"""The demo project, and builds of it by the hatchling of this process."""

from __future__ import annotations

import itertools
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from hatch_cubin.bundle import loader_files
from tests.helpers import SAXPY, pyproject, wheel_files, write_tree

LOADER = {*loader_files.OF_EVERY, "__init__.pyi", "keys.json", "manifest.json"}
NOTES = {"_editable.py", "editable.json"}
METADATA = {"demo-1.0.dist-info/METADATA", "demo-1.0.dist-info/RECORD", "demo-1.0.dist-info/WHEEL"}
BILL = "demo-1.0.dist-info/sboms/hatch-cubin.cdx.json"
TABLE = "[tool.hatch.build.hooks.cubin]\n"
ONE_ARCH = 'archs = ["sm_90"]\n'

# The beginning of a project for setuptools.
SETUPTOOLS = """\
[build-system]
requires = ["setuptools", "hatch-cubin"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1.0"

"""


def demo(
    root: Path, options: str = ONE_ARCH, files: Mapping[str, str | bytes] | None = None, more: str = ""
) -> Path:
    """Write a project around *files*, by default one kernel; *more* ends its pyproject.toml."""
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY} if files is None else files
    return write_tree(root, {"pyproject.toml": f"{pyproject(options)}\n{more}", **files})


def without_table(root: Path) -> None:
    """Take hatch-cubin's table, and what follows it, out of pyproject.toml."""
    place = root / "pyproject.toml"
    place.write_text(place.read_text().partition(TABLE)[0])


def build(root: Path, *versions: str, hooks_only: bool = False, into: Path | None = None) -> Path:
    """Build a wheel (or the *versions* of one) and return the last."""
    builder = WheelBuilder(str(root))
    directory = str(into or root / "dist")
    artifacts = builder.build(
        directory=directory, versions=list(versions or ["standard"]), hooks_only=hooks_only
    )
    return Path(next(reversed([*artifacts]), directory))


def wheel(root: Path) -> dict[str, bytes]:
    """Return every file of a newly built wheel."""
    return wheel_files(build(root))


def sdist(root: Path) -> set[str]:
    """Return the names of every file of a newly built sdist, below its top folder."""
    with tarfile.open(build_sdist(root)) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def build_sdist(root: Path) -> Path:
    return Path(next(SdistBuilder(str(root)).build(directory=str(root / "dist"))))


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an sdist and return its top folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    (top,) = into.iterdir()
    return top


def in_bundle(*kernels: str, package: str = "demo") -> set[str]:
    """Return the names that a bundle with *kernels* has in a wheel."""
    return {f"{package}/_cubins/{name}" for name in itertools.chain(LOADER, kernels)}


def tree(root: Path) -> set[str]:
    """Return the names of every file below a folder."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def compiled(report: Path) -> int:
    """Return how many units a build compiled, by its HATCH_CUBIN_REPORT."""
    number: int = json.loads(report.read_text("utf-8"))["compiled"]
    return number


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith("hatch-cubin-")]


def add_hook(root: Path, body: str, *, before: bool = False) -> None:
    """Add a hook of the project's own, by default after hatch-cubin's."""
    code = (
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n\n\n"
        "class Hook(BuildHookInterface):\n"
        f"    def initialize(self, version, build_data):\n        {body}\n"
    )
    write_tree(root, {"hatch_build.py": code})
    pyproject_toml = root / "pyproject.toml"
    text, table = pyproject_toml.read_text(), "[tool.hatch.build.hooks.custom]\n"
    pyproject_toml.write_text(text.replace(TABLE, table + TABLE) if before else text + table)
