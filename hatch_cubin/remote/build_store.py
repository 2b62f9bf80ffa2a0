"""Open the remote store of a build, and fetch results from the store.

A build without a remote store does not import any other module of `remote/`.
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

# How many seconds to wait for the store before compiling starts. The build waits for the store again later.
SHORT_PATIENCE_S = 1.0


def open_store(
    project: Project, cache: Cache, jobs: Sequence[Job], toolkit: Toolkit, patience_s: float | None = None
) -> SharedStore | None:
    """Open and return the remote store for a build of *jobs*; None if the project has no remote store."""
    if project.config.remote_cache is None:
        return None
    from .opening import open_shared_store

    return open_shared_store(project, cache, toolkit.nvrtc, len(jobs), patience_s)


def fetch(remote: SharedStore, jobs: Iterable[Job]) -> None:
    """Copy those results of *jobs* that exist in the remote store into the local cache folder."""
    remote.fetch({job.keys.key: job.request for job in jobs})
