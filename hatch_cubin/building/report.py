"""Report the results of a build: as a line of text, and as JSON in the file that HATCH_CUBIN_REPORT names."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..common import file_access
from ..common.natural_order import by_number
from ..common.sizes import count
from ..compiling.identical_variants import identical_variant_notes
from ..compiling.missing_kernels import missing_kernel_notes
from ..compiling.results import Results
from ..compiling.shared_kernels import shared_kernel_notes
from ..keys.jobs import Job
from ..planning.unit_plan import Unit
from ..project.project import Project
from ..project.source_roots import MARK_OF_SDISTS

FORMAT = 1

_SHOWN = 8  # the line of text names at most this many workers; the JSON file lists all workers


def report(project: Project, jobs: Sequence[Job], results: Results, seconds: float) -> None:
    """If all compiles succeeded, print how many results came from the cache, and how many were compiled."""
    if results.failed or results.missing:
        return
    total, compiled = len(results.done), len(results.seconds)
    done = results.done
    shared = shared_kernel_notes(done, partial(_texts_of, project, jobs))
    for note in (*missing_kernel_notes(done), *identical_variant_notes(done), *shared):
        project.inform(note)
    fetched = len(results.fetched)
    cached = total - compiled - fetched
    reused = f"{cached} cached, {fetched} fetched" if fetched else f"{cached} cached"
    project.inform(f"{count(total, 'unit')}: {reused}, {compiled} compiled in {seconds:.1f} s")
    if results.workers:
        project.inform(f"compiled by other machines: {_by_worker(results)}")


def _texts_of(project: Project, jobs: Sequence[Job], unit: Unit) -> Mapping[str, str]:
    # lazy import: needed only if modules share a kernel
    from ..compiling.source_warnings import texts_of

    return next(texts_of(project, job) for job in jobs if job.unit == unit)


def write_report(project: Project, results: Results) -> None:
    """Write the report of all started compiles to the file that HATCH_CUBIN_REPORT names."""
    if not (path := project.environ.get("HATCH_CUBIN_REPORT")):
        return
    try:
        text = json.dumps({"format": FORMAT, **facts(results)}, indent=1)
        file_access.write(path, text + "\n")
    except OSError as exc:
        project.warn(f"HATCH_CUBIN_REPORT: {path} cannot be written: {exc.strerror}")
    if not os.path.isabs(path) and os.path.isfile(MARK_OF_SDISTS):
        project.warn(
            f"HATCH_CUBIN_REPORT: {path} is in an unpacked sdist, which 'python -m build' and 'uv build' "
            "remove after the build: set the variable to an absolute path"
        )


def facts(results: Results) -> dict[str, Any]:
    """Return the state of every compile, and the number of compiles in each state, for the JSON report."""
    states = {unit: "compiled" if unit in results.seconds else "hit" for unit in results.done}
    states |= {unit: "failed" for unit, _found in results.failed} | dict.fromkeys(results.missing, "missing")
    units = [
        {
            "module": unit.module.name,
            "arch": str(unit.arch),
            "state": state,
            "hit": state == "hit",
            "tier": ("remote" if unit in results.fetched else "local") if state == "hit" else None,
            "worker": results.workers.get(unit),
            "seconds": round(results.seconds.get(unit, 0.0), 3),
            "bytes": results.done[unit].size if unit in results.done else 0,
        }
        for unit, state in sorted(states.items(), key=lambda item: by_number(item[0].name))
    ]
    return {
        "hits": len(results.done) - len(results.seconds),
        "compiled": len(results.seconds),
        "failed": len(results.failed),
        "missing": len(results.missing),
        "remote": results.remote,
        "units": units,
    }


def _by_worker(results: Results) -> str:
    """Return the names of the cluster's workers with their numbers of results, the largest number first."""
    counts = Counter(results.workers.values()).most_common()
    more = f", and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
    return ", ".join(f"{worker} {count}" for worker, count in counts[:_SHOWN]) + more
