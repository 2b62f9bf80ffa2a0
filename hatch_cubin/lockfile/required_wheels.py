"""List the wheels that a build has to install first.

No compiler is required if the cache contains all results that the lock file lists.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from ..common import temporary_folders
from ..common.environment import is_on
from ..config.config import Config
from ..errors import HatchCubinError
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
