"""The projects that are built and the tools that they are built with."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")
CACHE = ".cache"  # in the folder of a project
VARIANTS = 24

_SMALL = """\
#include "common.cuh"
extern "C" __global__ void small_{number}(const float *x, float *y, int n) {{
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? twice(x[i]) : 0.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int j = 0; j < {number} % 7 + 2; ++j) sum += tile[(threadIdx.x + j) & 255];
  if (i < n) y[i] = sum + {number}.0f;
}}
"""
_COMMON = "#pragma once\n__device__ inline float twice(float x) { return 2.0f * x; }\n"
_DEEP = """\
#pragma once
#include "common.cuh"
#ifdef TRIED  // by nobody: every branch counts for what is read, and none of it takes the compiler any time
{includes}
#endif
"""
# Of the toolkit, each of which leads to others: none, a dozen, or some hundreds.
_TOOLKITS = (
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "vector_types.h", "cooperative_groups.h",
    "cooperative_groups/reduce.h", "cooperative_groups/scan.h", "cooperative_groups/memcpy_async.h",
    "cuda/atomic", "cuda/barrier", "cuda/pipeline", "cuda/semaphore", "cuda/latch", "cuda/functional",
    "cuda/std/array", "cuda/std/span", "cuda/std/mdspan", "cuda/std/complex", "cuda/std/tuple",
    "cuda/std/optional", "cuda/std/variant", "cuda/std/bit", "cuda/std/chrono", "cuda/std/ratio",
    "cub/block/block_reduce.cuh", "cub/block/block_scan.cuh", "cub/block/block_load.cuh",
    "cub/block/block_radix_sort.cuh", "cub/warp/warp_reduce.cuh", "cub/device/device_reduce.cuh",
    "thrust/complex.h", "thrust/device_vector.h", "thrust/sort.h", "thrust/transform_reduce.h",
)  # fmt: skip
_CUB = """\
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void total(const float *x, float *y) {
  using Reduce = cub::BlockReduce<float, BLOCK>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(x[blockIdx.x * BLOCK + threadIdx.x]);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
"""
_CUTLASS = """\
#include <cutlass/numeric_types.h>
#include <cutlass/array.h>
#include <cutlass/functional.h>
#include <cutlass/numeric_conversion.h>
extern "C" __global__ void fuse(const cutlass::half_t *x, cutlass::half_t *y) {
  using Part = cutlass::Array<cutlass::half_t, BLOCK / 32>;
  Part part;
  for (int i = 0; i < BLOCK / 32; ++i) part[i] = x[threadIdx.x * (BLOCK / 32) + i];
  part = cutlass::multiplies<Part>()(part, cutlass::plus<Part>()(part, part));
  for (int i = 0; i < BLOCK / 32; ++i) y[threadIdx.x * (BLOCK / 32) + i] = part[i];
}
"""
_PYPROJECT = """\
[build-system]
requires = ["hatchling", "hatch-cubin"]
build-backend = "hatchling.build"

[project]
name = "bench"
version = "1.0"
"""
_TABLE = """
[tool.hatch.build.hooks.cubin]
cache-dir = "{cache}"
archs = [{archs}]
"""


def write_project(root: Path, files: dict[str, str], archs: tuple[str, ...], more: str = "") -> Path:
    """Write a project of *files*, with a cache of its own; return its folder."""
    table = _TABLE.format(cache=CACHE, archs=", ".join(f'"{arch}"' for arch in archs))
    for name, text in {"bench/__init__.py": "", "pyproject.toml": _PYPROJECT + table + more, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def small_project(root: Path, count: int, archs: tuple[str, ...] = ARCHS) -> Path:
    """Write a project of *count* small kernels, all of which include one header."""
    files = {f"bench/small_{number}.cu": _SMALL.format(number=number) for number in range(count)}
    return write_project(root, {**files, "bench/common.cuh": _COMMON}, archs)


def alone(number: int) -> str:
    """Return the text of a small kernel that includes nothing."""
    return _SMALL.format(number=number).replace('#include "common.cuh"\n', _COMMON.partition("\n")[2])


def headers_project(root: Path, sources: int, headers: int) -> Path:
    """Write a project of small kernels, each of which includes so many headers of the project."""
    names = [f"part_{number}.cuh" for number in range(headers)]
    start = "".join(f'#include "{name}"\n' for name in names)
    text = "#pragma once\n__device__ inline float part_{}(float x) {{ return x + {}.0f; }}\n"
    return write_project(
        small_project(root, sources),
        {
            **{f"bench/{name}": text.format(number, number) for number, name in enumerate(names)},
            **{f"bench/small_{number}.cu": start + _SMALL.format(number=number) for number in range(sources)},
        },
        ARCHS,
    )


def toolkit_project(root: Path, sources: int, header: str) -> Path:
    """Write a project of small kernels, each of which includes a header of the toolkit."""
    files = {
        f"bench/small_{n}.cu": f"#include <{header}>\n" + _SMALL.format(number=n) for n in range(sources)
    }
    return write_project(small_project(root, sources), files, ARCHS)


def deep_project(root: Path, sources: int, archs: tuple[str, ...] = ARCHS) -> Path:
    """Write a project of small kernels, each with a header of its own that leads to others of the toolkit."""
    files = {}
    for number in range(sources):
        first, step = number % len(_TOOLKITS), 1 + number // len(_TOOLKITS) % (len(_TOOLKITS) - 1)
        some = (_TOOLKITS[(first + step * each) % len(_TOOLKITS)] for each in range(3))
        includes = "\n".join(f"#include <{name}>" for name in dict.fromkeys(some))
        files[f"bench/deep_{number}.cuh"] = _DEEP.format(includes=includes)
        own = f"deep_{number}.cuh"
        files[f"bench/small_{number}.cu"] = _SMALL.format(number=number).replace("common.cuh", own)
    return write_project(small_project(root, sources), files, archs)


def variants_project(root: Path, kernel: str, count: int) -> Path:
    """Write a project of one kernel with heavy headers, in so many variants."""
    blocks = ", ".join(str(32 * number) for number in range(1, count + 1))
    rule = f"""
[[tool.hatch.build.hooks.cubin.source]]
path = "bench/{kernel}.cu"
variants = {{ BLOCK = [{blocks}] }}
"""
    if kernel == "cutlass":
        rule = rule.replace("variants", "options = { device-as-default-execution-space = true }\nvariants")
        rule = f'header-packages = ["nvidia-cutlass"]\n{rule}'
    text = {"cub": _CUB, "cutlass": _CUTLASS}[kernel]
    return write_project(root, {f"bench/{kernel}.cu": text}, ARCHS, rule)


def plain_project(root: Path, files: dict[str, bytes]) -> Path:
    """Write a project that simply includes finished files, and has no hook."""
    write_project(root, {}, ARCHS)
    (root / "pyproject.toml").write_text(_PYPROJECT)
    folder = root / "bench/_cubins"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return root


def tools(name: str) -> list[str]:
    """Return where a program is: beside this interpreter, among NVIDIA's wheels, and on the path."""
    folders = [str(Path(sys.executable).parent)]
    spec = importlib.util.find_spec("nvidia.cu13")
    folders += [f"{entry}/bin" for entry in (spec and spec.submodule_search_locations) or []]
    found = [shutil.which(name, path=folder) for folder in (*folders, os.environ.get("PATH", ""))]
    return list(dict.fromkeys(path for path in found if path))
