"""Compile every unit of the project in this folder with NVRTC and nothing around it; print the seconds.

    python nvrtc_loop.py threads 2
    python nvrtc_loop.py processes 2

The units and their options are those of hatch-cubin's plan, which is made before the clock starts.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
import time
from pathlib import Path

from cuda.bindings import nvrtc

from hatch_cubin import _open, _pipeline
from hatch_cubin._console import Console
from hatch_cubin._cuda import compiler_options

Unit = tuple[bytes, bytes, list[bytes]]


def units() -> list[Unit]:
    """Return each unit's text, name and options."""
    root = Path.cwd()
    project = _open.open_project(root, os.environ, Console(sys.stderr, print, print), verbose=False)
    plan = _pipeline.make_plan(project)
    return [
        (
            job.unit.module.source.text.encode(),
            str(root / job.unit.module.source.path).encode(),
            list(compiler_options(job.unit, plan.toolkit, tuple(str(each.path) for each in job.search))),
        )
        for job in plan.jobs
    ]


def compile_one(unit: Unit) -> int:
    """Compile a unit and return its size."""
    text, name, options = unit
    _status, program = nvrtc.nvrtcCreateProgram(text, name, 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        _status, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytes(size + 1)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _status, size = nvrtc.nvrtcGetCUBINSize(program)
    code = bytes(size + 1)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return len(code)


def main() -> None:
    """Compile them all."""
    kind, count = sys.argv[1], int(sys.argv[2])
    todo = units()
    if kind == "threads":
        pool: concurrent.futures.Executor = concurrent.futures.ThreadPoolExecutor(count)
    else:
        pool = concurrent.futures.ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
    with pool:
        list(pool.map(len, [b""] * count))  # what a pool needs to start is not the compiler's
        start = time.perf_counter()
        sizes = list(pool.map(compile_one, todo))
        print(time.perf_counter() - start, len(sizes))


if __name__ == "__main__":
    main()
