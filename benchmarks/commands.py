"""The commands that are measured: ours, and those that a user would pick instead."""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import Cost, cost, environment
from projects import ARCHS, CACHE, tools

COMMAND = (sys.executable, "-m", "hatch_cubin")
BUILD = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
CORES = len(os.sched_getaffinity(0))
_FOLDER = Path(__file__).parent


def bake(root: Path, jobs: int = CORES) -> Cost:
    """Compile what the project's cache does not have."""
    return cost([*COMMAND, "bake"], root, {"HATCH_CUBIN_JOBS": str(jobs)})


def bake_cold(root: Path, jobs: int = CORES) -> Cost:
    """Compile everything."""
    forget(root)
    return bake(root, jobs)


def forget(root: Path) -> None:
    """Delete the project's cache, and what builds recall."""
    recall = Path(os.environ["XDG_CACHE_HOME"]) / "hatch-cubin/recall"
    for folder in (root / CACHE, recall):
        shutil.rmtree(folder, ignore_errors=True)


def unpack_headers(root: Path) -> None:
    """Have NVRTC's own headers ready, which the first build of a user unpacks."""
    cost([*COMMAND, "plan"], root)


def build(root: Path) -> Cost:
    """Build the project's wheel."""
    return cost(BUILD, root)


def lock(root: Path) -> Cost:
    """Write the project's lock."""
    return cost([*COMMAND, "lock"], root)


def build_locked(root: Path) -> Cost:
    """Build the wheel of a project that has a lock, and fail if the lock is not all that it needs."""
    return cost(BUILD, root, {"HATCH_CUBIN_LOCKED": "1"})


def wheel_of(root: Path) -> Path:
    """Return the wheel that was built."""
    (wheel,) = (root / "dist").glob("*.whl")
    return wheel


def bundle_of(root: Path) -> dict[str, bytes]:
    """Return the files of the bundle in the project's wheel."""
    with zipfile.ZipFile(wheel_of(root)) as archive:
        names = [name for name in archive.namelist() if "/_cubins/" in name]
        return {name.rpartition("/")[2]: archive.read(name) for name in names}


def script(
    root: Path, name: str, *arguments: object, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a script of this folder in the project and return the JSON that it prints."""
    command = [sys.executable, str(_FOLDER / name), *map(str, arguments)]
    surroundings = environment(environ)
    done = subprocess.run(command, cwd=root, env=surroundings, stdout=subprocess.PIPE, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def nvrtc(root: Path, kind: str, count: int) -> Cost:
    """Compile every unit of a project with nothing around NVRTC, so many at once."""
    return Cost(script(root, "nvrtc_loop.py", kind, count)["seconds"])


def cuda_core(root: Path, cache: Path) -> Cost:
    """Compile every unit of a project with cuda.core's Program and its cache, as many threads as cores."""
    return cost([sys.executable, _FOLDER / "core_loop.py", cache, str(CORES)], root / "bench")


def nvcc_each(
    root: Path, nvcc: Sequence[str], sources: Sequence[str], environ: Mapping[str, str] | None = None
) -> Cost:
    """Compile each unit with nvcc, as many at once as there are cores."""
    out = root / "out"
    out.mkdir(exist_ok=True)
    surroundings = environment(environ)

    def compile_one(unit: tuple[str, str]) -> None:
        source, arch = unit
        target = out / f"{Path(source).stem}.{arch}.cubin"
        command = [*nvcc, "-cubin", "-c", f"-arch={arch}", "-o", str(target), source]  # ccache wants the -c
        subprocess.run(command, cwd=root, env=surroundings, capture_output=True, check=True)

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        list(pool.map(compile_one, itertools.product(sources, ARCHS)))
    return Cost(time.perf_counter() - start)


def cmake(root: Path, folder: Path) -> Cost | None:
    """Compile the project's sources with CMake and Ninja; what configuring takes is not counted."""
    program, ninja, nvcc = (next(iter(tools(name)), None) for name in ("cmake", "ninja", "nvcc"))
    if not (program and ninja and nvcc):
        return None
    archs = ";".join(f"{arch[3:]}-real" for arch in ARCHS)
    (root / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(bench LANGUAGES CUDA)\n"
        'file(GLOB sources "bench/*.cu")\nadd_library(bench OBJECT ${sources})\n'
    )
    settings = [f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_CUDA_ARCHITECTURES={archs}"]
    settings += [f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_CUDA_COMPILER_WORKS=1"]
    cost([program, "-G", "Ninja", "-S", root, "-B", folder, *settings], root)
    return cost([ninja, "-C", folder, "-j", str(CORES)], root)


@functools.cache
def in_front(name: str) -> tuple[str, str] | None:
    """Return a compiler cache and the first nvcc that works behind it."""
    for wrapper, nvcc in itertools.product(tools(name), tools("nvcc")):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.cu").write_text("__global__ void k() {}\n")
            command = [wrapper, nvcc, "-cubin", "-c", "-arch=sm_90", "-o", "a.cubin", "a.cu"]
            environ = environment({f"{name.upper()}_DIR": folder})
            done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
            _stop(name, wrapper)
            if not done.returncode:
                return wrapper, nvcc
    return None


def cached_nvcc(name: str, root: Path, sources: Sequence[str], cache: Path) -> Cost:
    """Compile each unit with nvcc behind a compiler cache."""
    command = in_front(name)
    assert command
    try:
        return nvcc_each(root, command, sources, {f"{name.upper()}_DIR": str(cache)})
    finally:
        _stop(name, command[0])


def _stop(name: str, wrapper: str) -> None:
    if name == "sccache":  # the server keeps the folder that it was started with
        subprocess.run([wrapper, "--stop-server"], capture_output=True, check=False)


def version(name: str, program: str | None = None) -> str | None:
    """Return the number that a program gives as its version."""
    program = program or next(iter(tools(name)), None)
    if not program:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    numbers = re.findall(r"\d+\.\d+\.\d+[^\s,]*", said)
    return numbers[0] if numbers else said.strip()
