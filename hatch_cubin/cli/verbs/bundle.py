"""Write the compiled kernels into a package's folder, from which any build backend can make the wheel.

DIR is the package's folder inside the project. The command writes the compiled kernels and the code that
loads them into the folder DIR/_cubins (the bundle). Files that are already correct are not written again, and
files that do not belong to the bundle are removed. The command writes the bill of materials into the bundle
and not into the wheel's metadata, because only the build backend can write the metadata.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from ...errors import ConfigError, Location, problem
from ..verb_base import (
    Answer,
    archs_argument,
    json_argument,
    open_project,
    project_arguments,
    require_compiler,
    size,
)

if TYPE_CHECKING:
    from ...project.project import Project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    parser.add_argument(
        "--into",
        metavar="DIR",
        required=True,
        help="the folder of the package into which the kernels are written",
    )
    project_arguments(parser)
    archs_argument(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Build the bundle and write its files."""
    project = _with_package(open_project(args), args.into)
    from ...building import pipeline
    from ...bundle import layout
    from ...project.source import BUNDLE_FOLDER

    files = pipeline.build(project, require=require_compiler)
    folder = project.root / project.bundle_folder
    layout.refuse_foreign(folder)
    layout.write(files, folder, project.root)
    total = sum(map(len, files.values()))
    facts = {
        "package": project.package,
        "folder": project.bundle_folder,
        "bytes": total,
        "files": [{"file": name, "bytes": len(files[name])} for name in sorted(files)],
    }
    return Answer(
        facts, [f"{len(files)} files, {size(total)}, are in {os.path.join(args.into, BUNDLE_FOLDER)}"]
    )


def _with_package(project: Project, into: str) -> Project:
    """Return the project, configured to put the kernels into the package in the folder *into*."""
    from pathlib import Path

    from ...frontends import open_project as frontend
    from ...project.source import BUNDLE_FOLDER

    root, folder = Path(os.path.realpath(project.root)), Path(os.path.realpath(into))
    if folder.name == BUNDLE_FOLDER:
        what = "is a folder of compiled kernels, and not the package whose code imports it"
        hint = f"--into {os.path.normpath(os.path.join(into, os.pardir))}"
        raise ConfigError(problem("not-a-package", what, Location(into), hint))
    if not frontend.is_package(folder):
        what = "is not a package: it does not contain __init__.py"
        hint = "--into must be the folder of the package whose code imports _cubins"
        raise ConfigError(problem("not-a-package", what, Location(into), hint))
    if root not in folder.parents:
        what = f"is outside the project {root}"
        hint = "name another project with --project DIR, or copy _cubins into the package"
        raise ConfigError(problem("package-outside-project", what, Location(into), hint))
    return frontend.with_package(project, folder)
