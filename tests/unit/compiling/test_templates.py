"""Templates of kernels that nothing instantiates, beside kernels that are built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import SAXPY

from .test_limits import warnings

pytestmark = pytest.mark.nvrtc

SCALE = "template <class T> __global__ void scale(T *x, T a) { *x *= a; }\n"
INSTANCE = "template __global__ void scale<float>(float *, float);\n"
PLAIN = 'extern "C" __global__ void plain() {}\n'
RULE = "archs = ['sm_90']\n[[tool.hatch.build.hooks.cubin.source]]\npath = 'demo/k.cu'\n"
MODULE = (
    "archs = ['sm_90']\n[[tool.hatch.build.hooks.cubin.module]]\nname = 'm'\n"
    "sources = ['demo/k.cu']\nmode = 'rdc'\n"
)


def about(name: str, line: int, *entries: str, filled: str = "") -> str:
    shown = ", ".join(f'"{entry}"' for entry in entries)
    return (
        f"demo/k.cu:{line}: the kernel template {name!r} is not in the wheel, because it is not instantiated"
        " [template-not-instantiated]\n"
        f"  hint: if the wheel needs this template, list its instantiations{filled}; for example:\n"
        "    [[tool.hatch.build.hooks.cubin.source]]\n"
        '    path = "demo/k.cu"\n'
        f"    instantiate = [{shown}]"
    )


HOST = "#ifndef __CUDACC_RTC__\nvoid run(float *x) { scale<float><<<1, 1>>>(x, 2); }\n#endif\n"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (SAXPY + SCALE, "", [about("scale", SAXPY.count("\n") + 1, "scale<float>")]),
        (SCALE + SAXPY + HOST, "", [about("scale", 1, "scale<float>")]),
        ("namespace a {\n" + SCALE + "}\n" + SAXPY, "", [about("scale", 2, "a::scale<float>")]),
        (f"#ifdef __CUDACC__\n{SCALE}#endif\n{SAXPY}", "", [about("scale", 2, "scale<float>")]),
        (
            SCALE + "template <int N> __global__ void fill(int *x) { *x = N; }\n" + SAXPY,
            "",
            [about("scale", 1, "scale<float>", "fill<4>"), about("fill", 2, "scale<float>", "fill<4>")],
        ),
        (
            SCALE + "template <class F> __global__ void each(float *x, F f) { *x = f.get(*x); }\n",
            f"{RULE}instantiate = ['scale<float>']\n",
            [about("each", 2, "each<…>", filled=", with a type or a value for each …")],
        ),
        (SCALE + SAXPY, MODULE, [about("scale", 1, "scale<float>")]),
    ],
)
def test_a_template_that_only_the_table_could_name_is_warned_of(
    tmp_path: Path, text: str, options: str, said: list[str]
) -> None:
    assert warnings(tmp_path, {"k.cu": text}, options or "archs = ['sm_90']") == said


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (SAXPY + SCALE, f"{RULE}instantiate = ['scale<double>']\n"),
        (SAXPY + SCALE + INSTANCE, ""),
        (SAXPY + SCALE + f"#if V == 2\n{INSTANCE}#endif\n", f"{RULE}variants = {{ V = [1, 2] }}\n"),
        (SAXPY + SCALE + "__device__ void *at() { return (void *)scale<float>; }\n", MODULE),
        (SAXPY + SCALE.replace("{ *x *= a; }", ";"), ""),
        (SAXPY + f"#if WITH_SCALE\n{SCALE}#endif\n", ""),
        (SAXPY + f"/*\n{SCALE}*/\n", ""),
        (SAXPY + f"#define MADE {SCALE}", ""),
    ],
)
def test_what_may_be_in_another_result_is_not_warned_of(tmp_path: Path, text: str, options: str) -> None:
    assert warnings(tmp_path, {"k.cu": text}, options or "archs = ['sm_90']") == []


def test_an_instantiation_that_is_only_declared_does_not_count(tmp_path: Path) -> None:
    text = f"{SCALE}extern {INSTANCE}{SAXPY}template <class T> __global__ void fill(T *x) {{ *x = 1; }}\n"
    extern, missing = warnings(tmp_path, {"k.cu": text})
    assert "'extern template' (demo/k.cu:2)" in extern
    assert "extern" not in missing


def test_a_template_that_the_kernels_of_a_source_use_is_not_warned_of(tmp_path: Path) -> None:
    text = SCALE + 'extern "C" __global__ void at(void **x) { *x = (void *)scale<float>; }\n'
    assert warnings(tmp_path, {"k.cu": text}) == []


def test_a_template_of_a_header_is_not_warned_of(tmp_path: Path) -> None:
    assert warnings(tmp_path / "h", {"k.cu": f'#include "s.cuh"\n{SAXPY}', "s.cuh": SCALE}) == []
    others = {"k.cu": SAXPY + SCALE, "l.cu": f'#include "k.cu"\n{INSTANCE}', "m.cu": "// k.cu\n" + PLAIN}
    assert warnings(tmp_path / "cu", {**others}) == []
