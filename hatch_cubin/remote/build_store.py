"""The shared store that a build reads results from, and writes results to.

A build without a store imports no other module of this room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..cache.entries import Cache
from ..keys.jobs import Job
from ..project.project import Project
from ..toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from .shared_store import SharedStore

SHORT_PATIENCE_S = 1.0  # for a first question, when the same build will ask again later


def open_store(
    project: Project, cache: Cache, jobs: Sequence[Job], toolkit: Toolkit, patience_s: float | None = None
) -> SharedStore | None:
    """Return the store of a build of *jobs*; None if it has none.

    *patience_s*: how long the build waits for the store in all.
    """
    if project.config.remote_cache is None:
        return None
    from .opening import open_shared_store

    return open_shared_store(project, cache, toolkit.nvrtc, len(jobs), patience_s)


def fetch(remote: SharedStore, jobs: Iterable[Job]) -> None:
    """Copy the results of *jobs* that the store has into the cache folder."""
    remote.fetch({job.keys.key: job.request for job in jobs})
