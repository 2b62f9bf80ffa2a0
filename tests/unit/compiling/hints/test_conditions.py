"""Text that conditions keep from the compiler, and sources without a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import conditions
from tests.helpers import SAXPY

from .failed_compiles import setting, table

BY_NAME = "a template is compiled only if 'instantiate' lists it"
WITH_ARGUMENTS = "a template is compiled only if 'instantiate' lists the template with its arguments"
UNNAMED = f"{BY_NAME}; for example:" + table('instantiate = ["k<float>"]')
TEMPLATE = "template <class T>\n__global__ void k(T *x) {}\n"


REPLACED = "define the macro with a value in place of …:"


def hint(root: Path, text: str, options: str = "", **files: str) -> str | None:
    return conditions.about_no_kernel(setting(root, options, text=text, files=files))


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ("#ifdef USE_CUDA", "define = { USE_CUDA = true }"),
        ("#if USE_CUDA", "define = { USE_CUDA = true }"),
        ("  #  if   defined( USE_CUDA )", "define = { USE_CUDA = true }"),
        ("#if defined USE_CUDA", "define = { USE_CUDA = true }"),
        ("#if defined(A) && B && defined(__CUDACC__)", "define = { A = true, B = true }"),
    ],
)
def test_kernels_behind_macros_say_which_macros_those_are(tmp_path: Path, condition: str, line: str) -> None:
    shown = "#" + " ".join(condition.strip(" #").split(None, 1))
    assert hint(tmp_path, f"// a comment\n{condition}\n{SAXPY}#endif\n") == (
        f"the condition '{shown}' (demo/a.cu:2) hides the kernels from the compiler: {line}"
    )


def test_the_line_keeps_what_the_table_defines(tmp_path: Path) -> None:
    text = f"#ifdef A\n#ifdef B\n{SAXPY}#endif\n#endif\n"
    assert hint(tmp_path, text, "define = { A = 1 }") == (
        "the condition '#ifdef B' (demo/a.cu:2) hides the kernels from the compiler: define "
        '= { A = "1", B = true }'
    )


@pytest.mark.parametrize("text", ['#include "kernels.cuh"\n', "KERNEL(saxpy)\n"])
def test_a_file_with_no_kernel_of_its_own_is_behind_what_all_of_it_is(tmp_path: Path, text: str) -> None:
    assert hint(tmp_path, f"#ifdef USE_CUDA\n{text}#endif\n") == (
        "the condition '#ifdef USE_CUDA' (demo/a.cu:1) hides the kernels from the compiler: "
        "define = { USE_CUDA = true }"
    )


@pytest.mark.parametrize(
    "condition",
    ["#if 0", "#ifndef __CUDACC_RTC__", "#if !defined(__CUDACC__)", "#if __has_include(<a.h>)"],
)
def test_of_what_only_a_compiler_can_tell_nothing_is_claimed(tmp_path: Path, condition: str) -> None:
    assert hint(tmp_path, f"{condition}\n{TEMPLATE}#endif\n") == (
        f"the condition '{condition}' (demo/a.cu:1) may hide the kernels from the compiler"
    )


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        ("#if N > 4", f'{REPLACED} define = {{ N = "…" }}'),
        ("#if N == 4u && defined(X)", f'{REPLACED} define = {{ N = "…", X = "…" }}'),
        ("#if !A", f'{REPLACED} define = {{ A = "…" }}'),
        (
            "#if __CUDA_ARCH__ >= 900",
            "__CUDA_ARCH__ is 900 for sm_90, so set 'archs' to archs for which the condition holds",
        ),
        ("#if __CUDA_ARCH__ == sm_90", "__CUDA_ARCH__ is a number, so write 900 in place of sm_90"),
    ],
)
def test_a_condition_that_only_a_compiler_can_evaluate_is_named_with_its_macros(
    tmp_path: Path, condition: str, how: str
) -> None:
    assert hint(tmp_path, f"{condition}\n{TEMPLATE}#endif\n") == (
        f"the condition '{condition}' (demo/a.cu:1) may hide the kernels from the compiler: {how}"
    )


@pytest.mark.parametrize(
    ("before", "branch"),
    [
        ("#if 1", "#elif defined(__CUDACC__)"),
        ("#if 0", "#elif 1"),
        ("#ifdef __CUDA_ARCH__", "#else"),
        ("#ifdef __HIPCC__", "#else"),
    ],
)
def test_of_a_later_branch_nothing_is_claimed(tmp_path: Path, before: str, branch: str) -> None:
    assert hint(tmp_path, f"{before}\nint x;\n{branch}\n{TEMPLATE}#endif\n") == (
        f"the condition '{branch}' (demo/a.cu:3) may hide the kernels from the compiler"
    )


@pytest.mark.parametrize(
    "text",
    [
        TEMPLATE,
        f"#ifndef A_CU\n#define A_CU\n{TEMPLATE}#endif\n",
        f"#ifdef __CUDACC__\n{TEMPLATE}#endif\n",
        f"#if 1\n{TEMPLATE}#endif\n",
        f"#ifdef USE_HIP\nx\n#endif\n{TEMPLATE}",
        f"#ifndef NO_KERNELS\n{TEMPLATE}#endif\n",
        f"#define ON 1\n#if ON\n{TEMPLATE}#endif\n",
        f'#include "config.h"\n#ifdef CONFIGURED\n{TEMPLATE}#endif\n',
        f"#endif\n{TEMPLATE}",
    ],
)
def test_conditions_that_hold_keep_nothing_from_the_compiler(tmp_path: Path, text: str) -> None:
    assert hint(tmp_path, text, **{"demo/config.h": "#define CONFIGURED\n"}) == UNNAMED


def test_an_instantiation_that_is_only_declared_is_shown(tmp_path: Path) -> None:
    told = hint(tmp_path, f"{TEMPLATE}extern template __global__ void k<int>(int *);\n")
    assert told is not None
    assert "'extern template' (demo/a.cu:3)" in told
    assert hint(tmp_path, f"{TEMPLATE}extern template void other<int>(int *);\n") == UNNAMED


USED = "#define KERNEL(name) \\\n  __global__ void name(int *x) {}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"// in c:\\tmp\\\n{SAXPY}", ":2 is in a comment, because"),
        ("// __global__ void k(int *x) {}\n", ":1 is in a comment; "),
        (USED, ":2 is in the macro KERNEL,"),
        (f"#define A 1\n{USED}#if 0\nKERNEL(k)\n#endif\n", ":3"),
        ("int a;\n__global__ void k(int *x);\n", ":2"),
    ],
)
def test_the_line_of_a_kernel_that_is_not_compiled_is_shown(tmp_path: Path, text: str, why: str) -> None:
    told = hint(tmp_path, text)
    assert told is not None
    assert f"the __global__ in demo/a.cu{why}" in told
    assert "template" not in told


ONLY_FUNCTIONS = (
    "the source has only device functions or variables: "
    "mark a function with __global__ to make it a kernel, or exclude the source: "
)
LEFT_OUT = f'{ONLY_FUNCTIONS}exclude = ["demo/old.cu", "{{}}"]'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// no __global__\n",
        "template <class T> __device__ T f();\n",
        '#include "config.h"\n',
        "#if 1\nint f();\n#endif\n",
    ],
)
def test_a_file_that_has_no_kernel_at_all_can_only_be_left_out(tmp_path: Path, text: str) -> None:
    there = setting(tmp_path, 'exclude = ["demo/old.cu"]', text=text, files={"demo/config.h": "int x;\n"})
    assert conditions.about_no_kernel(there) == LEFT_OUT.format("demo/a.cu")


@pytest.mark.parametrize(
    "options", ['define = { KERNEL = "__global__" }', 'header-packages = ["nvidia-cutlass"]']
)
def test_a_macro_or_a_header_of_others_may_have_one(tmp_path: Path, options: str) -> None:
    left_out = f'{ONLY_FUNCTIONS}exclude = ["demo/a.cu"]'
    assert (
        hint(tmp_path, "template <class T> int f();\n", options)
        == f"{WITH_ARGUMENTS}; if there is no kernel template, {left_out}"
    )


def test_a_template_of_a_header_is_named_by_the_source_that_only_includes_it(tmp_path: Path) -> None:
    header = {"demo/k.cuh": TEMPLATE}
    assert hint(tmp_path, '#include "k.cuh"\n', **header) == UNNAMED
    functions = '#include "k.cuh"\n__device__ int f() { return 1; }\n'
    assert hint(tmp_path, functions, **header) == (f'{ONLY_FUNCTIONS}exclude = ["demo/a.cu"]')


def test_a_template_that_a_macro_makes_is_no_reason_to_leave_the_file_out(tmp_path: Path) -> None:
    text = "#define DEF(n) template <class T> __global__ void n(T *x) { *x = 1; }\nDEF(one)\n"
    assert hint(tmp_path, text) == WITH_ARGUMENTS


def test_an_argument_that_only_its_author_knows_is_left_open(tmp_path: Path) -> None:
    text = "template <class F> __global__ void k(F f, int *x) { *x = f(*x); }\n"
    assert hint(tmp_path, text) == (
        f"{BY_NAME}, with a type or a value for each …; for example:" + table('instantiate = ["k<…>"]')
    )


def test_ptx_has_neither_templates_nor_conditions(tmp_path: Path) -> None:
    there = setting(tmp_path, 'exclude = ["demo/old.cu"]', path="demo/k.ptx")
    assert conditions.about_no_kernel(there) == LEFT_OUT.format("demo/k.ptx")


def test_the_only_source_of_a_project_is_not_to_be_excluded(tmp_path: Path) -> None:
    there = setting(tmp_path, text="__device__ void f() {}")
    alone = conditions.about_no_kernel(replace(there, sources={there.path: ""}))
    assert alone is not None
    assert "exclude" not in alone
    assert "does not need hatch-cubin" in alone
    assert "exclude" in str(conditions.about_no_kernel(replace(there, sources={there.path: "", "b.cu": ""})))


def test_ptx_without_a_kernel_is_told_of_entries(tmp_path: Path) -> None:
    there = setting(tmp_path, text=".visible .func q() { ret; }", path="demo/k.ptx")
    advice = str(conditions.about_no_kernel(replace(there, sources={there.path: ""})))
    assert ".visible .entry" in advice
    assert "__global__" not in advice
