"""Whatever surrounds an `extern "C"` kernel: a type that is told is the one that the compiler sees."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

import pytest

from hatch_cubin.cubin.symbol_types import parameter_types
from hatch_cubin.project.declared_kernels import declared_types, names_of

_PROBE = "\n#undef k\n#undef float\n#undef int\ntemplate <class> __global__ void probe() {}\n"
_NAMED = b"&k", b"&probe<decltype(&k)>"

# Macros, which change what a declaration means if they are where the compiler meets them.
_MACROS = (
    *("#define float int", "#undef float", "#define unsigned", "#define const volatile", "#define int short"),
    *("#define n *n", "#define n m, int o", "#define k other", "#define a", "#define __restrict__ *"),
    *(
        "#define REAL double",
        "#undef REAL",
        "#define double REAL",
        "%:define float int",
        "#def\\\nine float int",
    ),
    *("#/**/define int unsigned", '#pragma push_macro("float")', '#pragma pop_macro("float")'),
    *(
        "#if 0\n#define int long\n#endif",
        "#ifndef float\n#define float int\n#endif",
        "// define nothing",
        "#line 7",
    ),
    *(
        "typedef double T;",
        "using T = int;",
        'const char *t = "\\"";',
        "int i = 1'000;",
        "int f() { return 1; }",
    ),
)
# Where a kernel may be; one is compiled at most. {0} and {1} are definitions, {2} is a list of parameters.
_HIDE = "#define IGNORE(...)\n#define BEGIN IGNORE(\n#define SAME(...) __VA_ARGS__\n#define GLUE(a, b) a##b\n"
_MAKE = '#define MAKE(name, ...) extern "C" __global__ void name(__VA_ARGS__) {{}}'
_MADE = 'extern "C" __global__ void GLUE(, k)({2}) {{}}'
_ENDED = (
    f'{_HIDE}#define STOP }}}}\n#define OPEN namespace {{{{\nextern "C" {{{{ STOP {{3}} OPEN }}}}\n{_MADE}'
)
_PLACES = (
    *(
        "{0}",
        "#if 0\n{0}\n#else\n{1}\n#endif",
        "#ifdef REAL\n{0}\n#elif 1\n{1}\n#endif",
        "#if 1\n{0}\n#endif",
    ),
    *(
        f"{_HIDE}IGNORE({{0}})\n{{1}}",
        f"{_HIDE}SAME({{0}})",
        f"{_HIDE}BEGIN {{0}} )\n{{1}}",
        f"{_HIDE}#if 0\n{{0}}\n#endif\n{_MADE}",
    ),
    *(
        f"{_HIDE}IGNORE({{0}})\n{_MADE}",
        f"{_HIDE}BEGIN {{0}} )\n{_MADE}",
        f"{_HIDE}IGNORE(\n#if 1\n{{0}}\n#endif\n)\n{_MADE}",
    ),
    *(
        'const char *t = R"({0})";\n{1}',
        f'{_HIDE}const char *t = R"({{0}})";\n{_MADE}',
        "/* {0} */ {1}",
        "// \\\n{0}\n{1}",
    ),
    *(
        f'{_HIDE}extern "C" {{{{ extern "C++" {{{{ {{3}} }}}} }}}}\n{_MADE}',
        f"{_HIDE}{{3}}\n{_MADE}",
        'extern "C" {{ {3} }}',
    ),
    *(
        _ENDED,
        "namespace {{ {0} }}",
    ),
    *(
        f"{{0}}\n{_MAKE}\n",
        'extern "C" __global__ void k({2});\n{0}',
    ),
    *(f"{_MAKE}\n#if 0\n{{0}}\n#endif\nMAKE(k, {{2}})",),
    *(
        f"{_HIDE}#if 0\ndon't /*\n#endif\n{{0}}\n#if 0\n*/\n#endif\n{_MADE}",
        "??/\n{0}",
        "// the end ??/\n{0}\n{1}",
    ),
)
_START = ("struct S { int a; };", "typedef short T;", "typedef long REAL;", "const int BOUND = 64;")
_TYPES = (
    *(
        "float",
        "double",
        "int",
        "unsigned",
        "unsigned long long int",
        "long",
        "short int",
        "signed char",
        "char",
    ),
    *("bool", "long unsigned", "const float", "volatile int", "float const", "T", "S", "REAL"),
)
_MARKS = ("", "", "*", "* __restrict__", "* const", "**", "*const *", "* const __restrict__")
_KERNELS = (
    'extern "C" __global__ void k({})\n{{}}',
    'extern "C" void __global__ k({}) {{}}',
    'extern "C"\n__global__ void __launch_bounds__(128, 2)\nk({}) {{}}',
    'extern "C" __global__ void __launch_bounds__(BOUND) k({}) {{}}',
)


def a_text(chance: random.Random) -> tuple[str, str, dict[str, str]]:
    """Return a text with a kernel, or with two of which the compiler sees one; its header; and macros."""
    one, other = (_list(chance) for _ in range(2))
    kernels = [chance.choice(_KERNELS).format(each) for each in (one, other)]
    place = chance.choice(_PLACES).format(*kernels, other, f"__global__ void k({one}) {{}}")
    before, after, header = (chance.choice(_MACROS) if chance.random() < 0.3 else "" for _ in range(3))
    macros = {chance.choice(("float", "REAL", "n", "BOUND")): chance.choice(("double", "a", "64"))}
    text = "\n".join(['#include "h.cuh"', *_START, before, place, after])
    return text, header, macros if chance.random() < 0.2 else {}


def _list(chance: random.Random) -> str:
    shapes = ("{}", "{}", "", "{}[4]", "{}[]")
    return ", ".join(
        f"{chance.choice(_TYPES)} {chance.choice(_MARKS)} {chance.choice(shapes).format(name)}"
        for name in "anbc"[: chance.randrange(5)]
    )


def seen(text: str, headers: Mapping[str, str], options: Sequence[str]) -> tuple[str, ...] | None:
    """Return the types that the compiler sees; None if the text has no such kernel, or cannot be compiled.

    It is asked for the symbol of a template of the kernel's type, as this costs less than a compile.
    """
    from cuda.bindings import nvrtc

    contents, names = [each.encode() for each in headers.values()], [each.encode() for each in headers]
    source = (text + _PROBE).encode()
    _status, program = nvrtc.nvrtcCreateProgram(source, b"k.cu", len(names), contents, names)
    for each in _NAMED:
        nvrtc.nvrtcAddNameExpression(program, each)
    given = [b"-arch=sm_90", b"--fdevice-syntax-only", *(each.encode() for each in options)]
    status = int(nvrtc.nvrtcCompileProgram(program, len(given), given)[0])
    symbols = [] if status else [nvrtc.nvrtcGetLoweredName(program, each)[1].decode() for each in _NAMED]
    nvrtc.nvrtcDestroyProgram(program)
    if symbols[:1] != ["k"]:
        return None
    match = re.fullmatch(r"_Z5probeIPFv(.*)EEvv", symbols[1])
    assert match is not None
    return parameter_types(f"_Z5probeIvEv{match[1]}")  # only the probe stands before the types now


@pytest.mark.nvrtc
@pytest.mark.parametrize("seed", range(4))
def test_no_type_is_told_that_the_compiler_does_not_see(seed: int) -> None:
    chance, compared = random.Random(seed), 0  # noqa: S311 - the same texts in each run
    for _ in range(100):
        text, header, macros = a_text(chance)
        others = [names_of(header), *(names_of(f"define {name} {value}") for name, value in macros.items())]
        told = declared_types(text, others).get("k")
        if told is not None:
            types = seen(text, {"h.cuh": header}, [f"-D{name}={value}" for name, value in macros.items()])
            if types is not None:
                assert len(types) == len(told), text
                assert all(mine in {None, its} for mine, its in zip(told, types, strict=True)), text
                compared += 1
    assert compared >= 5
