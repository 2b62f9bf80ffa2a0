"""Errors in `instantiate` of produced sources: each at its line of the table, or at the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import CompileError, Problem
from tests.helpers import refusal
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


@pytest.mark.parametrize(("name", "hint"), [("b.cu", "include only files"), ("c.cu", "include-dirs")])
def test_a_produced_text_is_not_a_file_to_include(tmp_path: Path, name: str, hint: str) -> None:
    text = f'#include "{name}"\nextern "C" __global__ void k() {{}}\n'
    (tmp_path / "c.cu").write_text("")
    (one,) = problems(tmp_path, {"a.cu": text, "b.cu": 'extern "C" __global__ void other() {}'})
    assert (one.code, hint in (one.hint or "")) == ("header-not-found", True)


def test_a_produced_text_with_host_code_is_not_a_file_to_exclude(tmp_path: Path) -> None:
    (one,) = problems(tmp_path, {"a.cu": '#include <vector>\nextern "C" __global__ void k() {}\n'})
    assert (one.code, "exclude" in (one.hint or "")) == ("header-not-found", False)


def test_an_entry_of_the_table_is_found_for_a_source_with_a_variant(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, {"scale[N=4].cu": TEMPLATE}, f"{RULE}instantiate = ['scale<flot, 4>']\n")
    assert str(problem.where).startswith("pyproject.toml:")


@pytest.mark.parametrize(("name", "may_define"), [("N", True), ("T", False)])
def test_a_key_in_the_name_of_a_source_is_not_a_macro(tmp_path: Path, name: str, may_define: object) -> None:
    text = f'extern "C" __global__ void k(float *x) {{ x[0] = {name}; }}\n'
    (one,) = problems(tmp_path, {f"k[{name}=1].cu": text})
    assert "does not define a macro" in (one.hint or "")
    assert (f'"define": {{"{name}": "1"}}' in (one.hint or "")) is may_define


def test_a_macro_that_the_producer_leaves_undefined_is_told_with_the_producer(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void k(float *x) { x[0] = FAST; }\n'
    sources = {"k.cu": {"text": text, "define": {"FAST": False}}}
    (one,) = problems(tmp_path, sources)
    assert "the value false in demo/gen.py leaves" in (one.hint or "")
