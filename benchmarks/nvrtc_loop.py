"""Compile every unit of the project in this folder with NVRTC and nothing around it; print the seconds.

    python nvrtc_loop.py threads 2
    python nvrtc_loop.py processes 2

The units and their options are those of hatch-cubin's plan. The plan is made, each process is started and has
loaded NVRTC before the clock starts. The digests of the results are printed too.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from cuda.bindings import nvrtc

from hatch_cubin.building import pipeline
from hatch_cubin.frontends import open_project as door
from hatch_cubin.toolkit.toolkit import compiler_options

Unit = tuple[bytes, bytes, list[bytes]]


class Barrier(Protocol):
    """What threads and what processes meet at."""

    def wait(self) -> object: ...


def units() -> list[Unit]:
    """Return each unit's text, name and options."""
    root = Path.cwd()
    project = door.open_project(str(root), os.environ, sys.stderr, verbose=False)
    plan = pipeline.make_plan(project)
    return [
        (
            job.unit.module.source.text.encode(),
            str(root / job.unit.module.source.path).encode(),
            list(compiler_options(job.unit, plan.toolkit, tuple(str(each.path) for each in job.search))),
        )
        for job in plan.jobs
    ]


def compile_one(unit: Unit) -> str:
    """Compile a unit and return its digest."""
    text, name, options = unit
    _status, program = nvrtc.nvrtcCreateProgram(text, name, 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        _status, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytes(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _status, size = nvrtc.nvrtcGetCUBINSize(program)
    code = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return hashlib.sha256(code).hexdigest()


def _start(everyone: Barrier) -> None:
    nvrtc.nvrtcVersion()
    everyone.wait()


def pool_of(kind: str, count: int) -> concurrent.futures.Executor:
    """Return so many threads or processes, all of them ready."""
    pool: concurrent.futures.Executor
    if kind == "threads":
        pool = concurrent.futures.ThreadPoolExecutor(
            count, initializer=_start, initargs=(threading.Barrier(count),)
        )
    else:
        spawn = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(
            count, spawn, initializer=_start, initargs=(spawn.Barrier(count),)
        )
    list(pool.map(len, [b""] * count))  # nobody is free before all are there, so each of these starts one
    return pool


def main() -> None:
    """Compile them all."""
    todo = units()
    with pool_of(sys.argv[1], int(sys.argv[2])) as pool:
        start = time.perf_counter()
        digests = list(pool.map(compile_one, todo))
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "digests": digests}))


if __name__ == "__main__":
    main()
