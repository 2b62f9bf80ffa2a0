"""Get the result of every unit: look it up in the cache, and compile the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ..cache.entries import Cache, Compiled
from ..common.natural_order import by_number
from ..keys.jobs import Job
from ..planning.unit_plan import Unit
from ..project.project import Project
from ..toolkit.toolkit import Toolkit
from .results import Results, repeat_warnings


def look_up(
    jobs: Sequence[Job],
    cache: Cache,
    found: Mapping[Unit, Compiled] = MappingProxyType({}),
    fetch: Callable[[Sequence[Job]], object] | None = None,
) -> Results:
    """Return the results that were *found* before, and those in the cache.

    *fetch* may add some to the cache.
    """
    results = Results()
    for job in jobs:
        if (hit := found.get(job.unit) or job.cached_result(cache)) is not None:
            results.done[job.unit] = hit
    misses = [job for job in jobs if job.unit not in results.done]
    if misses and fetch is not None:
        fetch(misses)
        results.done |= {job.unit: hit for job in misses if (hit := job.cached_result(cache)) is not None}
    return results


def complete(project: Project, jobs: Sequence[Job], cache: Cache, toolkit: Toolkit, results: Results) -> None:
    """Add an outcome for every other unit: its result, compiled now, or the reason of its failure."""
    misses = [job for job in jobs if job.unit not in results.done]
    repeat_warnings(project, results.done.values())
    if cache.damaged:
        project.warn(f"damaged cache entries, built again: {cache.damaged}")
    if cache.distrusted:
        project.warn(f"units in the cache that no trusted key has signed: {len(cache.distrusted)}")
    if misses and project.is_switched_on("HATCH_CUBIN_REQUIRE_HITS"):
        results.missing = [job.unit for job in misses]
        results.hits_required_by = project.as_written("HATCH_CUBIN_REQUIRE_HITS")
        if "archs" in project.config.replaced:
            results.archs_for_explain = ",".join(project.config.archs)
    elif misses:
        from .bake import Bake  # lazy: not needed if everything is in the cache

        alone = [job for job in jobs if not job.linked]
        if any(not job.linked for job in misses):
            Bake(project, alone, cache, toolkit, results).run()
        if linked := [job for job in misses if job.linked]:  # all their objects exist by now, or have failed
            from .linking import Linking, Links  # lazy: only with linked modules

            if (links := Links(project, linked, results)).ready:
                Linking(project, links.ready, cache, toolkit, results).run_with(links)
        results.failed.sort(key=lambda item: (by_number(item[0].module.name), item[0].arch))
