"""Open a project for the command line, with the packages and settings that the project's build would use.

Modules that are slow to import are imported only after pyproject.toml was read, so that mistakes in it are
reported quickly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ..common.distribution_names import comparable_name
from ..common.environment import REMOTE, SIGNING_KEY
from ..config import known_names, reader, table_location
from ..config.known_names import WRAPPER
from ..errors import PREFIX, BundleError, ConfigError, Location, Problem, ToolchainError, problem

if TYPE_CHECKING:
    from pathlib import Path

    from ..config.toml_positions import TableLocation
    from ..project.project import Project

_OWN_SECTION = re.compile(r"^\[(?:tool[.:])?(?:hatch[-_])?cubins?\b", re.MULTILINE)
_LOADER_PYTHON = 10  # the loader in a wheel needs Python 3.10 or later
_LOWEST_PYTHON = re.compile(r"(?:>=?|~=)\s*3\.(\d+)")
_PYTHON_REQUIRES = re.compile(r"^python_requires\s*=\s*(.*)", re.MULTILINE)
_NOT_SHIPPED = {"benchmarks", "docs", "examples", "test", "tests"}  # folders that wheels do not contain


def open_project(folder: str, environ: Mapping[str, str], stream: TextIO | None, *, verbose: bool) -> Project:
    """Return the project in *folder*. Messages are printed to *stream*, unless *stream* is None."""
    table, place, backend = table_location.find_table(folder)
    values = reader.read_table(table, place, environ)
    from pathlib import Path

    from ..common import streams
    from ..common.console import Console
    from ..config.config import make_config
    from ..project.project import Project

    def printer(kind: str) -> Callable[[str], object]:
        return lambda message: streams.print_message(stream, f"{PREFIX}{kind}{message}")

    root = Path(folder).absolute()
    if ".." in root.parts:  # with ".." in the path, hatchling does not find the package in the project
        root = root.resolve()
    console = Console(stream, say=printer(""), warn=printer("warning: "))
    try:
        known_packages = _packages_in(root, values) or packages(root, values.get("backend", backend), place)
    except ConfigError as exc:
        if exc.problems[0].code != "backend-not-installed":
            raise
        raise ConfigError(*missing_requirement(root), *exc.problems) from exc
    return Project(
        root=root,
        packages=known_packages,
        config=make_config(values),
        environ=environ,
        inform=console.say,
        warn=console.warn,
        show_progress=console.units,
        verbose=verbose,
    )


def require_compiler(project: Project) -> None:
    """Raise ToolchainError with an install command if packages that a build needs are missing."""
    from ..toolkit import installed_wheels, requirements

    required = requirements.build_requirements(project.config, project.environ)
    missing = installed_wheels.unmet(
        [*required, *(requirements.nvrtc_requirement(project.config.toolkit) if required else ())]
    )
    if not missing:
        return
    from ..lockfile import locked_build

    place, setting_or_build = _needing(project, missing)
    names = ", ".join(map(installed_wheels.shown, missing))
    what = f"{setting_or_build} needs packages that are not installed here: {names}"
    present = installed_wheels.compiler()
    details = "no package of the compiler is installed here"
    if present:
        details = f"these packages of the compiler are installed here: {', '.join(present)}"
    if {*missing} <= {requirements.SIGNATURES, requirements.CLUSTERS, requirements.BUCKETS}:
        import shlex

        hint = f"pip install {shlex.join(missing)}"
    else:
        # The command lists all packages, because the versions of the packages must match each other.
        usual = requirements.install_command(project.config, project.environ)
        hint = locked_build.install_command(project) or usual
    raise ToolchainError(problem("requirement-not-installed", what, place, hint, (details,)))


def _needing(project: Project, missing: list[str]) -> tuple[Location | None, str]:
    """Return the location of the setting that needs the *missing* packages, and a name for the setting."""
    from ..toolkit import requirements

    config, variables = project.config, project.config.replaced
    if {*missing} <= {*config.header_packages}:
        return config.place.of("header-packages"), "'header-packages'"
    if missing == [requirements.SIGNATURES]:
        in_table = bool(config.trusted_keys)
        return (config.place.of("trusted-keys"), "signing") if in_table else (None, f"{SIGNING_KEY}: signing")
    # only an environment variable can select a cluster, never pyproject.toml
    if missing == [requirements.CLUSTERS]:
        return None, project.as_written("HATCH_CUBIN_EXECUTOR")
    if missing == [requirements.BUCKETS]:
        in_table = "remote_cache" not in variables
        return (config.place.of("remote-cache"), "'remote-cache'") if in_table else (None, REMOTE)
    release = config.toolkit
    needs = f"a build with CUDA {release}" if release not in {None, "system"} else "a build"
    if "toolkit" in variables:
        return None, f"HATCH_CUBIN_TOOLKIT={release}: {needs}"
    return config.place.of("toolkit"), needs


def check_build(project: Project) -> None:
    """Raise ConfigError for mistakes outside hatch-cubin's configuration that would make a build fail.

    Print the warnings of `build_warnings`. If the build backend does not declare the
    wheel's packages, only the package that the configuration names is checked.
    """
    from ..bundle import layout

    backend = table_location.read_project(project.root)[1]
    problems = missing_requirement(project.root)
    if (
        _declares_packages(project.config.backend or backend)
        or len(project.packages) < 2
        or project.config.package
    ):
        try:
            layout.refuse_foreign(project.root / project.bundle_folder)
        except (BundleError, ConfigError) as exc:
            problems += exc.problems
    if problems:
        raise ConfigError(*map(project.config.with_table, problems))
    for warning in build_warnings(project):
        project.warn(warning.with_code())


def build_warnings(project: Project) -> Iterator[Problem]:
    """Yield a warning for each reason why kernels would be missing in wheels, or wheels would not work."""
    from . import missing_kernels

    yield from missing_kernels.reasons(project, found_packages(project.root))
    yield from _older_pythons(project.root)
    yield from _in_setup_cfg(project)
    yield from _installed_late(project.root)


def _older_pythons(root: Path) -> Iterator[Problem]:
    """Yield a warning if the project allows a version of Python that is too old for the loader."""
    pyproject, _backend = table_location.read_project(root)
    in_setup_cfg = _PYTHON_REQUIRES.search(_setup_cfg(root))
    if in_setup_cfg and "project" not in pyproject:
        key, quote, allowed, where = "python_requires", "", in_setup_cfg[1], Location("setup.cfg")
    else:
        key, quote = "requires-python", '"'
        allowed = str(table_location.inside(pyproject, "project").get(key, ""))
        where = table_location.place_of(root, ("project",)).of(key)
    lowest = max(map(int, _LOWEST_PYTHON.findall(allowed)), default=_LOADER_PYTHON)
    if lowest < _LOADER_PYTHON:
        what = f"{key} allows Python 3.{lowest}, but the loader needs Python 3.{_LOADER_PYTHON}"
        right = _LOWEST_PYTHON.sub(f">=3.{_LOADER_PYTHON}", allowed)
        yield problem("python-too-old", what, where, f"{key} = {quote}{right}{quote}")


def _setup_cfg(root: Path) -> str:
    path = root / "setup.cfg"
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _in_setup_cfg(project: Project) -> Iterator[Problem]:
    """Yield a warning if setup.cfg contains settings for hatch-cubin, because no build reads them."""
    place = project.config.place
    if _OWN_SECTION.search(_setup_cfg(project.root)):
        what = "contains settings of hatch-cubin, but builds do not read settings from this file"
        hint = f"move the settings to {place} in {place.file}"
        yield problem("table-in-wrong-place", what, Location("setup.cfg"), hint)


def _installed_late(root: Path) -> Iterator[Problem]:
    """Yield a warning if the project lists no compiler, and pip cannot ask hatch-cubin for a compiler."""
    from ..lockfile import required_wheels
    from ..toolkit import installed_wheels

    backend = table_location.read_project(root)[1]
    listed = map(installed_wheels.name_of, table_location.required(root))
    if _declares_packages(backend) and "cuda-core" not in map(comparable_name, listed):
        late = required_wheels.installed_late(root)
        yield from () if late is None else (late,)


def missing_build_system(root: str | Path) -> Problem | None:
    """Return a problem if pip would use setuptools, although the project configures another backend."""
    import os

    pyproject, _backend = table_location.read_project(root)
    found = known_names.backend_of_tables(table_location.inside(pyproject, "tool"))
    if "build-system" in pyproject or found is None or os.path.exists(os.path.join(root, "setup.py")):
        return None
    table, backend = found
    requirement = next(name for name, right in known_names.BACKENDS.items() if right == backend)
    what = f"there is no [build-system], so pip would ignore {table} and build this project with setuptools"
    table_of_backend = f'[build-system] with requires = ["{requirement}"] and build-backend = "{backend}"'
    for_setuptools = 'requires = ["setuptools"] and build-backend = "setuptools.build_meta"'
    hint = f"add {table_of_backend} (to use setuptools: {for_setuptools}); then run 'hatch-cubin init'"
    return problem("build-system-missing", what, Location("pyproject.toml"), hint)


def missing_requirement(root: str | Path) -> tuple[Problem, ...]:
    """Return a problem if the [build-system] of a project should require hatch-cubin, but does not."""
    pyproject, backend = table_location.read_project(root)
    known = table_location.inside(pyproject, "build-system").get("requires")
    misspelled = (
        [each for each in known if known_names.is_nearly_own(each)] if isinstance(known, list) else []
    )
    needs_hatch_cubin = backend == WRAPPER or _declares_packages(backend)
    if not needs_hatch_cubin or not (misspelled or not table_location.requires_hatch_cubin(root)):
        return ()
    if (unclear := missing_build_system(root)) is not None:
        return (unclear,)
    import json

    where = table_location.place_of(root, ("build-system",)).of("requires")
    hint = f"requires = {json.dumps(known_names.with_hatch_cubin(known))}"
    if misspelled:
        what = f"[build-system] requires {misspelled[0]!r}, a misspelling of hatch-cubin"
        return (problem("misspelled-requirement", what, where, hint),)
    what = "[build-system] does not require hatch-cubin, so a build would run without it"
    return (problem("hatch-cubin-not-required", what, where, hint),)


def with_package(project: Project, folder: Path) -> Project:
    """Return the project, configured to put the kernels into the package in *folder*."""
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


def with_package_of_bundle(project: Project, bundles: Iterable[str]) -> Project:
    """Return a project that puts its kernels into the package that contains one of *bundles*.

    *bundles* are paths of folders in the project with the name _cubins. The paths come from the command line
    or from a finished wheel. *bundles* matter only if neither the configuration nor the build backend names
    the package. If *bundles* are in several packages, the project is returned unchanged.
    """
    import os
    from pathlib import Path

    _pyproject, backend = table_location.read_project(project.root)
    config, root = project.config, Path(os.path.realpath(project.root))
    if config.package or config.package_dir or _declares_packages(config.backend or backend):
        return project
    folders = {Path(os.path.realpath(root / bundle)).parent for bundle in bundles}
    packages_with_bundle = [folder for folder in folders if root in folder.parents and is_package(folder)]
    return with_package(project, packages_with_bundle[0]) if len(packages_with_bundle) == 1 else project


def is_package(folder: Path) -> bool:
    """Return whether a folder is a Python package with an `__init__.py`."""
    return (folder / "__init__.py").is_file()


def _declares_packages(backend: str) -> bool:
    return backend in table_location.HATCH_BACKENDS or backend.startswith("setuptools.")


def _packages_in(root: Path, values: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the package that the setting `package-dir` names, with its folder; None if it is not set."""
    if (folder := values.get("package_dir")) is None:
        return None
    from ..project.source_roots import ProjectTree

    if not (root / folder).is_dir() or not ProjectTree(root).is_inside(folder):
        what = f"package-dir: {folder!r} is not a folder of the project"
        raise ConfigError(problem("package-folder-not-found", what, values["place"].of("package-dir")))
    return {values.get("package") or folder.rpartition("/")[2]: folder}


def packages(root: Path, backend: str, place: TableLocation) -> Mapping[str, str]:
    """Return the top-level packages that the build backend puts into the wheel, each with its folder."""
    if backend.startswith("setuptools."):
        from . import setuptools

        return setuptools.packages_of(root)
    if backend not in table_location.HATCH_BACKENDS:
        return found_packages(root)
    try:
        from . import hatch
    except ImportError:
        what = "this project's build backend, hatchling, is not installed here"
        raise ConfigError(
            problem("backend-not-installed", what, place.of(), "pip install hatchling")
        ) from None
    return hatch.packages_of(root)


def found_packages(root: Path) -> dict[str, str]:
    """Return the packages in `src/`, or else the packages in the project's folder.

    If `src/` and the project's folder contain no packages, but exactly one other folder contains packages,
    return the packages in that other folder.
    """
    from ..project.source import BUNDLE_FOLDER

    def shipped(pattern: str) -> list[Path]:
        """Return the folders of packages, except packages such as `tests` that wheels rarely contain."""
        folders = [path.parent.relative_to(root) for path in sorted(root.glob(f"{pattern}/__init__.py"))]
        tops = ((folder, folder.parts[0]) for folder in folders)
        return [folder for folder, top in tops if top[0] != "." and top not in {BUNDLE_FOLDER, *_NOT_SHIPPED}]

    folders = shipped("src/*") or shipped("*")
    if not folders and len({folder.parts[0] for folder in shipped("*/*") + shipped("*/*/*")}) == 1:
        folders = shipped("*/*")
    return {folder.name: folder.as_posix() for folder in folders}
