"""Parameter types that a source's text proves, and texts that prove none.

`tests/property/test_declared_types.py` compares with what the compiler sees.
"""

from __future__ import annotations

import pytest

from hatch_cubin.project.declared_kernels import declared_types, names_of

K = 'extern "C" __global__ void k(float n) {}'
FLOAT = {"k": ("float",)}
NOTHING: dict[str, tuple[str | None, ...]] = {}


@pytest.mark.parametrize(
    ("listed", "types"),
    [
        ("", ()),
        ("void", ()),
        ("float a, unsigned n, unsigned long int l", ("float", "unsigned int", "unsigned long")),
        ("long long unsigned int q, short int s", ("unsigned long long", "short")),
        ("signed char c, char, bool e, signed s", ("signed char", "char", "bool", "int")),
        ("const float *__restrict__ x, float const *y", ("const float *", "const float *")),
        ("volatile int *v, const volatile char *const w", ("volatile int *", "const volatile char *")),
        ("float *const z, const int n", ("float *", "int")),
        ("float e[], const float f[4], float **g", ("float *", "const float *", "float **")),
        ("const float *const *h, void *p", ("const float *const *", "void *")),
        ("const __grid_constant__ float x", ("float",)),
        ("float4 v, int n", (None, "int")),
        ("unsigned T, Mine", ("unsigned int", None)),
        ("size_t n, std::uint32_t *m, const half h", (None, None, None)),
        ("Vec<float, 4> v, int n", (None, "int")),
        ("[[maybe_unused]] int n, float a", (None, "float")),
        ("float x[4][4], float y[N]", (None, None)),
        ("unsigned float x, void v, int *m n, int &r", (None, None, None, None)),
    ],
    ids=str,
)
def test_keywords_are_types(listed: str, types: tuple[str | None, ...]) -> None:
    assert declared_types(f'extern "C" __global__ void k({listed}) {{}}') == {"k": types}


@pytest.mark.parametrize(
    "text",
    [
        K,
        'extern "C" void __global__ __launch_bounds__(128, 2)\nk(float n) {}',
        'extern "C" {\n// k\n__global__ void k(float n) {}\n}',
        'namespace a { extern "C" { namespace { __global__ void k(float n) {} } } }',
        f'#include "k.cuh"\n#ifdef A\nvoid f() {{}}\n#else\n#define B\n#endif\n{K}',
        f"void g() {{\n#if A\n{{}}\n#endif\n}}\n{K}",
        f"#define glue(a, b) a##b\n{K}",
        'extern "C" __global__ void j(float n);\n' + K,
        f"#define int long\n{K}",
    ],
    ids=lambda text: text[:40],
)
def test_other_text_around_a_kernel_does_not_matter(text: str) -> None:
    assert declared_types(text) == FLOAT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__global__ void k(float n) {}",
        'extern "C" __global__ void k(float n);',
        'extern "C" void k(float n) {}',
        'extern "C" __global__ k(float n) {}',
        'extern "C" __global__ void k(int (*f)(int)) {}',
        'extern "C" __global__ void k(Vec<int n) {}',
        'extern "C" __global__ void k(float n]) {}',
        f"#define float int\n{K}",
        f"{K}\n#define float int",
        f"#if 0\n#define float int\n#endif\n{K}",
        f"#def\\\nine float int\n{K}",
        f"#/* */define/* */float int\n{K}",
        f"%:define float int\n{K}",
        f"??=define float int\n{K}",
        f"#define n *n\n{K}",
        f"#define __global__\n{K}",
        f"#if 1\n{K}\n#endif",
        f"#ifndef GUARD\n#define GUARD\n{K}\n#endif",
        f"#if 0\n{K}\n#endif\nMAKE(k, int)",
        f"{K}\n#if 0\n{K}\n#endif",
        f'{K}\nconst char *t = "k";',
        f'extern "C" __global__ void k(float);\n{K}',
        f"IGNORE({K})",
        f"BEGIN {K} )",
        f"#if 1\nIGNORE(\n#endif\n{K}\n#if 1\n)\n#endif",
        f"void f() {{ {K} }}",
        f"}}\n{K}",
        f"{{\n{K}",
        f"#endif\n{K}",
        f"#if 1\n{K}",
        f'const char *t = R"(\n{K})";',
        f"int i = 1'000;\n{K}",
        f"#if 0\ndon't\n#endif\n{K}",
        f"/* {K}",
        f"// the end \\ \n{K}",
        f"// the end ??/\n{K}",
        'extern "C" { extern "C++" { __global__ void k(float n) {} } }',
        'extern "C" { template <class T> __global__ void k(float n) {} }',
        '#define glue(a, b) a##b\nextern "C" { __global__ void k(float n) {} }',
        '#define STOP }\nextern "C" { STOP __global__ void k(float n) {} {}}',
    ],
    ids=lambda text: text[:40],
)
def test_no_types_are_known_if_the_text_could_mean_something_else(text: str) -> None:
    assert declared_types(text) == NOTHING


@pytest.mark.parametrize(
    "header",
    ["#define float int", "# define n *n", "#ifdef A\n#define k j\n#endif", "void k(); // a declaration"],
)
def test_names_of_a_header_count_as_names_of_the_text(header: str) -> None:
    assert declared_types(K, [names_of("#define M\n// k")]) == FLOAT
    assert declared_types(K, [names_of(header)]) == NOTHING


def test_macros_of_the_command_line_and_of_other_headers_count_too() -> None:
    assert declared_types(K, [names_of("define N 4")]) == FLOAT
    assert declared_types(K, [names_of("define float double")]) == NOTHING
    assert declared_types(K, (), {"M", "half"}) == FLOAT
    assert declared_types(K, (), {"M", "float"}) == NOTHING


def test_kernels_in_a_linkage_block_are_known_only_if_no_macro_can_end_it() -> None:
    block = 'extern "C" { __global__ void k(float n) {} }'
    for header in ("#define STOP }", "#define glue(a, b) a ## b", "??=define STOP"):
        assert declared_types(block, [names_of("#define SUM(a, b) ((a) + (b))")]) == FLOAT
        assert declared_types(block, [names_of(header)]) == NOTHING
