"""Open a project as its own build would see it, where no build front end does: on the command line.

A wrong table is reported at once: what is slow to import waits until the table is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from ..errors import PREFIX, ConfigError, Problem, ToolchainError
from ..table import reader, tables

if TYPE_CHECKING:
    from pathlib import Path

    from ..sources.project import Project
    from ..table.toml import Place

_NOT_SHIPPED = {"benchmarks", "docs", "examples", "test", "tests"}  # from the project's own folder


def open_project(folder: str, environ: Mapping[str, str], stream: TextIO | None, *, verbose: bool) -> Project:
    """Return the project in *folder*; it writes its messages to *stream*, if there is one."""
    table, place, backend = tables.find_table(folder)
    values = reader.read_table(table, place, environ)
    from pathlib import Path

    from .. import _streams
    from .._console import Console
    from ..sources.project import Project
    from ..table.config import make_config

    def tell(kind: str) -> Callable[[str], object]:
        return lambda message: _streams.tell(stream, f"{PREFIX}{kind}{message}")

    root = Path(folder).absolute()
    console = Console(stream, say=tell(""), warn=tell("warning: "))
    return Project(
        root=root,
        packages=packages(root, backend, place),
        config=make_config(values),
        environ=environ,
        say=console.say,
        warn=console.warn,
        units=console.units,
        verbose=verbose,
    )


def require_compiler(project: Project) -> None:
    """Raise ToolchainError, with the command that helps, where what the table names is not installed."""
    from ..toolkit import requirements

    wanted = requirements.build_requirements(project.config, project.environ)
    missing = [each for each in wanted if not requirements.is_installed(each)]
    if missing:
        key, what = "toolkit", "the compiler that the table asks for is not installed here"
        if {*missing} <= {*project.config.header_packages}:
            key, what = "header-packages", "the headers that the table asks for are not installed here"
        # The command names all wheels, for one that is installed may have another version.
        hint = requirements.install_command(project.config, project.environ)
        raise ToolchainError(Problem(what, project.config.place.of(key), hint))


def packages(root: Path, backend: str, place: Place) -> Mapping[str, str]:
    """Return the wheel's top-level packages and their folders, as the build backend would."""
    if backend.startswith("setuptools."):
        from . import setuptools

        return setuptools.packages_of(root)
    if not backend.startswith("hatchling."):
        return found_packages(root)
    try:
        from . import hatch
    except ImportError:
        what = "this project is built with hatchling, which is not installed here"
        raise ConfigError(Problem(what, place.of(), "pip install hatchling")) from None
    return hatch.packages_of(root)


def found_packages(root: Path) -> dict[str, str]:
    """Return the packages that stand in `src/` or, without one, in the project's folder itself."""
    from ..sources.source import BUNDLE

    home = root / "src" if (root / "src").is_dir() else root
    folders = sorted(path.parent for path in home.glob("*/__init__.py"))
    shipped = (folder for folder in folders if home != root or folder.name not in {BUNDLE, *_NOT_SHIPPED})
    return {folder.name: folder.relative_to(root).as_posix() for folder in shipped}
