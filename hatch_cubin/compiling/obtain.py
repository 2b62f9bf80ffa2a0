"""Get the compiled code of all units (a unit is a module for one arch), from the cache or by compiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ..cache import housekeeping
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
    """Return all results that exist already: the results in the cache, and the results in *found*.

    *fetch* is called with the jobs that have no result. *fetch* may download results into the cache.
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
    """Compile all units that are missing in *results*, and add their code or errors to *results*."""
    misses = [job for job in jobs if job.unit not in results.done]
    repeat_warnings(project, results.done.values())
    if cache.damaged:
        project.warn(f"damaged cache entries, which are built again: {cache.damaged}")
    if cache.distrusted:
        project.warn(
            "results in the cache that are not used, because no trusted key has signed them: "
            f"{len(cache.distrusted)}"
        )
    if misses and project.is_switched_on("HATCH_CUBIN_REQUIRE_HITS"):
        results.missing = [job.unit for job in misses]
        from .other_compilers import other_compilers  # lazy import: needed only for this error

        results.others = other_compilers(project, misses, cache)
        results.hits_required_by = project.as_written("HATCH_CUBIN_REQUIRE_HITS")
        if cache.attempt(lambda: housekeeping.is_empty(cache.folder), otherwise=False):
            results.empty_cache = str(cache.folder)
        if "archs" in project.config.replaced:
            results.archs_for_explain = ",".join(project.config.archs)
    elif misses:
        # lazy import: not needed if the cache contains all results
        from .bake import Bake

        alone = [job for job in jobs if not job.linked]
        if any(not job.linked for job in misses):
            Bake(project, alone, cache, toolkit, results).run()
        # Linked modules come last, because their object files must be compiled first.
        if linked := [job for job in misses if job.linked]:
            from .linking import Linking, Links  # lazy import: few projects have linked modules

            if (links := Links(project, linked, results)).ready:
                Linking(project, links.ready, cache, toolkit, results).run_with(links)
        results.failed.sort(key=lambda item: (by_number(item[0].module.name), item[0].arch))
