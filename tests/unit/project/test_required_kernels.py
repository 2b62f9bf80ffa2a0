"""Kernels that every compile of a source contains, as far as its text alone shows them."""

from __future__ import annotations

import pytest

from hatch_cubin.cubin.elf import read_cubin
from hatch_cubin.project.required_kernels import required_kernels
from hatch_cubin.project.source import Source
from tests.cubins import compiled
from tests.helpers import COPY_PTX, SAXPY


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(SAXPY, ["saxpy"], id="one"),
        pytest.param(f"// k\n#pragma once\n#define N 3\n{SAXPY}", ["saxpy"], id="harmless directives"),
        pytest.param('extern "C"\n__global__\nvoid k(float4 *a,\nfloat b) {}', ["k"], id="lines"),
        pytest.param('extern "C" {\n__global__ void k(int *a) {}\n}', ["k"], id="a block"),
        pytest.param(f"#define N (1)\nstruct S {{ int a; }};\n{SAXPY}", ["saxpy"], id="behind others"),
        pytest.param('extern "C" __global__ void k(float x = (1)) {}', [], id="a list that is not clear"),
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
    assert [*required_kernels(Source("demo/k.cu", text), {})] == names


_K = 'extern "C" __global__ void k(int *p) { *p = 1; }'
_OTHER = 'extern "C" __global__ void other(int *p) { *p = 2; }'


READ = {
    "the kernel alone": (_K, []),
    "a namespace without a name": (f"namespace {{ {_K} }}", []),
    "one in a namespace with a name": (f"namespace a {{ namespace {{ {_K} }} }}", []),
    "a block in one": (f'namespace {{ extern "C" {{ {_K} }} }}', []),
    "its name is an empty macro": (f"#define X\nnamespace X {{ {_K} }}", []),
    "it has an attribute instead": (f"namespace [[deprecated]] {{ {_K} }}", []),
    "its braces are digraphs": (f"namespace <% {_K} %>", []),
    "its braces are macros": (f"#define A namespace {{\n#define Z }}\nA {_K} Z", []),
    "} namespace {": (f'namespace a {{\n#define A }} namespace {{\nA;\n{_K}\n}} extern "C" {{}}', []),
    "a comment in a macro": (f"#define A namespace /*\n*/ {{\n#define Z }}\nA struct S {{}}; {_K} Z", []),
    "static before": ('extern "C" { static __global__ void k(int *p); }\n' + _K, []),
    "static, a pragma": ('extern "C" { static\n#pragma unroll\n__global__ void k(int *p) {} }', []),
    "a macro ends its list": (
        '#define P ); __global__ void other(int *p\nextern "C" __global__ void k(int *q P) {}',
        [],
    ),
    "a trigraph joins lines": (f"// a ??/\n{_K}\n{_OTHER}", ["-std=c++14"]),
    "no trigraph": (f"// a ??/\n{_K}\n{_OTHER}", ["-std=c++17"]),
    "a blank behind a backslash": (f"// a \\ \n{_K}\n{_OTHER}", []),
    "a form feed before a condition": (f"\f#if 0\n{_K}\n\f#endif\n{_OTHER}", []),
    "no raw string behind a string": (f'#define Q "a"R"(\nnamespace {{\n//)"\n{_K} }}', []),
    "a block of another linkage": (f'extern "C++" {{ {_K} }}', []),
    "a macro": (f'#define KERNEL extern "C" __global__ void\nKERNEL k() {{}} {_OTHER}', []),
}


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("text", "options"),
    READ.values(),
    ids=READ,
)
def test_the_compiler_makes_every_kernel_that_is_read_from_a_text(text: str, options: list[str]) -> None:
    cubin = compiled(text, *options)
    assert cubin is not None
    assert {*required_kernels(Source("demo/k.cu", text), {})} <= {*read_cubin(cubin).kernels}


def test_a_macro_of_the_compile_may_rename_a_kernel() -> None:
    source = Source("demo/k.cu", SAXPY)
    assert required_kernels(source, {"N": "1"}) == ["saxpy"]
    assert required_kernels(source, {"saxpy": "other"}) == []
    assert required_kernels(source, {"void": "int"}) == []
    assert required_kernels(source, {"A": "namespace {", "Z": "}"}) == []
    assert required_kernels(source, {"OTHER": "saxpy"}) == []


def test_all_kernels_of_ptx_are_known_unless_some_are_declared_elsewhere() -> None:
    assert [*required_kernels(Source("demo/copy.ptx", COPY_PTX), {})] == ["copy"]
    assert [*required_kernels(Source("demo/copy.ptx", f"{COPY_PTX}.extern .entry far();\n"), {})] == []
