"""What the first process of a cold bake takes, and how long compilers wait for it: they only sleep here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from commands import forget, script, unpack_headers
from measuring import Goal, Row, environment, line
from projects import small_project

_WORKERS, _SLEEP_S = 32, 0.033  # as long as a small kernel takes
_CUBIN = """
import sys
from hatch_cubin.toolkit import worker
code = b'extern "C" __global__ void small(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }'
task = {"id": 0, "kind": "c++", "code": code, "name": b"k.cu", "options": [b"-arch=sm_90"], "instantiate": []}
open(sys.argv[1], "wb").write(worker.compile_task(task)["output"])
"""


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    cubin = folder / "small.cubin"
    subprocess.run([sys.executable, "-c", _CUBIN, cubin], env=environment(), check=True)
    kernels = (25, 100) if quick else (100, 1000)
    roots = [small_project(folder / str(count), count) for count in kernels]
    unpack_headers(roots[0])
    few, many = (_bake(root, cubin) for root in roots)
    _fixed, each, _off = line([(found["units"], found["cpu"]) for found in (few, many)])
    what = f"cold bake, {many['units']} units of {_SLEEP_S * 1e3:g} ms, {_WORKERS} workers"
    yield Row(f"{what}: first process, each unit", "", each * 1e3, None, Goal(0, 0.9), "ms")
    yield Row(f"{what}: share of their time that workers wait", "", 1 - many["busy"], None, Goal(0, 0.1), "×")


def _bake(root: Path, cubin: Path) -> dict[str, Any]:
    forget(root)
    environ = {"HATCH_CUBIN_JOBS": str(_WORKERS)}
    return script(root, "idle_compiler.py", cubin, _SLEEP_S, environ=environ)
