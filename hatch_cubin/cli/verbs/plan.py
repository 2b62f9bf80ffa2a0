"""List what a build of the project compiles: each source for each GPU target (arch).

Nothing is compiled. Each line shows a module, an arch, whether the compiled code is in the cache (hit or
miss), the source, and the first digits of the key in the cache.
"""

from __future__ import annotations

import argparse

from ...common.sizes import count
from ..verb_base import (
    Answer,
    archs_argument,
    check_build,
    json_argument,
    locked_argument,
    open_project,
    project_arguments,
    require_compiler,
    table,
)

_COLUMNS = ("arch", "state", "source")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    project_arguments(parser)
    archs_argument(parser)
    locked_argument(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Plan a build, and look up each compiled file in the cache."""
    project = open_project(args)
    check_build(project)
    from ...building import pipeline
    from ...common.natural_order import by_number
    from ...frontends import ignored_sources

    plan = pipeline.choose_plan(project, require_compiler)
    jobs = sorted(plan.jobs, key=lambda job: by_number(job.unit.module.name))
    with pipeline.open_cache(project) as cache:
        units = [
            {
                "module": job.unit.module.name,
                "arch": str(job.unit.arch),
                "state": "hit" if job.unit in plan.found or job.cached_result(cache) else "miss",
                "key": job.keys.key.hex(),
                "program_key": job.keys.program_key and job.keys.program_key.hex(),
                "source": job.unit.module.source.path,
            }
            for job in jobs
        ]
    hits = sum(unit["state"] == "hit" for unit in units)
    facts = {
        "cache": str(project.cache_folder),
        "toolchain": plan.toolkit.toolchain().label,
        "hits": hits,
        "misses": len(units) - hits,
        "units": units,
    }
    columns = [
        (job.unit.module.short_name, *(unit[name] for name in _COLUMNS), str(unit["key"])[:16])
        for job, unit in zip(jobs, units, strict=True)
    ]
    total = count(len(units), "unit")
    lines = [*table(columns), f"{total}: {hits} in the cache, {len(units) - hits} to compile"]
    return Answer(facts, lines, warnings=[*ignored_sources.warnings(project)])
