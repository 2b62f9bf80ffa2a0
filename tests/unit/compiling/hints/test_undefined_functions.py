"""Functions without a body."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import undefined_functions
from hatch_cubin.errors import Location

from .failed_compiles import error, setting

INCLUDE = "every source is compiled by itself: include the file that defines it"


DECLARED = "// f(1);\n__global__ void k() { f(3); }\nextern __device__ float f(int);\n"
IN_HEADER = "#pragma once\nnamespace ns {\nstruct V;\n__device__ int *f(int a,\n  V *b);\n}\n"


@pytest.mark.parametrize(
    ("symbol", "text", "what", "where"),
    [
        ("_Z1fi", DECLARED, "'f' (_Z1fi)", Location("demo/a.cu", 3)),
        (
            "_ZN2ns1fEiPNS_1VE",
            "int y = ns::f(3, 0);\n",
            "'ns::f' (_ZN2ns1fEiPNS_1VE)",
            Location("demo/h.h", 5),
        ),
        ("plain", "x;\ny = plain(1);\n", "'plain'", Location("demo/a.cu", 2)),
        ("_ZN1aIfE1gEv", "a<float>::g();\n", "'a<float>::g' (_ZN1aIfE1gEv)", Location("demo/a.cu", 1)),
        ("_Z4goneIfEvv", "nothing", "'gone<float>' (_Z4goneIfEvv)", Location("demo/a.cu")),
    ],
    ids=["declared", "in a header", "called", "of a class", "nowhere"],
)
def test_a_function_is_told_by_its_name_where_it_is_declared(
    tmp_path: Path, symbol: str, text: str, what: str, where: Location
) -> None:
    failed = error(f"Unresolved extern function '{symbol}'", line=None)
    there = setting(tmp_path, text=text, files={"demo/h.h": IN_HEADER})
    told = undefined_functions.unresolved([error("x"), failed], there)
    assert told is not None
    assert (told[0].text, told[0].where) == (f"Unresolved extern function {what}", where)
    assert (told[0].hint, [each.text for each in told[1]]) == (INCLUDE, ["x"])


def test_a_ptx_source_has_its_line_too(tmp_path: Path) -> None:
    there = setting(tmp_path, path="demo/k.ptx", text=".version 7.0\n.extern .func foo();\ncall foo;\n")
    told = undefined_functions.unresolved(
        [error("Undefined reference to 'foo' in 'demo/k.ptx'", "demo/k.ptx", None)], there
    )
    assert told is not None
    assert told[0].where == Location("demo/k.ptx", 2)
    assert told[0].hint == "every source is assembled by itself: its text has to define what it calls"


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    assert undefined_functions.unresolved([error("x")], setting(tmp_path)) is None
