"""What C++ for the device does not have: the hint, and what comes of following it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import device_rules
from hatch_cubin.errors import CompileError
from tests.helpers import make_project

from .failed_compiles import error, setting

K = 'extern "C" __global__ void k(int *x) {{ {} }}\n'
STRUCT = "struct V {\n  int a;\n}"
BEHIND = "write ; behind the }} of the {} (demo/k.cu:{})"
EXCEPTIONS = "leave try, catch and throw out: a kernel writes an error into memory, or ends with __trap()"
CONSTANT = "give it a constant value, as a constexpr constructor has, or set it in a kernel"
LATER = "declare it without a value, and let a thread set it before a __syncthreads()"
C_TEMPLATE = "a template cannot be extern \"C\": leave that out, and name its arguments in 'instantiate'"
ADD = 'extern "C" __global__ void k(long long *x) {{ atomicAdd({}x, {}1ll); }}\n'
BITS = "CUDA has it for unsigned long long, which gives the same bits: cast the pointer and the value"
ASCII = "{} stands here: outside of quotes and comments, code has ASCII alone"


def hint_of(root: Path, text: str, options: str = "") -> str | None:
    """Return the hint of the only problem of a source; "compiles" if there is none."""
    try:
        pipeline.build(make_project(root, {"k.cu": text}, f"archs = ['sm_90']\n{options}"))
    except CompileError as exc:
        (problem,) = exc.problems
        return problem.hint
    return "compiles"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("text", "hint", "followed"),
    [
        (K.format("if (*x) throw 1;"), EXCEPTIONS, K.format("if (*x) __trap();")),
        (
            "struct V { __device__ V() : a(3) {} int a; };\n__device__ V v;\n" + K.format("*x = v.a;"),
            CONSTANT,
            "struct V { __device__ constexpr V() : a(3) {} int a; };\n__device__ V v;\n"
            + K.format("*x = v.a;"),
        ),
        (
            "__device__ int g() { return 3; }\n__device__ int v = g();\n" + K.format("*x = v;"),
            CONSTANT,
            "__device__ constexpr int g() { return 3; }\n__device__ int v = g();\n" + K.format("*x = v;"),
        ),
        (
            K.format("__shared__ int s = 3; *x = s;"),
            LATER,
            K.format("__shared__ int s; if (!threadIdx.x) s = 3; __syncthreads(); *x = s;"),
        ),
        (
            "struct A { static __global__ void k(int *x) { *x = 1; } };\n",
            "move it out of the class: kernels can be in a namespace",
            "namespace A { __global__ void k(int *x) { *x = 1; } }\n",
        ),
        (
            'extern "C" __global__ int k(int *x) { return 1; }\n',
            "write void, and give it a pointer that it writes its result to",
            'extern "C" __global__ void k(int *x) { *x = 1; }\n',
        ),
        (
            'extern "C" __global__ void k(float *x) { atomicMax(x, 1.0f); }\n',
            "CUDA has it for integers: for other types, write a loop with atomicCAS",
            None,
        ),
        (ADD.format("", ""), BITS, ADD.format("(unsigned long long *)", "(unsigned long long)")),
        (
            K.format("x[threadIdx] = 1;"),
            "threadIdx and blockIdx have three parts: write threadIdx.x",
            K.format("x[threadIdx.x] = 1;"),
        ),
        ('template <class T> extern "C" __global__ void k(T *x) {}\n', C_TEMPLATE, None),
        ('extern "C" {\ntemplate <class T> __global__ void k(T *x) {}\n}\n', C_TEMPLATE, None),
        (
            f"{STRUCT}\n// V\n{K.format('*x = 1;')}",
            BEHIND.format("struct", 3),
            f"{STRUCT};\n{K.format('*x = 1;')}",
        ),
        (
            STRUCT + "\n__global__ void k(V *x) { x->a = 1; }\n",
            BEHIND.format("struct", 3),
            STRUCT + ";\n__global__ void k(V *x) { x->a = 1; }\n",
        ),
        (
            "enum E { A }\n__device__ int f() { return 1; }\n" + K.format("*x = f();"),
            BEHIND.format("enum", 1),
            "enum E { A };\n__device__ int f() { return 1; }\n" + K.format("*x = f();"),
        ),
        (
            'extern "C" __global__ void\u00a0k(int *x) {}\n',
            ASCII.format("U+00A0 (no-break space)"),
            'extern "C" __global__ void k(int *x) {} // \u00a0\n',
        ),
        (
            'extern "C" __global__ void gr\u00f6\u00dfe(int *x) {}\n',
            ASCII.format("'\u00f6' U+00F6 (latin small letter o with diaeresis)"),
            'extern "C" __global__ void groesse(int *x) {}\n',
        ),
        (K.format("*x = 1"), None, K.format("*x = 1;")),
        (
            K.format("int i = threadIdx; *x = i;"),
            "threadIdx and blockIdx have three parts: write threadIdx.x",
            K.format("int i = threadIdx.x; *x = i;"),
        ),
        (
            K.format("int n = *x; __shared__ int s[n]; *x = s[n];"),
            "write extern __shared__ and [] without a size, and give its bytes where the kernel is launched",
            K.format("int n = *x; extern __shared__ int s[]; *x = s[n];"),
        ),
        (
            K.format("int n = *x; int s[n]; *x = s[n];"),
            "an array has a fixed size: write a number, a macro, or a parameter of a template",
            K.format("int n = *x; int s[8]; *x = s[n];"),
        ),
    ],
)
def test_a_rule_of_device_code_has_a_hint_that_works(
    tmp_path: Path, text: str, hint: str | None, followed: str | None
) -> None:
    assert hint_of(tmp_path / "before", text) == hint
    if followed is not None:
        assert hint_of(tmp_path / "after", followed) == "compiles"


@pytest.mark.nvrtc
def test_a_word_of_a_later_standard_has_the_option(tmp_path: Path) -> None:
    text = K.format("auto f = []<class T>(T v) { return v; }; *x = f(1);")
    option = 'options = { std = "c++20" }'
    assert hint_of(tmp_path / "before", text, 'options = { std = "c++17" }') == f"C++20 has it: {option}"
    assert hint_of(tmp_path / "after", text, option) == "compiles"


@pytest.mark.nvrtc
@pytest.mark.parametrize("word", ["__gloabl__", "__global", "global__", "_global_"])
def test_a_misspelt_mark_is_one_error(tmp_path: Path, word: str) -> None:
    text = f'extern "C" {word} void k(float *x) {{ *x = 1; }}\n'
    assert hint_of(tmp_path, text) == "did you mean '__global__'?"


def test_errors_beside_something_else_are_not_theirs(tmp_path: Path) -> None:
    there = setting(tmp_path, text="__device__ void f() {\n}\nint x\n}\n")
    for found in (error("unrecognized token"), error("unrecognized token", "<toolkit>/a.h"), error("x")):
        assert device_rules.characters([found], there) is None
    for line in (1, 3, 5):
        assert device_rules.unfinished([error('expected a ";"', "demo/a.cu", line)], there) is None
    assert device_rules.unfinished([error('expected a ";"', "<toolkit>/a.h")], there) is None
    assert device_rules.broken([error("linkage specification is not allowed")], there) is None


@pytest.mark.nvrtc
def test_a_header_that_needs_a_later_standard_has_the_option(tmp_path: Path) -> None:
    text = "#include <cuda/std/array>\n" + K.format("*x = cuda::std::array<int, 1>{1}[0];")
    option = 'options = { std = "c++17" }'
    assert hint_of(tmp_path / "before", text, 'options = { std = "c++14" }') == f"this sets C++17: {option}"
    assert hint_of(tmp_path / "after", text, option) == "compiles"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "text", [STRUCT, "\n\n__device__ int f(int)", "#define N 1\n// N\nconstexpr int n = N"]
)
def test_a_header_without_its_last_semicolon_is_named(tmp_path: Path, text: str) -> None:
    source = '#include "a.h"\n\n' + K.format("*x = 1;")
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path / "before", {"k.cu": source, "a.h": text}, "archs = ['sm_90']"))
    (problem,) = caught.value.problems
    assert problem.hint == "write ; at the end of demo/a.h:3, whose last declaration is not finished"
    pipeline.build(make_project(tmp_path / "after", {"k.cu": source, "a.h": f"{text};"}, "archs = ['sm_90']"))


def test_a_header_that_is_a_list_or_a_macros_call_is_finished(tmp_path: Path) -> None:
    found = error('expected a ";"', "demo/a.cu", 2)
    for text in ("1,\n2,\n", "DEFINE(float)\n", "namespace a {\n", "int f();\n", "void f() {}\n"):
        there = setting(tmp_path, text='#include "a.h"\nx y\n', files={"demo/a.h": text})
        assert device_rules.unfinished_header([found], there) is None


def test_a_keyword_of_a_later_standard_has_the_option(tmp_path: Path) -> None:
    there = setting(tmp_path, "options = { std = 'c++17' }")
    code = "template <class T> requires true void f();"
    found = error("this declaration has no storage class", "demo/a.cu", 1, code, f"{'^':>20}")
    told = device_rules.broken([found], there)
    assert told is not None
    assert told[0].hint == 'C++20 has it: options = { std = "c++20" }'
