"""Warnings of kernels that compile, and that no GPU can launch."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import limits
from tests.helpers import Coded, make_project

KERNEL = '\nextern "C" __global__ void {} k(float *x) {{ *x = 1; }}\n'
LARGE = (
    'extern "C" __global__ void k(float *x) {{ int n = (int)x[0]; float a[{}]; '
    "for (int i = 0; i < n; i++) a[i] = x[i]; *x = a[(int)x[1]]; }}\n"
)
PTX = """.version 8.0
.target sm_90
.address_size 64
// .entry k
.visible .entry k()
.{}
{{ ret; }}
"""
ABOUT_BOUNDS = " [block-too-large]\n  hint: set the kernel's __launch_bounds__ or .maxntid to 1024 or less"
ABOUT_ATTRIBUTE = (
    " [cluster-too-large]\n"
    "  hint: all GPUs with clusters support up to 8 blocks; larger clusters need the kernel's attribute "
    "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
)
ABOUT_BLOCKS = (
    " [block-too-large]\n  hint: a block can have at most 1024 threads, and at most 64 in its third dimension"
)
ABOUT_CLUSTERS = " [cluster-too-large]\n  hint: all GPUs with clusters support clusters of up to 8 blocks"


def warnings(root: Path, files: dict[str, str | bytes], options: str = "archs = ['sm_90']") -> list[str]:
    """Build a project, and return its warnings."""
    said: list[str] = []
    pipeline.build(dataclasses.replace(make_project(root, files, options), warn=said.append))
    return said


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (
            "__launch_bounds__(2048)",
            "allows blocks of 2048 threads, but GPUs launch at most 1024" + ABOUT_BOUNDS,
        ),
        (
            "__block_size__((2048, 1, 1))",
            f"requires blocks of 2048 x 1 x 1 threads, which no GPU can launch{ABOUT_BLOCKS}",
        ),
        ("__block_size__((1, 1, 128))", f"… 1 x 1 x 128 threads, …{ABOUT_BLOCKS}"),
        (
            "__cluster_dims__(4, 3, 1)",
            "needs clusters of 12 blocks, which not every GPU can launch" + ABOUT_ATTRIBUTE,
        ),
        (
            "__cluster_dims__(32, 1, 1)",
            f"needs clusters of 32 blocks, which no GPU can launch{ABOUT_CLUSTERS}",
        ),
        ("__launch_bounds__(256, 1, 32)", f"… 32 blocks, …{ABOUT_CLUSTERS}"),
    ],
)
def test_a_launch_that_no_gpu_can_make_is_warned_of(tmp_path: Path, mark: str, said: str) -> None:
    (warning,) = warnings(tmp_path, {"k.cu": KERNEL.format(mark)})
    assert warnings(tmp_path, {"k.cu": KERNEL.format(mark)}) == [warning]  # from the cache
    assert re.fullmatch(re.escape(f"demo/k.cu:2: kernel 'k' {said}").replace("…", ".*"), warning)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "mark",
    [
        "__launch_bounds__(1024)",
        "__launch_bounds__(512, 4)",
        "__cluster_dims__(8)",
        "__block_size__((16, 8, 8))",
    ],
)
def test_a_launch_within_the_limits_is_not_warned_of(tmp_path: Path, mark: str) -> None:
    assert warnings(tmp_path, {"k.cu": KERNEL.format(mark)}) == []


@pytest.mark.nvrtc
def test_a_stack_above_the_hardwares_is_warned_of(tmp_path: Path) -> None:
    said = (
        "kernel 'k' needs 600000 bytes of stack for each thread, but a GPU has at most 524288"
        " [stack-too-large]\n"
        "  hint: replace large local arrays by a pointer to device memory"
    )
    assert warnings(tmp_path / "large", {"k.cu": LARGE.format(150_000)}) == [f"demo/k.cu:1: {said}"]
    assert warnings(tmp_path / "most", {"k.cu": LARGE.format(130_000)}) == []


@pytest.mark.nvrtc
def test_a_limit_of_a_header_is_shown_where_it_is(tmp_path: Path) -> None:
    files = {"k.cu": '#include "k.cuh"\n', "k.cuh": KERNEL.format("__launch_bounds__(1025)")}
    (said,) = warnings(tmp_path, {**files})
    assert said.startswith("demo/k.cuh:2: kernel 'k' allows blocks of 1025 threads")


@pytest.mark.nvrtc
def test_ptx_is_shown_at_its_entry_and_a_kernel_of_macros_at_its_source(tmp_path: Path) -> None:
    assert warnings(tmp_path / "ptx", {"k.ptx": PTX.format("reqntid 2048")}) == [
        Coded("block-too-large", "demo/k.ptx:5", "kernel 'k' ", " 2048 x 1 x 1 threads,")
    ]
    text = '#define K(n) extern "C" __global__ void __launch_bounds__(2048) p##n() {}\nK(q)\n'
    (said,) = warnings(tmp_path / "macro", {"k.cu": text})
    assert said.startswith("demo/k.cu: kernel 'pq' allows blocks of 2048 threads")


@pytest.mark.nvrtc
def test_a_linked_module_is_warned_of_too(tmp_path: Path) -> None:
    options = (
        "archs = ['sm_90']\n[[tool.hatch.build.hooks.cubin.module]]\nname = 'm'\n"
        "sources = ['demo/k.cu', 'demo/l.ptx']\nmode = 'lto'\n"
    )
    files: dict[str, str | bytes] = {
        "k.cu": KERNEL.format("__launch_bounds__(2048)"),
        "l.ptx": ".version 8.0\n.target sm_90\n.address_size 64\n",
    }
    assert [each.partition(",")[0] for each in warnings(tmp_path, files, options)] == [
        "demo/k.cu:2: kernel 'k' allows blocks of 2048 threads"
    ]


def test_what_is_no_cubin_has_no_limits() -> None:
    assert limits.exceeded(b"LTO-IR", {}, dict, "demo/k.cu", "sm_90") == []


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ("\n#if __CUDA_ARCH__ < 900\n*x = 1;\n#endif\n", True),
        ("int i = threadIdx.x; int j = i;", True),
        ("(void)x; return;", False),
        ("", False),
    ],
)
def test_a_kernel_without_code_is_warned_of(tmp_path: Path, body: str, *, is_told: bool) -> None:
    text = f'\nextern "C" __global__ void k(int *x) {{{body}}}\n'
    told = [each for each in warnings(tmp_path, {"k.cu": text}) if "[empty-kernel]" in each]
    expected = "demo/k.cu:2: kernel 'k' does nothing: its compiled code for sm_90 is empty [empty-kernel]"
    assert [each.partition("\n")[0] for each in told] == [expected] * is_told


@pytest.mark.nvrtc
def test_instances_of_a_template_without_code_are_told_once(tmp_path: Path) -> None:
    text = "template <class T> __global__ void k(T *x) { if constexpr (false) *x = 1; }\n"
    text += "".join(f"template __global__ void k<{each}>({each} *);\n" for each in ("int", "char"))
    assert len(warnings(tmp_path, {"k.cu": text})) == 1
