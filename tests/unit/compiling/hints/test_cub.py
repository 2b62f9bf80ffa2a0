"""The parts of CUB that a source uses, in place of the whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import cub
from hatch_cubin.errors import CompileError
from tests.helpers import make_project
from tests.unit.compiling.hints.failed_compiles import setting

BOTH = ["Exchange", "Load", "MergeSort", "Reduce", "Scan", "Store"]
BLOCK = ["AdjacentDifference", "Discontinuity", "Histogram", "RadixRank", "RadixSort", "RunLengthDecode"]
EVERY = [*(f"Block{name}" for name in (*BOTH, *BLOCK, "Shuffle")), *(f"Warp{name}" for name in BOTH)]


def test_the_parts_are_those_that_the_source_and_its_headers_use(tmp_path: Path) -> None:
    text = "cub::BlockRunLengthDecode<int> a; // cub::WarpLoad\ncub :: WarpScan<int> b; cub::Sum c;"
    used = setting(tmp_path, text=text, files={"demo/a.h": "using cub::BlockLoad;"})
    assert cub.about_whole(used) == (
        "include what the source uses of it: <cub/block/block_load.cuh>, "
        "<cub/block/block_run_length_decode.cuh>, <cub/warp/warp_scan.cuh>"
    )


def test_one_part_is_shown_where_none_is_known_to_be_used(tmp_path: Path) -> None:
    used = setting(tmp_path, text="cub::DeviceReduce::Sum();")
    assert cub.about_whole(used) == ("include the parts for device code, as in <cub/block/block_reduce.cuh>")


@pytest.mark.nvrtc
def test_a_source_with_the_parts_that_are_named_compiles(tmp_path: Path) -> None:
    names = "".join(f"using cub::{name};\n" for name in EVERY)
    source = f'#include <cub/cub.cuh>\n{names}extern "C" __global__ void k() {{}}\n'
    options = 'archs = ["sm_90"]'
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, {"k.cu": source}, options))
    (problem,) = caught.value.problems
    assert problem.hint is not None
    parts = re.findall(r"<cub/\w+/\w+\.cuh>", problem.hint)
    assert len(parts) == len(EVERY)
    mended = source.replace("#include <cub/cub.cuh>", "\n".join(f"#include {part}" for part in parts))
    assert pipeline.build(make_project(tmp_path, {"k.cu": mended}, options))
