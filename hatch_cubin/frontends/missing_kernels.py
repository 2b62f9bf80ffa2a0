"""Find the reasons why a project's wheels would not contain the kernels that `hatch-cubin bake` compiles."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ..config import table_location
from ..config.config import DEFAULT_SOURCES
from ..config.known_names import WRAPPER, inside, with_hatch_cubin
from ..errors import Location, Problem, problem
from ..project.project import Project
from ..project.source import BUNDLE_FOLDER, SUFFIXES

_HOOK_SWITCH = "HATCH_BUILD_HOOK_ENABLE_CUBIN"
_NO_HOOKS = "HATCH_BUILD_NO_HOOKS"


def reasons(project: Project, all_packages: dict[str, str]) -> Iterator[Problem]:
    """Yield a problem for each reason why kernels would be missing from the project's wheels."""
    pyproject, backend = table_location.read_project(project.root)
    if project.is_skipped:
        yield problem("kernels-skipped", "HATCH_CUBIN_SKIP is set, so builds make wheels without kernels")
    if backend in table_location.HATCH_BACKENDS:
        yield from _switched_off(project)
    elif backend != WRAPPER and not backend.startswith("setuptools."):
        system = inside(pyproject, "build-system")
        if "backend-path" not in system and not _has_bundle(project):
            yield _other_backend(project, backend, system.get("requires"))
    if project.config.sources == DEFAULT_SOURCES and not project.config.package_dir:
        yield from _packages_outside_wheels(project, all_packages)


def _switched_off(project: Project) -> Iterator[Problem]:
    from .hatch import runs_hook

    if runs_hook(project.root):
        return
    place = project.config.place
    what = f"hatchling does not run the hook in {place}, so wheels will not contain kernels"
    if place.has("enable-by-default"):
        hint = f"remove 'enable-by-default', or set {_HOOK_SWITCH}=1 when you build wheels"
        yield problem("hook-disabled", what, place.of("enable-by-default"), hint)
    else:
        yield problem("hook-disabled", what, place.of(), f"unset {_NO_HOOKS} when you build wheels")


def _other_backend(project: Project, backend: str, requires: object) -> Problem:
    lines = f'build-backend = "{WRAPPER}"'
    if not table_location.requires_hatch_cubin(project.root):
        lines += f" and requires = {json.dumps(with_hatch_cubin(requires, ()))}"
    return problem(
        "backend-without-kernels",
        f"the build backend {backend!r} does not build kernels, so its wheels will not contain any",
        table_location.place_of(project.root, ("build-system",)).of("build-backend"),
        f"write {lines} in [build-system], and write backend = {json.dumps(backend)} in "
        f"{project.config.place}; or run 'hatch-cubin bundle --into FOLDER' before each build",
    )


def _has_bundle(project: Project) -> bool:
    """Return whether a package contains a folder _cubins, which may get into the wheel as package data."""
    folders = (project.root / folder for folder in project.packages.values())
    return any(path.is_dir() for folder in folders for path in folder.rglob(BUNDLE_FOLDER))


def _packages_outside_wheels(project: Project, all_packages: dict[str, str]) -> Iterator[Problem]:
    """Yield a problem for each package that has CUDA sources but is not in the wheel.

    By default, a build compiles only the sources in the wheel's packages.
    """
    inside_wheel = [Path(project.root, folder) for folder in project.packages.values()]
    for name, folder in all_packages.items():
        path = Path(project.root, folder)
        if any(path == each or path in each.parents or each in path.parents for each in inside_wheel):
            continue
        found = sorted(file for suffix in SUFFIXES for file in path.rglob(f"*{suffix}"))
        if found:
            first = os.path.relpath(found[0], project.root).replace(os.sep, "/")
            what = (
                f"is one of {len(found)} sources that are not compiled, because the package {name!r} "
                "is not in the wheel"
                if len(found) > 1
                else f"is not compiled, because the package {name!r} is not in the wheel"
            )
            yield problem(
                "source-not-in-wheel",
                what,
                Location(first),
                "add the package to the wheel, or list the sources to compile in 'sources'",
            )
