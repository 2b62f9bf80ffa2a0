"""Headers that a compile reads twice, and two with one guard: the hint, and what comes of following it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import included_twice
from hatch_cubin.errors import CompileError, Problem
from tests.helpers import make_project

from .failed_compiles import error, setting

TWICE = '#include "a.cuh"\n#include "b.cuh"\nextern "C" __global__ void k(float *x) { *x = f(*x) + g(*x); }\n'
F = "struct V {};\nenum E { A, B };\n__device__ float f(float x) { return x; }\n"
G = '#include "a.cuh"\n__device__ float g(float x) { return f(x); }\n'
ONCE = "write #pragma once as the first line of demo/a.cuh"


def first(root: Path, files: dict[str, str | bytes]) -> Problem | None:
    """Build a project, and return the only problem."""
    try:
        pipeline.build(make_project(root, files, "archs = ['sm_90']"))
    except CompileError as exc:
        (problem,) = exc.problems
        return problem
    return None


@pytest.mark.nvrtc
def test_a_header_without_a_guard_is_one_error(tmp_path: Path) -> None:
    found = first(tmp_path / "before", {"k.cu": TWICE, "a.cuh": F, "b.cuh": G})
    assert found is not None
    assert found.what.startswith('the header is included twice: class "V" has already been defined')
    assert (str(found.where), found.hint) == ("demo/a.cuh:1", ONCE)
    assert first(tmp_path / "after", {"k.cu": TWICE, "a.cuh": f"#pragma once\n{F}", "b.cuh": G}) is None


@pytest.mark.nvrtc
def test_a_guard_with_two_names_is_shown(tmp_path: Path) -> None:
    guarded = f"// a.cuh\n#ifndef A_CUH\n#define A_CHU\n{F}#endif\n"
    found = first(tmp_path / "before", {"k.cu": TWICE, "a.cuh": guarded, "b.cuh": G})
    assert found is not None
    assert found.hint == "its guard asks for A_CUH and defines A_CHU: write A_CUH in both lines"
    assert (
        first(tmp_path / "after", {"k.cu": TWICE, "a.cuh": guarded.replace("CHU", "CUH"), "b.cuh": G}) is None
    )


@pytest.mark.nvrtc
def test_two_headers_with_one_guard_are_shown(tmp_path: Path) -> None:
    guarded = "#ifndef H\n#define H\n{}#endif\n"
    alone = G.partition("\n")[2].replace("f(x)", "x")
    files = {"k.cu": TWICE, "a.cuh": guarded.format(F), "b.cuh": guarded.format(alone)}
    found = first(tmp_path / "before", {**files})
    assert found is not None
    assert found.what == 'identifier "g" is undefined'
    assert found.hint == (
        "demo/b.cuh and demo/a.cuh have the same guard, H, so only the first of them is read: "
        "give each a name of its own, or write #pragma once in place of it"
    )
    files["b.cuh"] = "#pragma once\n" + alone
    assert first(tmp_path / "after", {**files}) is None


def test_other_errors_of_headers_are_not_theirs(tmp_path: Path) -> None:
    files = {"demo/a.cuh": "#ifndef H\n#define H\n#endif\n", "demo/b.cuh": "#ifndef H\n#define H\n#endif\n"}
    there = setting(tmp_path, text=TWICE, files=files)
    for found in (
        error("something else", "demo/a.cuh"),
        error('function "f" has already been defined (previous definition at line 9)', "demo/a.cuh", 1),
        error('function "k" has already been defined (previous definition at line 3)', "demo/a.cu", 3),
        error('identifier "gone" is undefined'),
        error('identifier "gone" is undefined', "<toolkit>/a.h"),
    ):
        assert included_twice.headers([found], there) is None
