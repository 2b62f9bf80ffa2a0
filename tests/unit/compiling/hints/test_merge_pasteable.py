"""Hints of several sources, which are pasted into one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints.merge_pasteable import merge_hints
from hatch_cubin.errors import CompileError, Problem
from tests.helpers import make_project, refusal


def hints(*texts: str | None) -> list[str | None]:
    return [each.hint for each in merge_hints([Problem("x", hint=text) for text in texts])]


def test_lines_of_one_key_are_one_line() -> None:
    both = 'options = { std = "c++20", pre-include = ["a.h", "b.h"], lineinfo = true }'
    assert hints(
        'a.h has it: options = { std = "c++17", pre-include = ["a.h"] }',
        'options = { pre-include = ["b.h", "a.h"], lineinfo = true, std = "c++20" }',
    ) == [f"a.h has it: {both}", both]
    assert hints('include-dirs = ["a"]', 'x: include-dirs = ["b", "a"]') == [
        'include-dirs = ["a", "b"]',
        'x: include-dirs = ["a", "b"]',
    ]


def test_lines_of_several_errors_are_shown_once() -> None:
    table = 'add: \n    [[source]]\n    archs = ["sm_80"]'
    assert hints(table, "remove it", table, "remove it") == [table, "remove it", None, "remove it"]


def test_lines_of_errors_that_are_one_message_stay() -> None:
    table = 'add: \n    [[source]]\n    archs = ["sm_80"]'
    assert hints(table, table, "remove it", table) == [table, table, "remove it", table]


def test_other_hints_stay_as_they_are() -> None:
    texts = (
        None,
        "did you mean 'x'?",
        'its: \n    [[source]]\n    path = "a.cu"\n    options = { fma = true }',
        'x: define = { N = "…" }',
    )
    assert hints(*texts) == [*texts]


@pytest.mark.nvrtc
def test_sources_that_lack_different_headers_compile_with_one_line(tmp_path: Path) -> None:
    kernel = 'extern "C" __global__ void k(float *x) {{ {} h = 1; *x = h; }}\n'
    files = {"a.cu": kernel.format("half"), "b.cu": kernel.format("__nv_bfloat16")}
    options = 'archs = ["sm_90"]\n'
    error = refusal(CompileError, pipeline.build, make_project(tmp_path, files, options))
    line = 'options = { pre-include = ["cuda_fp16.h", "cuda_bf16.h"] }'
    assert [each.hint for each in error.problems] == [
        f"include <{header}>, which the source needs: under [tool.hatch.build.hooks.cubin]: {line}"
        for header in ("cuda_fp16.h", "cuda_bf16.h")
    ]
    assert pipeline.build(make_project(tmp_path, files, f"{options}{line}\n"))
