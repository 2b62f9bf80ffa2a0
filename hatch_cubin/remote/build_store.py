"""The store that a build has behind its cache folder. A build without one imports nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..cache.entries import Cache
from ..compiling.results import Results
from ..keys.jobs import Job
from ..project.project import Project
from ..toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from .shared_store import Shared

BRIEFLY_S = 1.0  # where the same build will ask again

_WRITE = "HATCH_CUBIN_REMOTE_WRITE"


def open_remote(
    project: Project, cache: Cache, jobs: Sequence[Job], toolkit: Toolkit, patience_s: float | None = None
) -> Shared | None:
    """Return the store of a build of *jobs*; None where it has none."""
    if project.config.remote_cache is None:
        return None
    from .opening import open_shared

    return open_shared(project, cache, toolkit.nvrtc, len(jobs), patience_s)


def fetch(remote: Shared, jobs: Iterable[Job]) -> None:
    """Store in the cache what the store has of the results of *jobs*."""
    remote.fetch({job.keys.key: job.request for job in jobs})


def conclude(project: Project, remote: Shared, jobs: Iterable[Job], results: Results) -> None:
    """Give the store what it lacks, if it may be written, and note what came from it and went there."""
    done = [job for job in jobs if job.unit in results.done]
    if project.is_switched_on(_WRITE):
        remote.push([job.keys.key for job in done])
    results.fetched = {job.unit for job in done if job.keys.key in remote.fetched}
    results.remote = remote.facts
