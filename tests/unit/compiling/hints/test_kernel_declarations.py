"""Kernels that texts declare, and an example of arguments for each template among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints.kernel_declarations import GAP, declared, examples
from hatch_cubin.errors import Location
from tests.helpers import make_project

RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'
# Templates of kernels, and the example that is shown for each.
TEMPLATES = {
    "template <typename T> __global__ void k(T *x, T f) { *x *= f; }": "k<float>",
    "template <class T, int N> __global__ void k(T *x) { *x = N; }": "k<float, 4>",
    "template <int N, typename T> void __global__ k(T *x) { *x = N; }": "k<4, float>",
    "template <bool B, unsigned N> __global__ void k(int *x) { if (B) *x = N; }": "k<true, 4>",
    "template <int BLOCK> __launch_bounds__(BLOCK) __global__ void k(int *x) {}": "k<4>",
    "template <typename T> __global__ void __launch_bounds__(128) k(T *x) {}": "k<float>",
    "#define B(n) __launch_bounds__(n)\ntemplate <class T> __global__ void B(64) k(T *x) {}": "k<float>",
    "namespace a::b { namespace { template <class T> __global__ void k(T *x) {} } }": "a::b::k<float>",
    'extern "C++" { template <class T> __global__ void k(T *x) {} }': "k<float>",
    "template <typename... Ts> __global__ void k(Ts *...x) {}": "k<float>",
    "template <class T> __global__ void k(T *x, T m) { x[0] %= m; }": "k<int>",
    "template <class T> __global__ void k(T *x) { x[0] ^= 1; }": "k<int>",
    "template <class T, int... Ns> __global__ void k(T *x) {}": "k<float>",
    "template <class T = float, int N = 4> __global__ void k(T *x) {}": "k<>",
    "template <class T, int N = sizeof(T) * (2 > 1 ? 2 : 1)> __global__ void k(T *x) {}": "k<float>",
    "template <unsigned long long S, char C, const long L> __global__ void k(int *x) {}": "k<4, 4, 4>",
    "template <int> __global__ void k(int *x) {}": "k<4>",
    '// "}" { template <int N> __global__ void no() {}\n'
    'template <class T> __global__ void k(T *x) { asm("{ }"); }': "k<float>",
}


@pytest.mark.parametrize(("text", "example"), TEMPLATES.items())
def test_a_template_gets_an_argument_of_the_right_kind_for_each_parameter(text: str, example: str) -> None:
    assert examples(declared({"demo/k.cu": text})) == [example]


@pytest.mark.nvrtc
def test_every_example_compiles(tmp_path: Path) -> None:
    files = {f"k{number}.cu": text for number, text in enumerate(TEMPLATES)}
    rules = "".join(
        f'{RULE.replace("k.cu", name)}instantiate = ["{example}"]\n'
        for name, example in zip(files, TEMPLATES.values(), strict=True)
    )
    assert pipeline.build(make_project(tmp_path, files, f'archs = ["sm_90"]\n{rules}'))


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("template <class F> __global__ void k(F f, float *x) { *x = f(*x); }", f"k<{GAP}>"),
        ("template <class F> __global__ void k(float *x) { *x = F()(*x); }", f"k<{GAP}>"),
        ("template <class P> __global__ void k(int *x) { *x = P::n; }", f"k<{GAP}>"),
        ("template <class I> __global__ void k(I im, int *x) { *x = im.size; }", f"k<{GAP}>"),
        ("template <template <class> class F> __global__ void k(int *x) {}", f"k<{GAP}>"),
        ("template <int &R> __global__ void k(int *x) {}", f"k<{GAP}>"),
        ("template <int (*F)(int)> __global__ void k(int *x) { *x = F(*x); }", f"k<{GAP}>"),
        ("template <Op op, class T> __global__ void k(T *x) {}", f"k<{GAP}, float>"),
        ("template <std::integral T> __global__ void k(T *x) {}", f"k<{GAP}>"),
        ("template <class T, T V> __global__ void k(T *x) {}", f"k<{GAP}, {GAP}>"),
        ("template <class T> __global__ void k(T *x)", "k<float>"),
        ("template <class T, int N", None),
        ("template <class T> __global__ void k", None),
        ("template <class T> __global__ auto k;", None),
    ],
)
def test_what_no_example_is_known_for_is_left_open(text: str, example: str | None) -> None:
    assert examples(declared({"demo/k.cu": text})) == ([] if example is None else [example])


def test_kernels_have_their_names_their_heads_and_their_places() -> None:
    text = "namespace n {\ntemplate <class T>\n__global__ void a(T *x);\n}\n__global__ void b() {}\n"
    found = declared({"demo/k.cu": "", "demo/k.cuh": text})
    assert [(each.name, each.base, each.template, each.where) for each in found] == [
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
    assert examples(declared({"demo/k.cu": text})) == []
