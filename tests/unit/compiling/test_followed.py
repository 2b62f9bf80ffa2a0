"""Hints that look like TOML, pasted as they are printed: the source has to compile then."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.config import toml_positions
from hatch_cubin.errors import CompileError, HatchCubinError
from tests.helpers import SAXPY, make_project

pytestmark = pytest.mark.nvrtc

KERNEL = 'extern "C" __global__ void k(float *x) {{ {} }}\n'
ASM = 'extern "C" __global__ void k(int *x) {{ asm volatile("{}"); }}\n'
WGMMA = ASM.format("wgmma.fence.sync.aligned;")


def problem(root: Path, files: Mapping[str, str], options: str) -> HatchCubinError | None:
    """Build a project; return what is wrong with it."""
    try:
        pipeline.build(make_project(root, files, options))
    except CompileError as exc:
        return exc
    return None


def pasted(options: str, hint: str, values: Mapping[str, str]) -> str:
    """Return the table with what a hint shows, its gaps filled with *values*."""
    shown = hint.partition(":\n")[2] or re.split(r"(?<=: )(?=[\w-]+ = )", hint)[-1]
    for name, value in values.items():
        shown = shown.replace(f'{name} = "…"', f'{name} = "{value}"')
    key = shown.partition(" = ")[0]
    kept = [line for line in options.splitlines() if not line.startswith(f"{key} = ")]
    text = "\n".join([*kept, shown])
    toml_positions.loads(text)
    return f"{text}\n"


@pytest.mark.parametrize(
    ("files", "options", "values"),
    [
        ({"k.cu": ASM.format("wgmma.fence.sync.aligned;")}, 'archs = ["sm_80", "sm_90"]', {}),
        ({"k.cu": ASM.format("wgmma.fence.sync.aligned;")}, 'archs = ["90", "80"]', {}),
        (
            {"k.cu": ASM.format("wgmma.fence.sync.aligned;")},
            'archs = ["sm_80", "sm_90", "sm_100", "compute_120"]',
            {},
        ),
        (
            {"k.cu": f"#if __CUDA_ARCH__ >= 900\n{WGMMA}#else\n{SAXPY}#endif\n"},
            'archs = ["80", "90", "compute_120"]',
            {},
        ),
        ({"k.cu": ASM.format("setmaxnreg.inc.sync.aligned.u32 64;")}, 'archs = ["sm_90"]', {}),
        ({"k.cu": ASM.format("barrier.cluster.arrive;")}, 'archs = ["sm_80"]', {}),
        ({"k.cu": f"#if __CUDA_ARCH__ >= 900\n{SAXPY}#endif\n"}, 'archs = ["sm_80", "sm_90"]', {}),
        ({"k.cu": KERNEL.format("*x = INFINITY + M_PI + FLT_MAX + INT_MAX + SIZE_MAX;")}, "", {}),
        ({"k.cu": "__global__ void __cluster_dims__(2, 1, 1) k() {}\n"}, 'archs = ["sm_80"]', {}),
        ({"k.cu": KERNEL.format("__int128 a = 1; *x = a;")}, "", {}),
        ({"k.cu": SAXPY, "f.cu": "__device__ int f() { return 1; }\n"}, "", {}),
        ({"k.cu": KERNEL.format("*x = std::numeric_limits<float>::max();")}, "", {}),
        ({"k.cu": "template <class T> concept C = true;\n" + SAXPY}, 'options = { std = "c++17" }', {}),
        ({"k.cu": KERNEL.format("half h = 1; *x = h;")}, "", {}),
        ({"k.cu": KERNEL.format("cooperative_groups::this_thread_block().sync();")}, "", {}),
        ({"k.cu": KERNEL.format("uint8_t a = 1; *x = a;")}, 'options = { std = "c++20" }', {}),
        (
            {"k.cu": KERNEL.format("__shared__ float s[N]; *x = s[0] + BLOCK_SIZE;")},
            "define = { A = 1 }",
            {"BLOCK_SIZE": "256", "N": "4"},
        ),
        ({"k.cu": f"#ifdef USE_CUDA\n{SAXPY}#endif\n"}, "", {}),
        ({"k.cu": f"#if defined(A) && B\n{SAXPY}#endif\n"}, "", {}),
        ({"k.cu": "template <class T> __global__ void k(T *x) { *x = 1; }\n"}, "", {}),
        ({"k.cu": "template <bool B, class T, int N> __global__ void k(T *x) { *x = B + N; }\n"}, "", {}),
        ({"k.cu": '#include "k.cuh"\n', "k.cuh": "template <int N> __global__ void k(int *x) {}\n"}, "", {}),
        (
            {"k.cu": '#include "x/y.h"\n' + SAXPY, "inc/x/y.h": "", "one/z.h": ""},
            'include-dirs = ["demo/one"]',
            {},
        ),
        ({"k.cu": SAXPY, "t.cu": "@KERNEL@\n"}, "", {}),
        ({"k.cu": "inline int f() { return 1; }\n" + KERNEL.format("*x = f();")}, "", {}),
    ],
)
def test_a_source_compiles_with_what_its_hint_shows(
    tmp_path: Path, files: Mapping[str, str], options: str, values: Mapping[str, str]
) -> None:
    if "archs" not in options:
        options = f'archs = ["sm_90"]\n{options}'
    failed = problem(tmp_path, files, options)
    assert failed is not None
    hint = failed.problems[0].hint
    assert hint is not None
    assert problem(tmp_path, files, pasted(options, hint, values)) is None


@pytest.mark.parametrize("archs", [["sm_90"], ["sm_80", "90"], ["compute_90"]])
def test_a_kernel_that_launches_kernels_builds_with_the_table_that_is_shown(
    tmp_path: Path, archs: list[str]
) -> None:
    text = """
    __global__ void child(int *p) { __shared__ int s[3000]; s[threadIdx.x] = *p; __syncthreads(); *p = s[7]; }
    extern "C" __global__ void k(int *p) {
      cudaStream_t stream;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      child<<<1, 32, 0, stream>>>(p);
    }
    """
    options = f"archs = {json.dumps(archs)}\n"
    found = problem(tmp_path, {"k.cu": text}, options)
    assert found is not None
    (first,) = found.problems
    assert first.hint is not None
    assert problem(tmp_path, {}, f"{options}{first.hint.partition(chr(10))[2]}\n") is None
