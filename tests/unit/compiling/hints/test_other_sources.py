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
    "the source has only device functions or variables: "
    "mark a function with __global__ to make it a kernel, or exclude the source: "
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
        f"demo/b.cu calls 'twice': link demo/b.cu and demo/a.cu with this table:{TABLE}",
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
        f"demo/b.cu calls 'twice': add demo/a.cu to the sources of the module 'b':\n    {sources}",
        "if this definition fits, add 'demo/a.cu' to 'sources' of this module",
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
        f"demo/b.cu declares 'count': link demo/b.cu and demo/a.cu with this table:{TABLE}"
    ]
    hint = f"\n  hint: the definition is in demo/a.cu:1: link both sources with this table:{TABLE}"
    assert [text.endswith(hint) for text in said if "demo/b.cu" in text] == [True], said
    assert hints(tmp_path / "after", files, OPTIONS + TABLE) == []


@pytest.mark.nvrtc
def test_a_separate_variable_is_told_in_every_build_until_its_definition_is_linked(tmp_path: Path) -> None:
    use = f'#include "p.cuh"\n{CALL.replace("twice(*x)", "count[1]")}'
    files = {
        "p.cuh": "#pragma once\nextern __constant__ float count[2];\n",
        "a.cu": '#include "p.cuh"\n__constant__ float count[2];\n',
        "b.cu": use,
    }
    project, said = make_project(tmp_path, files, OPTIONS), list[str]()
    for _build in range(2):
        with pytest.raises(CompileError) as caught:
            pipeline.build(dataclasses.replace(project, warn=said.append))
        assert [problem.hint for problem in caught.value.problems] == [
            f"demo/b.cu declares 'count': link demo/b.cu and demo/a.cu with this table:{TABLE}"
        ]
    table = f"link both sources with this table:{TABLE}"
    assert [text.endswith(table) for text in said if "[separate-variable]" in text] == [True, True]


USE = 'extern "C" __global__ void b(float *x) { *x += f(count); }\n'
OF_COUNT = "extern __constant__ float count;\n"


def missing_kernel(root: Path, text: str, header: str, other: str = USE) -> str | None:
    """Return the hint for a source without kernels, whose header another source includes too."""
    there = setting(root, text=text, files={"demo/p.cuh": header, "demo/b.cu": other})
    headers = ("demo/p.cuh",) if "#include" in text else ()
    sources = {"demo/a.cu": text, "demo/b.cu": other}
    return other_sources.used_elsewhere(dataclasses.replace(there, headers=headers, sources=sources))


@pytest.mark.parametrize(
    ("declared", "defined"),
    [
        (OF_COUNT, "__constant__ float count = 3;\n"),
        (OF_COUNT, "__constant__\n  float other, count;\n"),
        (OF_COUNT, "__constant__ float count(3.f);\n"),
        (OF_COUNT, "float __constant__ count{3};\n"),
        ('extern "C" __constant__ float count;\n', 'extern "C" __constant__ float count = 3;\n'),
        ("namespace n { extern __device__ int count; }\n", "namespace n { __device__ int count; }\n"),
        ("extern __device__ A<int, 3> count;\n", "__device__ A<int, 3> count = {1, 2};\n"),
        (
            "extern __constant__ __align__(16) float count[(4)];\n",
            "__constant__ __align__(16) float count[(4)];\n",
        ),
        (
            "#ifndef EXTERN\n#define EXTERN extern\n#endif\nEXTERN __constant__ float count;\n",
            "#define EXTERN\n",
        ),
    ],
    ids=["value", "two", "parentheses", "braces", "C", "namespace", "template", "alignment", "macro"],
)
def test_a_variable_that_a_header_declares_is_linked(tmp_path: Path, declared: str, defined: str) -> None:
    hint = f"demo/b.cu declares 'count': link demo/b.cu and demo/a.cu with this table:{TABLE}"
    include = '#include "p.cuh"\n'
    assert missing_kernel(tmp_path / "both", f"{defined}{include}", declared, f"{include}{USE}") == hint
    if "EXTERN" not in defined:
        assert missing_kernel(tmp_path / "one", defined, declared, f"{include}{USE}") == hint


def test_a_header_can_hide_the_use_of_the_variable(tmp_path: Path) -> None:
    text = '#include "p.cuh"\n__constant__ float count = 3;\n'
    other = '#include "p.cuh"\nextern "C" __global__ void b(float *x) { *x += scaled(); }\n'
    hint = missing_kernel(tmp_path, text, OF_COUNT, other)
    assert hint == f"demo/b.cu declares 'count': link demo/b.cu and demo/a.cu with this table:{TABLE}"


def test_a_static_variable_that_another_source_declares_belongs_into_a_header(tmp_path: Path) -> None:
    hint = missing_kernel(
        tmp_path, "static __constant__ float count = 3;\n", OF_COUNT, f'#include "p.cuh"\n{USE}'
    )
    assert hint == (
        "demo/b.cu declares 'count', but cannot use the definition in demo/a.cu:1: "
        "move the definition into a header"
    )


@pytest.mark.parametrize(
    ("defined", "other"),
    [
        ("__constant__ float count = 3;\n", USE.replace("f(", "float count; (")),
        ("__constant__ float count = 3;\n", f"__constant__ float count = 3;\n{USE}"),
        ("extern __constant__ float count;\n", f"{OF_COUNT}{USE}"),
        ("__device__ float (*count)(float);\n", USE),
    ],
    ids=["local variable", "its own variable", "declaration", "pointer to a function"],
)
def test_other_variables_are_not_linked(tmp_path: Path, defined: str, other: str) -> None:
    assert missing_kernel(tmp_path, defined, "", other) is None


INCLUDE = (
    "each source is compiled alone: include the file with the definition, "
    "or link both sources with a module table"
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
