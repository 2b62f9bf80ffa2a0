"""List the wheels that a build has to install first.

No compiler is required if the cache contains all results that the lock file lists.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..common import temporary_folders
from ..common.environment import is_on
from ..config import known_names, table_location
from ..config.config import Config
from ..errors import HatchCubinError, Problem, problem
from ..project.project import Project, needed_extras, read_sources
from ..toolkit import requirements
from . import lock_format


def required_wheels(config: Config, root: str | Path, project: Callable[[], Project]) -> list[str]:
    """Return the requirements that a build front end (such as pip) has to install to build a wheel."""
    if not requirements.build_requirements(config, os.environ):
        return []
    # cached, because loading the project reads files and may call another build backend
    project = functools.cache(project)
    extras = _extras(project)
    required = requirements.build_requirements(config, os.environ, extras=extras)
    if not has_or_needs_lock(root):
        return required
    # Lazy import: this module is needed only if the project has a lock file.
    from ..remote.build_store import SHORT_PATIENCE_S
    from .lock_comparison import fits_table
    from .locked_build import evaluate

    silent_project = replace(project(), warn=_print_nothing)
    with temporary_folders.make() as hold:
        verdict = evaluate(silent_project, read_sources(silent_project), hold, SHORT_PATIENCE_S)
    if verdict is None or not fits_table(verdict.lock, silent_project):
        return required
    if verdict.results is not None:
        return [
            *requirements.store_requirements(silent_project.config),
            *requirements.of_signatures(config, os.environ),
        ]
    return requirements.build_requirements(config, os.environ, verdict.lock.wheels, extras=extras)


def installed_late(root: str | Path, setup_requires: Iterable[str] = ()) -> Problem | None:
    """Return a problem if a build front end cannot ask hatch-cubin for requirements, such as the compiler.

    A front end first installs the requirements in [build-system], and then asks the build backend and its
    plugins for further requirements. For example, the result of `dependencies` in a build hook of Hatch, and
    *setup_requires* in a setup.py, are requirements that a front end asks for after it has installed
    [build-system]. If a project has *setup_requires*, setuptools does not ask its plugins for requirements.
    """
    pyproject, backend = table_location.read_project(root)
    known = table_location.inside(pyproject, "build-system").get("requires")
    what = (
        "[build-system] does not require hatch-cubin, so pip does not ask hatch-cubin "
        "which compiler to install"
    )
    if isinstance(known, list) and any(map(known_names.is_own, known)):
        if not setup_requires:
            return None
        what = "setuptools does not ask hatch-cubin which compiler to install, because of setup_requires"
    usual = ["hatchling"] if backend in table_location.HATCH_BACKENDS else ["setuptools"]
    listed = [*(known if isinstance(known, list) else usual), *setup_requires]
    requires = json.dumps(known_names.with_hatch_cubin(listed))
    hint = f"requires = {requires}; without build isolation, install the compiler yourself"
    if setup_requires:
        hint = (
            f"remove setup_requires, and write requires = {requires}; "
            "without build isolation, install the compiler yourself"
        )
    return problem(
        "hatch-cubin-not-required",
        what,
        table_location.place_of(root, ("build-system",)).of("requires"),
        hint,
    )


@contextlib.contextmanager
def explain_late_install(root: str | Path, setup_requires: Iterable[str] = ()) -> Iterator[None]:
    """If the `with` block fails because a wheel is missing, also report why the wheel is missing."""
    try:
        yield
    except HatchCubinError as exc:
        late = installed_late(root, setup_requires)
        if late is not None:
            exc.problems = tuple(
                each._replace(hint=late.hint, details=(*each.details, late.what))
                if "install" in (each.hint or "")
                else each
                for each in exc.problems
            )
        raise


def _extras(project: Callable[[], Project]) -> Collection[str]:
    """Return the extras of cuda-toolkit for the project's sources.

    The result is empty if the project has errors, because the build reports these errors later.
    """
    with contextlib.suppress(HatchCubinError):
        return needed_extras(project())
    return ()


def has_or_needs_lock(root: str | Path) -> bool:
    """Return whether the project at *root* has a lock file, or is required to have a lock file."""
    return is_on(os.environ, lock_format.SWITCH) or os.path.exists(os.path.join(root, lock_format.NAME))


def _print_nothing(_warning: str) -> None:
    """Print nothing, because the build itself prints the same warnings later."""
