"""Functions of another source: the table that links the two, or the header that both need."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import other_sources
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project

from .failed_compiles import error, setting

F = "__device__ float twice(float x) { return 2 * x; }\n"
CALL = 'extern "C" __global__ void b(float *x) { *x = twice(*x); }\n'
DECLARED = "__device__ float twice(float);\n"
OPTIONS = "archs = ['sm_90']\n"
TABLE = """
    [[tool.hatch.build.hooks.cubin.module]]
    name = "b"
    sources = ["demo/b.cu", "demo/a.cu"]
    mode = "lto\""""
IN_HEADER = "other sources cannot use the definition in demo/a.cu:1: move the definition into a header"
EXCLUDED = (
    "the source has only device functions: mark its kernel with __global__, or exclude the source: "
    'under [tool.hatch.build.hooks.cubin]: exclude = ["demo/a.cu"]'
)


def hints(root: Path, files: dict[str, str], options: str = OPTIONS) -> list[str | None]:
    """Build a project, and return the hints of what is wrong."""
    try:
        pipeline.build(make_project(root, {**files}, options))
    except CompileError as exc:
        return [problem.hint for problem in exc.problems]
    return []


@pytest.mark.nvrtc
def test_a_source_of_functions_and_one_that_calls_them_get_one_table(tmp_path: Path) -> None:
    files = {"a.cu": F, "b.cu": DECLARED + CALL}
    assert hints(tmp_path / "before", files) == [
        f"demo/b.cu calls 'twice': link both sources with this table:{TABLE}",
        f"the definition is in demo/a.cu:1: link both sources with this table:{TABLE}",
    ]
    assert hints(tmp_path / "after", files, OPTIONS + TABLE) == []


@pytest.mark.nvrtc
@pytest.mark.parametrize("before", ["static ", "inline ", "template <class T = float>\n"])
def test_what_compilers_keep_for_one_source_belongs_into_a_header(tmp_path: Path, before: str) -> None:
    text = before + F
    where = IN_HEADER if "\n" not in before else IN_HEADER.replace(":1", ":2")
    assert hints(tmp_path / "alone", {"a.cu": text, "b.cu": DECLARED + CALL}) == [EXCLUDED, where]
    files = {"a.cuh": text, "b.cu": f'#include "a.cuh"\n{CALL}'}
    assert hints(tmp_path / "after", files) == []


@pytest.mark.nvrtc
def test_functions_that_no_other_source_calls_are_left_out(tmp_path: Path) -> None:
    own = F + CALL
    assert hints(tmp_path / "variable", {"a.cu": "__device__ int v = 1;\n", "b.cu": own}) == [EXCLUDED]
    assert hints(tmp_path, {"a.cu": F, "b.cu": own, "c.cu": "// twice(1)\n" + CALL.replace("twice", "")}) == [
        EXCLUDED
    ]


@pytest.mark.nvrtc
def test_a_source_that_a_module_table_lacks_is_added_to_that_table(tmp_path: Path) -> None:
    files = {"a.cu": F, "b.cu": DECLARED + CALL, "c.cu": "__device__ int c;\n"}
    table = f"{OPTIONS}{TABLE}".replace("demo/a.cu", "demo/c.cu")
    sources = 'sources = ["demo/b.cu", "demo/c.cu", "demo/a.cu"]'
    assert hints(tmp_path / "before", files, table) == [
        f"demo/b.cu calls 'twice', so add this source to the module 'b':\n    {sources}",
        "demo/a.cu:1 defines the symbol: add 'demo/a.cu' to 'sources' of this module",
    ]
    followed = table.replace('sources = ["demo/b.cu", "demo/c.cu"]', sources)
    assert hints(tmp_path / "after", files, followed) == []


@pytest.mark.nvrtc
def test_a_variable_that_another_source_declares_is_linked(tmp_path: Path) -> None:
    use = "extern __constant__ float count[2];\n" + CALL.replace("twice(*x)", "count[1]")
    files, said = {"a.cu": "__constant__ float count[2];\n", "b.cu": use}, list[str]()
    project = make_project(tmp_path / "before", {**files, "c.cu": CALL.replace("twice", "")}, OPTIONS)
    with pytest.raises(CompileError) as caught:
        pipeline.build(dataclasses.replace(project, warn=said.append))
    assert [problem.hint for problem in caught.value.problems] == [
        f"demo/b.cu declares 'count': link both sources with this table:{TABLE}"
    ]
    hint = f"\n  hint: the definition is in demo/a.cu:1: link both sources with this table:{TABLE}"
    assert [text.endswith(hint) for text in said if "demo/b.cu" in text] == [True], said
    assert hints(tmp_path / "after", files, OPTIONS + TABLE) == []


INCLUDE = (
    "each source is compiled alone: include the file with the definition, or link both with a module table"
)


NEAR = "// f(1);\n__global__ void k() { f(3); }\nextern __device__ float f(int);\n"
HEADER = "#pragma once\nnamespace ns {\nstruct V;\n__device__ int *f(int a,\n  V *b);\n}\n"


@pytest.mark.parametrize(
    ("symbol", "text", "what", "where"),
    [
        ("_Z1fi", NEAR, "'f' (_Z1fi)", Location("demo/a.cu", 3)),
        (
            "_ZN2ns1fEiPNS_1VE",
            "int y = ns::f(3, 0);\n",
            "'ns::f' (_ZN2ns1fEiPNS_1VE)",
            Location("demo/a.cu", 1),
        ),
        ("_ZN2ns1fEiPNS_1VE", "", "'ns::f' (_ZN2ns1fEiPNS_1VE)", Location("demo/h.h", 4)),
        ("plain", "x;\ny = plain(1);\n", "'plain'", Location("demo/a.cu", 2)),
        ("_ZN1aIfE1gEv", "a<float>::g();\n", "'a<float>::g' (_ZN1aIfE1gEv)", Location("demo/a.cu", 1)),
        ("_Z4goneIfEvv", "nothing", "'gone<float>' (_Z4goneIfEvv)", Location("demo/a.cu")),
    ],
    ids=["declared", "called with a header", "in a header", "called", "of a class", "nowhere"],
)
def test_a_function_is_told_by_its_name_where_it_is_declared(
    tmp_path: Path, symbol: str, text: str, what: str, where: Location
) -> None:
    failed = error(f"Unresolved extern function '{symbol}'", line=None)
    there = setting(tmp_path, text=text, files={"demo/h.h": HEADER})
    told = other_sources.unresolved([error("x"), failed], there)
    assert told is not None
    assert (told[0].text, told[0].where) == (f"Unresolved extern function {what}", where)
    assert (told[0].hint, [each.text for each in told[1]]) == (INCLUDE, ["x"])


def test_a_ptx_source_has_its_line_too(tmp_path: Path) -> None:
    there = setting(tmp_path, path="demo/k.ptx", text=".version 7.0\n.extern .func foo();\ncall foo;\n")
    told = other_sources.unresolved(
        [error("Undefined reference to 'foo' in 'demo/k.ptx'", "demo/k.ptx", None)], there
    )
    assert told is not None
    assert told[0].where == Location("demo/k.ptx", 2)
    assert (
        told[0].hint
        == "PTX sources are assembled separately: add the definition, or link both files with a module table"
    )


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    assert other_sources.unresolved([error("x")], setting(tmp_path)) is None
