"""What a source's text says its kernels take, and what the compiler says of the same text."""

from __future__ import annotations

import re

import pytest

from hatch_cubin.cubin.types import parameter_types
from hatch_cubin.sources.declared import declared_types

GIVEN = {"SCALAR": "unsigned int"}
TEXT = """
#define REAL double
#define INPUT const float *
#define LIST int n, REAL *m
#define BOUNDS(n) __launch_bounds__(n)
// __global__ void qualified(int of_yesterday);
/* __global__ void qualified(int of_yesterday); */
namespace ns { struct Pair { double x; }; template <class A, int N> struct Vec { A a[N]; }; }
struct S { int a; };
extern "C" __global__ void scalars(float a, unsigned n, unsigned long int l, long long unsigned int q,
    short int s, signed char c, long double *d, char, bool e = true) {}
extern "C" __global__ void __launch_bounds__(256, 2) qualified(const float *__restrict__ x, float const *y,
    volatile int *v, const volatile char *const w, float *const z, const int n) {}
extern "C" __global__ void named(S s, struct S *t, ns::Vec<float, 4> u, ns :: Vec<const float*, 4> *v,
    ns::Vec<ns::Vec<float, 2>, 3> w, const __grid_constant__ S x, ns::Pair) {}
extern "C" {
__global__ void by_macros(REAL x, INPUT y, LIST, SCALAR q) {}
__global__ void BOUNDS(128) nothing(void) {}
}
extern "C" __global__ void arrays(float e[], const float f[4], float **g, const float *const *h, void *p) {}
extern "C" void __global__
lines(int a,  // the first, of (two
      int b /* the second) */) {}
"""


@pytest.mark.nvrtc
def test_the_compiler_reads_the_same_types_in_the_same_text() -> None:
    """It is asked for the symbol of a template of each kernel's type, as this costs as much as a compile."""
    from cuda.bindings import nvrtc

    kernels = re.findall(r"(\w+)\((?:float a|const float \*__|S s|REAL|void\)|float e|int a,  )", TEXT)
    assert len(kernels) == 7
    asked = [f"&probe<decltype(&{kernel})>".encode() for kernel in kernels]
    text = f"{TEXT}\ntemplate <class> __global__ void probe() {{}}\n".encode()
    _status, program = nvrtc.nvrtcCreateProgram(text, b"k.cu", 0, [], [])
    for each in asked:
        nvrtc.nvrtcAddNameExpression(program, each)
    options = [b"-arch=sm_90", b"--fdevice-syntax-only", *(f"-D{n}={v}".encode() for n, v in GIVEN.items())]
    assert int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]) == 0
    symbols = [nvrtc.nvrtcGetLoweredName(program, each)[1].decode() for each in asked]
    nvrtc.nvrtcDestroyProgram(program)
    for kernel, symbol in zip(kernels, symbols, strict=True):
        match = re.fullmatch(r"_Z5probeIPFv(.*)EEvv", symbol)
        assert match is not None
        # Only the probe itself stands before the types, as a kernel's own name does not.
        told = parameter_types(f"_Z5probeIvEv{match[1]}")
        assert declared_types(TEXT, kernel, GIVEN) == told, kernel


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("__global__ void k(size_t n, std::uint32_t *m) {}", ("size_t", "std::uint32_t *")),
        ("template <class T> __global__ void j(T *x) {} __global__ void k(int n) {}", ("int",)),
        ("__global__ void k(int n); __global__ void k(int m) {}", ("int",)),
        ("#ifdef A\n__global__ void k(int n) {}\n#else\n__global__ void k(float n) {}\n#endif", None),
        ("#ifdef A\n#define T int\n#else\n#define T float\n#endif\n__global__ void k(T n) {}", None),
        ("#define P(T) T *\n__global__ void k(P(int) n) {}", None),
        ("#define A B\n#define B A\n__global__ void k(A n) {}", None),
        (f"#define A {'int a, ' * 5000}\n__global__ void k(A int b) {{}}", None),
        (f"__global__ void k({'int a, ' * 5000} int b) {{}}", None),
        ("__global__ void k(int (*f)(int)) {}", None),
        ("__global__ void k(float (*x)[4]) {}", None),
        ("__global__ void k(float x[4][4]) {}", None),
        ("__global__ void k(float x[4) {}", None),
        ("__global__ void k(int &n) {}", None),
        ("__global__ void k(::S s) {}", None),
        ("__global__ void k(Vec<sizeof(int)> s) {}", None),
        ("__global__ void k(Vec<int s) {}", None),
        ("__global__ void k(INLINE float S s) {}", None),
        ("__global__ void k(unsigned float s) {}", ("unsigned float",)),  # no compiler takes it
        ("__global__ void k(* s) {}", None),
        ("__global__ void k(int * 4) {}", None),
        ("__global__ void k(int n", None),
        ("__global__ void }", None),
        ("__global__ ;", None),
        (f"__global__ {'a ' * 500} k(int n) {{}}", None),
        ("MAKE(k, int n)", None),
        ("", None),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_not_plain_is_left_to_the_compiler(text: str, types: tuple[str, ...] | None) -> None:
    assert declared_types(text, "k", {}) == types


def test_what_the_compiler_is_given_goes_before_what_the_text_defines() -> None:
    text = "#ifndef T\n#define T float\n#endif\n__global__ void k(T *x) {}"
    assert declared_types(text, "k", {"T": "double"}) == ("double *",)
    assert declared_types(text, "k", {}) == ("float *",)
