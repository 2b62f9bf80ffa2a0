"""Kernels that texts declare, and an example of arguments for each template among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints.kernel_declarations import GAP, declared, examples
from hatch_cubin.errors import Location
from tests.helpers import make_project

RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'
# Templates of kernels, with what their files declare beside them, and the example that is shown for each.
TEMPLATES = {
    "template <typename T> __global__ void k(T *x, T f) { *x *= f; }": "k<float>",
    "template <class T, int N> __global__ void k(T *x) { *x = N; }": "k<float, 4>",
    "template <int N, typename T> void __global__ k(T *x) { *x = N; }": "k<4, float>",
    "template <bool B, unsigned N> __global__ void k(int *x) { if (B) *x = N; }": "k<true, 4>",
    "template <int BLOCK_SIZE, int DIM> __launch_bounds__(BLOCK_SIZE) __global__ void k(int *x) {}": (
        "k<32, 2>"
    ),
    "template <typename T> __global__ void __launch_bounds__(128) k(T *x) {}": "k<float>",
    "#define B(n) __launch_bounds__(n)\ntemplate <class T> __global__ void B(64) k(T *x) {}": "k<float>",
    "#define KERNEL template <typename T> \\\n  __global__ void\nKERNEL k(T *x) {}": "k<float>",
    "enum class Op { Sum, Max }; enum Mode { FAST, SLOW };\n"
    "template <Op op, Mode m> __global__ void k(int *x) { *x = (int)op + m; }": "k<Op::Sum, Mode::FAST>",
    "namespace a { struct S { enum E : int { ONE = 1 }; }; }\n"
    "template <a::S::E e> __global__ void k(int *x) { *x = e; }": "k<a::S::E::ONE>",
    "namespace a::b { namespace { template <class T> __global__ void k(T *x) {} } }": "a::b::k<float>",
    'extern "C++" { template <class T> __global__ void k(T *x) {} }': "k<float>",
    "template <class T> struct Add { __device__ T operator()(T a) { return a; } };\n"
    "template <template <class> class F, class T> __global__ void k(T *x) { F<T>()(*x); }": "k<Add, float>",
    "template <typename... Ts> __global__ void k(Ts *...x) {}": "k<float>",
    "template <class T> __global__ void k(T *x, T m) { x[0] %= m; }": "k<int>",
    "template <class T> __global__ void k(T *x) { x[0] ^= 1; }": "k<int>",
    "template <class T, class IndexT> __global__ void k(T *x, IndexT *i) { *x = i[*i]; }": "k<float, int>",
    "template <class T, int BLOCK_THREADS> __global__ void k(T *x) { *x = BLOCK_THREADS; }": "k<float, 32>",
    "template <class T, int... Ns> __global__ void k(T *x) {}": "k<float>",
    "template <class T = float, int N = 4> __global__ void k(T *x) {}": "k<>",
    "template <class T, int N = sizeof(T) * (2 > 1 ? 2 : 1)> __global__ void k(T *x) {}": "k<float>",
    "template <auto V> __global__ void k(int *x) { *x = V; }": "k<4>",
    "template <unsigned long long S, char C, long L> __global__ void k(int *x) {}": "k<4, 4, 4>",
    "template <int> __global__ void k(int *x) {}": "k<4>",
    "template <typename T, T V> __global__ void k(T *x) { *x = V; }": "k<int, 4>",
    "template <const int *P> __global__ void k(int *x) { if (P) *x = 1; }": "k<nullptr>",
    "__device__ float one(int x) { return x; }\n__device__ float two(float v) { return v; }\n"
    "template <float (*F)(float)> __global__ void k(float *x) { *x = F(*x); }": "k<two>",
    "struct P { static const int n = 4; };\n"
    "template <class Policy> __global__ void k(int *x) { *x = Policy::n; }": "k<P>",
    "struct Other {}; struct Twice { __device__ float operator()(float v) const { return 2 * v; } };\n"
    "template <class F> __global__ void k(F f, float *x) { *x = f(*x); }": "k<Twice>",
    "struct Im { int size; };\ntemplate <class I> __global__ void k(I im, int *x) { *x = im.size; }": "k<Im>",
    "#include <cuda/std/type_traits>\n"
    "template <class T, class = cuda::std::enable_if_t<cuda::std::is_integral_v<T>>>\n"
    "__global__ void k(T *x) {}": ("k<int>"),
    '// "}" { template <int N> __global__ void no() {}\n'
    'template <class T> __global__ void k(T *x) { asm("{ }"); }': "k<float>",
}


@pytest.mark.parametrize(("text", "example"), TEMPLATES.items())
def test_a_template_gets_an_argument_of_the_right_kind_for_each_parameter(text: str, example: str) -> None:
    found = declared({"demo/k.cu": text})
    assert examples(found, found.kernels) == [example]


@pytest.mark.nvrtc
def test_every_example_compiles(tmp_path: Path) -> None:
    files = {f"k{number}.cu": text for number, text in enumerate(TEMPLATES)}
    rules = "".join(
        f'{RULE.replace("k.cu", name)}instantiate = ["{example}"]\n'
        for name, example in zip(files, TEMPLATES.values(), strict=True)
    )
    assert pipeline.build(make_project(tmp_path, files, f'archs = ["sm_90"]\n{rules}'))


@pytest.mark.nvrtc
def test_a_parameter_with_a_constraint_is_a_type(tmp_path: Path) -> None:
    text = (
        "template <class T> concept Any = true;\n"
        "template <Any T, int N> requires Any<T> __global__ void k(T *x) { *x = N; }\n"
    )
    found = declared({"demo/k.cu": text})
    assert examples(found, found.kernels) == ["k<float, 4>"]
    options = f'archs = ["sm_90"]\noptions = {{ std = "c++20" }}\n{RULE}instantiate = ["k<float, 4>"]\n'
    assert pipeline.build(make_project(tmp_path, {"k.cu": text}, options))


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("template <class F> __global__ void k(F f, float *x) { *x = f(*x); }", f"k<{GAP}>"),
        ("template <class P> __global__ void k(int *x) { *x = P::n; }", f"k<{GAP}>"),
        ("template <template <class> class F> __global__ void k(int *x) {}", f"k<{GAP}>"),
        ("template <int &R> __global__ void k(int *x) {}", f"k<{GAP}>"),
        ("template <int (*F)(int)> __global__ void k(int *x) { *x = F(*x); }", "k<nullptr>"),
        ("template <double D> __global__ void k(double *x) { *x = D; }", "k<1.0>"),
        ("struct S { int a; };\ntemplate <S s> __global__ void k(int *x) { *x = s.a; }", "k<S{}>"),
        ("template <std::integral T> __global__ void k(T *x) {}", "k<int>"),
        ("template <class T> __global__ void k(T *x)", "k<float>"),
        ("template <class T, int N", None),
        ("template <class T> __global__ void k", None),
        ("template <class T> __global__ auto k;", None),
    ],
)
def test_what_no_example_is_known_for_is_left_open(text: str, example: str | None) -> None:
    found = declared({"demo/k.cu": text})
    assert examples(found, found.kernels) == ([] if example is None else [example])


def test_kernels_have_their_names_their_heads_and_their_places() -> None:
    text = "namespace n {\ntemplate <class T>\n__global__ void a(T *x);\n}\n__global__ void b() {}\n"
    found = declared({"demo/k.cu": "", "demo/k.cuh": text})
    assert [(each.name, each.base, each.template, each.where) for each in found.kernels] == [
        ("n::a", "a", "template <class T>", Location("demo/k.cuh", 3)),
        ("b", "b", "", Location("demo/k.cuh", 5)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "template <class T> __device__ T f(T x) { return x; }",
        "template <> __global__ void k<float>(float *x) {}",
        "template __global__ void k<float>(float *);",
        "__global__ void k(float *x) {}",
        "// template <class T> __global__ void k(T *x) {}",
    ],
)
def test_what_is_no_template_of_a_kernel_has_no_example(text: str) -> None:
    found = declared({"demo/k.cu": text})
    assert examples(found, found.kernels) == []
