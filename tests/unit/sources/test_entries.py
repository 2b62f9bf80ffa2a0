"""Which kernels every compile of a source has: said only where the text cannot mean anything else."""

from __future__ import annotations

import pytest

from hatch_cubin.sources.entries import declared_kernels
from hatch_cubin.sources.source import Source
from tests.helpers import COPY_PTX, SAXPY


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(SAXPY, ["saxpy"], id="one"),
        pytest.param(f"// k\n#pragma once\n#define N 3\n{SAXPY}", ["saxpy"], id="harmless directives"),
        pytest.param('extern "C"\n__global__\nvoid k(int (*f)(int), float x = (1)) {}', ["k"], id="lines"),
        pytest.param('extern "C" __global__ void k();', [], id="only declared"),
        pytest.param('extern "C" __global__ void k(', [], id="cut off"),
        pytest.param("__global__ void k() {}", [], id="a mangled name"),
        pytest.param(f"#if 0\n{SAXPY}#endif\n", [], id="a condition"),
        pytest.param(f"%:ifdef X\n{SAXPY}%:endif\n", [], id="a condition in digraphs"),
        pytest.param(f'#include "k.h"\n{SAXPY}', [], id="a header"),
        pytest.param(f"// {SAXPY.partition(chr(10))[0]}\n", [], id="a comment"),
        pytest.param(f'const char *s = R"({SAXPY})";', [], id="a string"),
        pytest.param(f"#define saxpy other\n{SAXPY}", [], id="a macro"),
        pytest.param(f"#define __global__ static\n{SAXPY}", [], id="a keyword as a macro"),
        pytest.param('#define K(n) extern "C" __global__ void n(int) {} \\\nK(k)\n', [], id="in a macro"),
        pytest.param('#define K \\\nextern "C" __global__ void k() {}\n', [], id="in a macro of two lines"),
    ],
)
def test_kernels_of_a_text(text: str, names: list[str]) -> None:
    assert [*declared_kernels(Source("demo/k.cu", text), {})] == names


def test_a_macro_of_the_compile_may_rename_a_kernel() -> None:
    source = Source("demo/k.cu", SAXPY)
    assert declared_kernels(source, {"N": "1"}) == ["saxpy"]
    assert declared_kernels(source, {"saxpy": "other"}) == []
    assert declared_kernels(source, {"void": "int"}) == []


def test_ptx_says_all_its_kernels_unless_some_are_elsewhere() -> None:
    assert [*declared_kernels(Source("demo/copy.ptx", COPY_PTX), {})] == ["copy"]
    assert [*declared_kernels(Source("demo/copy.ptx", f"{COPY_PTX}.extern .entry far();\n"), {})] == []
