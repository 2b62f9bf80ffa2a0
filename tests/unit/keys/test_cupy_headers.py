"""The headers that CuPy's compiler finds in CuPy's wheel, and the structs that wheels cannot contain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.config.config import SourceRule
from hatch_cubin.headers.includes import Closure
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.keys.cupy_headers import host_struct_problems, with_folders_of_cupy
from hatch_cubin.planning.unit_plan import Module
from hatch_cubin.project.source import Production, Source
from tests.helpers import read_config, write_tree

CUPY = "cupy-cuda13x/cupy/_core/include"


def test_copies_of_libraries_come_before_all_else(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"in/cupy/_cccl/cub/cub/cub.cuh": "", "in/cupy/_cccl/libcudacxx/cuda/std/atomic": ""}
    )
    roots = (
        SearchFolder(tmp_path / "other", "lib/include", "lib==1"),
        SearchFolder(tmp_path / "in", CUPY, "cupy-cuda13x==14.2.0"),
    )
    first, second, *others = with_folders_of_cupy(roots)
    assert [first.logical, second.logical] == [f"{CUPY}/cupy/_cccl/{name}" for name in ("cub", "libcudacxx")]
    assert (first.path, first.tree) == (tmp_path / "in/cupy/_cccl/cub", "cupy-cuda13x==14.2.0")
    assert tuple(others) == roots
    assert with_folders_of_cupy(roots[:1]) == roots[:1]


ATOMICS = "#include <cupy/atomics.cuh>\n"
DIRECT = '\n#include "cupy/carray.cuh"\n'
REACHED = Closure({f"{CUPY}/cupy/carray.cuh": "1"})


def place_and_hint(source: Source, closure: Closure) -> list[tuple[str, str, str | None]]:
    found = host_struct_problems({Module("k", source): closure}, read_config('exclude = ["a.cu"]'))
    return [(each.code, str(each.where), each.hint) for each in found.values()]


@pytest.mark.parametrize(
    ("text", "line"),
    [(DIRECT, ":2"), (f"{ATOMICS}void f(CArray<int, 1> a)", ""), (f"{ATOMICS}CIndexer<1>", "")],
)
def test_structs_of_the_host_are_refused(text: str, line: str) -> None:
    hint = 'exclude the source, so that CuPy compiles the source at run time: exclude = ["a.cu", "k.cu"]'
    expected = [("structs-of-host", f"k.cu{line}", hint)]
    assert place_and_hint(Source("k.cu", text), REACHED) == expected


def test_a_missing_header_with_structs_is_refused_too() -> None:
    closure = Closure()
    closure.missing.add("cupy/carray.cuh")
    assert len(place_and_hint(Source("k.cu", DIRECT), closure)) == 1


def test_headers_that_only_contain_the_structs_are_allowed() -> None:
    assert place_and_hint(Source("k.cu", ATOMICS), REACHED) == []
    assert place_and_hint(Source("k.cu", "// CArray"), Closure()) == []


def test_a_text_that_is_no_file_is_left_out_where_it_comes_from() -> None:
    rule = SourceRule(path="k.cu")
    made = Production(producer="gen.py", by="gen.py:sources", file="k.cu", base="k", rule=rule, settings={})
    recorded, produced = (
        replace(Source("k.cu", DIRECT), **each) for each in ({"recorded": rule}, {"produced": made})
    )
    ((_, where, of_recorded),) = place_and_hint(recorded, REACHED)
    assert where == "k.cu:3"
    ((_, _, of_produced),) = place_and_hint(produced, REACHED)
    assert of_recorded == "delete this recorded call, so that CuPy compiles the kernel at run time"
    assert of_produced == (
        "remove this source from the texts that gen.py returns, so that CuPy compiles the source at run time"
    )
