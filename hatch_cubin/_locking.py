"""What a build does by the word of its project's lock: without a compiler, with which one, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ._environment import is_on
from .cache.entries import Cache
from .errors import Location, LockError, Problem
from .keys import lock, locked
from .keys.jobs import Job
from .keys.lock import Lock
from .sources.project import Project, read_sources
from .sources.source import Source
from .table.config import Config
from .toolkit import requirements

SWITCH = "HATCH_CUBIN_LOCKED"


class Word(NamedTuple):
    """A project's lock, and what it says of a build now."""

    lock: Lock
    plan: locked.Plan
    enough: bool  # whether a build needs nothing else: all is as it was, and in the cache


def heard(project: Project, sources: Sequence[Source]) -> Word | None:
    """Return what the project's lock says; None where it has none."""
    found = lock.read(project.root)
    if found is None:
        if project.asks(SWITCH):
            what = "there is no cubin.lock, and HATCH_CUBIN_LOCKED is set"
            raise LockError(Problem(what, hint="'hatch-cubin lock' writes one"))
        return None
    plan = locked.plan(found, project, sources)
    refuse(project, plan.changes)
    enough = not plan.changes and not plan.doubts and _are_cached(project, plan.jobs)
    return Word(found, plan, enough)


def refuse(project: Project, changes: Sequence[str], hint: str = lock.HINT) -> None:
    """Raise LockError where the lock is stale, and the build must not go on without it."""
    if changes and project.asks(SWITCH):
        what = "is stale, and HATCH_CUBIN_LOCKED is set"
        raise LockError(Problem(what, Location(lock.NAME), hint, (*changes,)))


def install_command(project: Project) -> str | None:
    """Return the command that installs the builds of the project's lock; None where there is none for it."""
    found = lock.read(project.root)
    if found is None or not found.wheels or not locked.answers(found, project):
        return None
    return requirements.locked_command(project.config, found.wheels)


def tell(project: Project, changes: Sequence[str]) -> None:
    """Say that the lock is stale, and why, where the build goes on without it."""
    if changes:
        more = f", and {len(changes) - 1} more" * (len(changes) > 1)
        project.say(f"{lock.NAME} is stale ({changes[0]}{more}): {lock.HINT}")


def wanted(config: Config, root: str | Path, project: Callable[[], Project]) -> list[str]:
    """Return what the build front end has to install for a wheel. Without a lock no *project* is opened."""
    now = requirements.build_requirements(config, os.environ)
    if not now or not concerns(root):
        return now
    there = project()
    word = heard(there, read_sources(there))
    if word is None or not locked.answers(word.lock, there):
        return now
    return [] if word.enough else requirements.build_requirements(config, os.environ, word.lock.wheels)


def concerns(root: str | Path) -> bool:
    """Say whether the project at *root* has a lock, or should have one."""
    return is_on(os.environ, SWITCH) or os.path.exists(os.path.join(root, lock.NAME))


def _are_cached(project: Project, jobs: Sequence[Job]) -> bool:
    """Say whether the cache has each result, proven as a build proves it."""
    cache = Cache(project.cache_folder, None, _keep_quiet)
    return all(cache.get(job.keys.key, job.known) is not None for job in jobs)


def _keep_quiet(_warning: str) -> None:
    """Say nothing: the build that follows will."""
