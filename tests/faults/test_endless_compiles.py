"""A source that the real compiler cannot get through is named; what is beside it is compiled and kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import CompileError
from tests.fault_counts import Figures
from tests.helpers import SAXPY, make_project

pytestmark = pytest.mark.nvrtc

BOMB = """\
template <int DEPTH, unsigned long long PATH> struct Node {
  static constexpr int value = Node<DEPTH - 1, 2 * PATH>::value + Node<DEPTH - 1, 2 * PATH + 1>::value;
};
template <unsigned long long PATH> struct Node<0, PATH> { static constexpr int value = 1; };
extern "C" __global__ void bomb(int *x) { *x = Node<60, 1>::value; }
"""
ARCHS = 'archs = ["sm_90"]'


def test_a_template_without_end_is_stopped_and_named_and_the_others_are_kept(
    tmp_path: Path, figures: Figures
) -> None:
    files = {
        "bomb.cu": BOMB,
        **{f"good{number}.cu": SAXPY.replace("saxpy", f"k{number}") for number in range(3)},
    }
    limit = figures.pick(2, 300)
    start = time.monotonic()
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, files, ARCHS, HATCH_CUBIN_TIMEOUT=str(limit)))
    took = time.monotonic() - start
    figures.tell(limit_s=limit, took_s=round(took, 1))
    assert [problem.what for problem in caught.value.problems] == [
        f"took longer than {limit} s and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
    ]
    assert str(caught.value).startswith("demo/bomb.cu: ")
    assert limit < took < limit + 30
    (tmp_path / "demo/bomb.cu").unlink()
    project = make_project(tmp_path, {}, ARCHS, HATCH_CUBIN_REQUIRE_HITS="1")
    assert {f"good{number}.sm_90.cubin" for number in range(3)} <= pipeline.build(project).keys()
