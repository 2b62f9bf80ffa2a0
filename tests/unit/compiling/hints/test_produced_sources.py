"""Hints for sources that a script produces: what they name is the table's or the script's, and works."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import CompileError, Problem
from tests.helpers import SAXPY, refusal
from tests.producers import producer_project, returning

pytestmark = pytest.mark.nvrtc

TEMPLATE = "template <class T, int N> __global__ void scale(T *x) { *x *= N; }\n"
RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/scale.cu"\n'


def problems(root: Path, sources: object, options: str = "") -> tuple[Problem, ...]:
    project = producer_project(root, returning(repr(sources)), options)
    return refusal(CompileError, pipeline.build, project).problems


def test_a_mistake_in_a_product_is_told_once_at_the_script(tmp_path: Path) -> None:
    product = {"kernel": "scale<{T}, {N}>", "T": ["flot", "int"], "N": "1..3"}
    (problem,) = problems(tmp_path, {"scale.cu": {"text": TEMPLATE, "instantiate": [product]}})
    assert (problem.code, str(problem.where)) == ("compiler-error", "demo/gen.py")


def test_a_table_of_a_hint_matches_a_source_with_a_variant(tmp_path: Path) -> None:
    sources = {"scale[N=4].cu": TEMPLATE}
    (problem,) = problems(tmp_path / "before", sources)
    _hint, _, table = (problem.hint or "").partition("\n")
    assert 'path = "demo/scale.cu"' in table
    after = producer_project(tmp_path / "after", returning(repr(sources)), table)
    assert "scale.N-4.sm_80.cubin" in pipeline.build(after)


def test_an_entry_of_the_table_is_found_for_a_source_with_a_variant(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, {"scale[N=4].cu": TEMPLATE}, f"{RULE}instantiate = ['scale<flot, 4>']\n")
    assert str(problem.where).startswith("pyproject.toml:")


def test_a_text_without_a_kernel_is_left_out_by_the_script(tmp_path: Path) -> None:
    sources = {"f[N=4].cu": "__device__ int f() { return 4; }", "g.cu": SAXPY}
    (problem,) = problems(tmp_path, sources)
    assert (problem.hint or "").endswith("do not return it from demo/gen.py")
