"""Tile kernels, which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import tile_kernels
from hatch_cubin.errors import CompileError, Location, problem
from tests.helpers import SAXPY, make_project, refusal

from .failed_compiles import error, setting

TILE = "__tile_global__ void t(float *x) {}\n"
WHAT = "tile kernels (__tile_global__) are not supported yet"
AS_DEVICE = "options = { device-as-default-execution-space = true }"


@pytest.mark.parametrize(
    "text", ["", "int __tile_global__x;\n", f"#ifdef WITH_TILES\n{TILE}#endif\n", f"// {TILE}"]
)
def test_what_the_compiler_may_not_read_is_not_refused(text: str) -> None:
    assert tile_kernels.place_in({"a.h": "", "k.cu": text}) is None


@pytest.mark.parametrize("text", [TILE, "__tile__ int f();\n", f"#ifdef __CUDACC__\n{TILE}#endif\n"])
def test_tile_code_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    told = tile_kernels.unsupported(
        [error("this needs C++20", "<cuda/cu13/include>/crt/cuda_tile.h", 55)], setting(tmp_path, text=text)
    )
    assert told is not None
    assert (told[0].text, told[0].hint, told[1]) == (WHAT, 'leave the file out: exclude = ["demo/a.cu"]', [])
    assert told[0].context == (f"    {text.splitlines()[told[0].where.line - 1]}",)  # type: ignore[union-attr, operator]


def test_a_header_is_not_left_out(tmp_path: Path) -> None:
    there = setting(tmp_path, text='#include "t.h"\n', files={"demo/t.h": TILE})
    told = tile_kernels.unsupported([error("x")], there)
    assert told is not None
    assert (told[0].where, told[0].context) == (Location("demo/t.h", 1), ())
    assert told[0].hint == "demo/a.cu has to do without what includes it"


def test_nothing_is_told_where_nothing_failed(tmp_path: Path) -> None:
    assert tile_kernels.unsupported([], setting(tmp_path, text=TILE)) is None


@pytest.mark.nvrtc
@pytest.mark.parametrize("options", ["", AS_DEVICE], ids=["as it is", "where NVRTC would leave it out"])
def test_no_wheel_is_built_without_a_tile_kernel(tmp_path: Path, options: str) -> None:
    project = make_project(tmp_path, {"k.cu": SAXPY + TILE}, f'archs = ["sm_90"]\n{options}')
    (refused,) = refusal(CompileError, pipeline.build, project).problems
    hint = "move it into a file of its own, and leave that out with 'exclude'"
    where = Location("demo/k.cu", SAXPY.count("\n") + 1)
    assert refused._replace(details=()) == problem("tile-kernels-not-supported", WHAT, where, hint)
