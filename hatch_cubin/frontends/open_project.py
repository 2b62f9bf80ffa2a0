"""Open a project as its own build would see it, where no build front end does: on the command line.

A wrong table is reported at once: what is slow to import waits until the table is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ..config import known_names, reader, table_location
from ..config.known_names import WRAPPER
from ..errors import PREFIX, ConfigError, Location, Problem, ToolchainError, problem

if TYPE_CHECKING:
    from pathlib import Path

    from ..config.toml_positions import Place
    from ..project.project import Project

_LOADER_PYTHON = 10  # its minor version
_LOWEST_PYTHON = re.compile(r"(?:>=?|~=)\s*3\.(\d+)")
_NOT_SHIPPED = {"benchmarks", "docs", "examples", "test", "tests"}  # from the project's own folder


def open_project(folder: str, environ: Mapping[str, str], stream: TextIO | None, *, verbose: bool) -> Project:
    """Return the project in *folder*; it writes its messages to *stream*, if there is one."""
    table, place, backend = table_location.find_table(folder)
    values = reader.read_table(table, place, environ)
    from pathlib import Path

    from ..common import streams
    from ..common.console import Console
    from ..config.config import make_config
    from ..project.project import Project

    def tell(kind: str) -> Callable[[str], object]:
        return lambda message: streams.print_message(stream, f"{PREFIX}{kind}{message}")

    root = Path(folder).absolute()
    if ".." in root.parts:  # hatchling takes the package's folder for one of another project then
        root = root.resolve()
    console = Console(stream, say=tell(""), warn=tell("warning: "))
    return Project(
        root=root,
        packages=_packages_in(root, values) or packages(root, values.get("backend", backend), place),
        config=make_config(values),
        environ=environ,
        inform=console.say,
        warn=console.warn,
        show_progress=console.units,
        verbose=verbose,
    )


def require_compiler(project: Project) -> None:
    """Raise ToolchainError, with the command that helps, if what a build asks for is not installed."""
    from ..toolkit import installed_wheels, requirements

    wanted = requirements.build_requirements(project.config, project.environ)
    missing = installed_wheels.unmet(
        [*wanted, *(requirements.nvrtc_requirement(project.config.toolkit) if wanted else ())]
    )
    if not missing:
        return
    from ..lockfile import locked_build

    place: Location | None = project.config.place.of("toolkit")
    release = project.config.toolkit
    if "toolkit" in project.config.replaced:
        place = None
    needs = f"a build with CUDA {release}" if release not in {None, "system"} else "a build"
    if place is None:
        needs = f"HATCH_CUBIN_TOOLKIT={release}: {needs}"
    if {*missing} <= {*project.config.header_packages}:
        place, needs = project.config.place.of("header-packages"), "'header-packages'"
    elif missing == [requirements.SIGNATURES]:
        place, needs = project.config.place.of("trusted-keys"), "signing"
    elif missing == [requirements.CLUSTERS]:  # which no table asks for
        place, needs = None, project.as_written("HATCH_CUBIN_EXECUTOR")
    what = f"{needs} needs what is not installed here: {', '.join(map(installed_wheels.shown, missing))}"
    here = ", ".join(installed_wheels.compiler()) or "no part of a compiler"
    # The command names all wheels: one that is installed may be there in another version.
    usual = requirements.install_command(project.config, project.environ)
    hint = locked_build.install_command(project) or usual
    raise ToolchainError(problem("requirement-not-installed", what, place, hint, (f"here: {here}",)))


def check_build(project: Project) -> None:
    """Raise ConfigError for what the project's own build would find wrong, or could not even tell.

    Warn of what leaves kernels out of wheels without an error.
    Of a backend that does not say which packages a wheel has, only what the table says is checked.
    """
    backend = table_location.read_project(project.root)[1]
    problems = missing_requirement(project.root)
    if (
        _tells_packages(project.config.backend or backend)
        or len(project.packages) < 2
        or project.config.package
    ):
        try:
            _ = project.package
        except ConfigError as exc:
            problems += exc.problems
    if problems:
        raise ConfigError(*problems)
    from . import missing_kernels

    for reason in missing_kernels.reasons(project, found_packages(project.root)):
        project.warn(reason.with_code())
    for warning in _older_pythons(project.root):
        project.warn(warning.with_code())


def _older_pythons(root: Path) -> Iterator[Problem]:
    """Yield a warning if the wheel may be installed on a Python that is too old for the loader."""
    pyproject, _backend = table_location.read_project(root)
    allowed = str(table_location.inside(pyproject, "project").get("requires-python", ""))
    lowest = _LOWEST_PYTHON.search(allowed)
    if lowest is not None and int(lowest[1]) < _LOADER_PYTHON:
        where = table_location.place_of(root, ("project",)).of("requires-python")
        what = f"requires-python allows Python 3.{lowest[1]}, but the loader needs Python 3.{_LOADER_PYTHON}"
        yield problem("python-too-old", what, where, f'requires-python = ">=3.{_LOADER_PYTHON}"')


def missing_requirement(root: str | Path) -> tuple[Problem, ...]:
    """Return the problem of a project whose [build-system] does not require hatch-cubin; none otherwise."""
    pyproject, backend = table_location.read_project(root)
    known = table_location.inside(pyproject, "build-system").get("requires")
    misspelled = (
        [each for each in known if known_names.is_nearly_own(each)] if isinstance(known, list) else []
    )
    if not _knows_us(backend) or not (misspelled or not table_location.requires_hatch_cubin(root)):
        return ()
    import json

    where = table_location.place_of(root, ("build-system",)).of("requires")
    hint = f"requires = {json.dumps(known_names.with_us(known))}"
    if misspelled:
        what = f"[build-system] requires {misspelled[0]!r}, which is not hatch-cubin"
        return (problem("misspelled-requirement", what, where, hint),)
    what = "[build-system] does not require hatch-cubin: a build would not have it"
    return (problem("hatch-cubin-not-required", what, where, hint),)


def aimed(project: Project, folder: Path) -> Project:
    """Return the project with the package in that *folder* of it as the one that receives the kernels."""
    import os
    from dataclasses import replace
    from pathlib import Path

    root = Path(os.path.realpath(project.root))
    top = folder
    while top.parent != root and is_package(top.parent):
        top = top.parent
    return replace(
        project,
        packages={**project.packages, top.name: top.relative_to(root).as_posix()},
        config=replace(project.config, package=".".join(folder.relative_to(top.parent).parts)),
    )


def aimed_at_one_of(project: Project, bundles: Iterable[str]) -> Project:
    """Return the project with the package whose bundle, by its folder in the project, is among *bundles*.

    So it is where the table does not say which package that is, and no build backend does: then 'bundle' was
    told, or a finished wheel has shown it. Several leave the project as it is.
    """
    import os
    from pathlib import Path

    _pyproject, backend = table_location.read_project(project.root)
    config, root = project.config, Path(os.path.realpath(project.root))
    if config.package or config.package_dir or _tells_packages(config.backend or backend):
        return project
    folders = {Path(os.path.realpath(root / bundle)).parent for bundle in bundles}
    there = [folder for folder in folders if root in folder.parents and is_package(folder)]
    return aimed(project, there[0]) if len(there) == 1 else project


def is_package(folder: Path) -> bool:
    """Say whether a folder is a package, which code can be imported from."""
    return (folder / "__init__.py").is_file()


def _knows_us(backend: str) -> bool:
    return backend == WRAPPER or _tells_packages(backend)


def _tells_packages(backend: str) -> bool:
    return backend in table_location.HATCH_BACKENDS or backend.startswith("setuptools.")


def _packages_in(root: Path, values: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the package whose folder the table names; None where it names none."""
    if (folder := values.get("package_dir")) is None:
        return None
    from ..project.source_roots import ProjectTree

    if not (root / folder).is_dir() or not ProjectTree(root).is_inside(folder):
        what = f"package-dir: {folder!r} is not a folder of the project"
        raise ConfigError(problem("package-folder-not-found", what, values["place"].of("package-dir")))
    return {values.get("package") or folder.rpartition("/")[2]: folder}


def packages(root: Path, backend: str, place: Place) -> Mapping[str, str]:
    """Return the wheel's top-level packages and their folders, as the build backend would."""
    if backend.startswith("setuptools."):
        from . import setuptools

        return setuptools.packages_of(root)
    if backend not in table_location.HATCH_BACKENDS:
        return found_packages(root)
    try:
        from . import hatch
    except ImportError:
        what = "this project is built with hatchling, which is not installed here"
        raise ConfigError(
            problem("backend-not-installed", what, place.of(), "pip install hatchling")
        ) from None
    return hatch.packages_of(root)


def found_packages(root: Path) -> dict[str, str]:
    """Return the packages in `src/`, in the project's folder, or in the only other folder that has any."""
    from ..project.source import BUNDLE_FOLDER

    def shipped(pattern: str) -> list[Path]:
        """Return the folders of packages, as far as their names do not say that they are not in a wheel."""
        folders = [path.parent.relative_to(root) for path in sorted(root.glob(f"{pattern}/__init__.py"))]
        tops = ((folder, folder.parts[0]) for folder in folders)
        return [folder for folder, top in tops if top[0] != "." and top not in {BUNDLE_FOLDER, *_NOT_SHIPPED}]

    folders = shipped("src/*") or shipped("*")
    if not folders and len({folder.parts[0] for folder in shipped("*/*") + shipped("*/*/*")}) == 1:
        folders = shipped("*/*")
    return {folder.name: folder.as_posix() for folder in folders}
