"""List the units of a build of the project, and whether each is in the cache.

Nothing is compiled. Each line is a unit: its module, its arch, hit or miss, the first digits of its key in
the cache, and its source.
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

_COLUMNS = ("module", "arch", "state", "source")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    project_arguments(parser)
    archs_argument(parser)
    locked_argument(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Plan the build, and look up each unit in the cache."""
    project = open_project(args)
    check_build(project)
    from ...building import pipeline
    from ...common.natural_order import by_number

    plan = pipeline.choose_plan(project, require_compiler)
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
            for job in sorted(plan.jobs, key=lambda job: by_number(job.unit.module.name))
        ]
    hits = sum(unit["state"] == "hit" for unit in units)
    facts = {
        "cache": str(project.cache_folder),
        "toolchain": plan.toolkit.toolchain().label,
        "hits": hits,
        "misses": len(units) - hits,
        "units": units,
    }
    columns = [(*(unit[name] for name in _COLUMNS), str(unit["key"])[:16]) for unit in units]
    total = count(len(units), "unit")
    return Answer(facts, [*table(columns), f"{total}: {hits} in the cache, {len(units) - hits} to compile"])
