"""The whole build, for every front end: a project in, the files of its bundle out."""

from __future__ import annotations

import time
from typing import Any

from . import _bundle, _compile, _home, _jobs
from ._cache import Cache
from ._cuda import DATA_MODEL, Toolkit
from ._project import Project, read_sources
from ._report import report
from .errors import HatchCubinError


def build(project: Project) -> dict[str, bytes]:
    """Return the files of the bundle, by name; what the cache does not have is compiled."""
    start = time.monotonic()
    if project.skips:
        project.warn("HATCH_CUBIN_SKIP is set: the bundle has no kernels")
        return _bundle.lay_out([], {"data_model": DATA_MODEL, "skipped": True, "toolchain": {}}, 0)
    _ = project.package  # a wrong one is found out before anything is compiled
    sources = read_sources(project)
    toolkit = Toolkit(project.config.toolkit)
    jobs = _jobs.make_jobs(project, sources, toolkit)
    with Cache(project.cache_folder, project.config.cache_size, project.warn) as cache:
        for doubt in (toolkit.doubt, _home.trouble()):
            if doubt is not None:
                project.warn(doubt)
        results = _compile.obtain(project, jobs, cache, toolkit)
    report(project, results, time.monotonic() - start)
    _compile.require(results, toolkit)
    built = [_bundle.Built(job.unit, results.done[job.unit], job.keys) for job in jobs]
    return _bundle.lay_out(built, _header(project, toolkit), toolkit.major)


def needed_files(project: Project, *, by_name: bool = False) -> list[str]:
    """Return every file of the project that its kernels can be built from: sources and headers.

    With *by_name* only headers that some include names, not all that a computed one could mean.
    """
    try:
        return _jobs.needed_files(project, read_sources(project), by_name=by_name)
    except HatchCubinError:
        if project.skips:  # without kernels, nothing that they are built from has to be right
            return []
        raise


def _header(project: Project, toolkit: Toolkit) -> dict[str, Any]:
    toolchain = {
        "cuda_core": toolkit.core,
        "nvjitlink": toolkit.nvjitlink_if_loaded,
        "nvrtc": toolkit.nvrtc,
    }
    return {"data_model": DATA_MODEL, "folder": project.bundle_folder, "toolchain": toolchain}
