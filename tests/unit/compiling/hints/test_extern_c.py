"""Headers that are included between the braces of `extern "C" { }`."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.compiling.hints import extern_c
from hatch_cubin.errors import Location

from .failed_compiles import error, setting

TEMPLATE = 'this declaration may not have extern "C" linkage'
OVERLOAD = 'more than one instance of overloaded function "f" has "C" linkage'
HINT = 'move the include above the block: templates and overloads cannot be extern "C"'
HEADERS = {"demo/h.cuh": '#include "inner.cuh"\n', "demo/inner.cuh": ""}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('extern "C" {\n#include "h.cuh"\n}\n', 2),
        ('extern"C"{ struct S { int x; };\n#include "h.cuh"\n}\n', 2),
        ('namespace n {\nextern "C"\n{\n#include "h.cuh"\n}}\n', 4),
        ('extern "C" { // }\n#include "h.cuh"\n}\n', 2),
    ],
)
def test_the_include_is_told_in_place_of_each_template_below_it(tmp_path: Path, text: str, line: int) -> None:
    own = error('expected a ";"', line=9)
    nowhere = Diagnostic("error", None, "x")
    found = [own, error("x", "demo/h.cuh"), error(TEMPLATE, "demo/inner.cuh", 7, "context"), nowhere]
    told = extern_c.enclosed(found, setting(tmp_path, text=text, files=HEADERS))
    what = "'h.cuh' is included inside of extern \"C\" { }"
    place = Location("demo/a.cu", line)
    assert told == (Diagnostic("error", place, what, ("and 1 more error after it",), HINT), [own, nowhere])


def test_the_block_of_a_header_counts_too(tmp_path: Path) -> None:
    files = {**HEADERS, "demo/h.cuh": 'extern "C" {\n#include "inner.cuh"\n}\n'}
    found = [error(OVERLOAD, "demo/inner.cuh")]
    told = extern_c.enclosed(found, setting(tmp_path, text='#include "h.cuh"\n', files=files))
    assert told is not None
    assert (told[0].where, told[0].context, told[1]) == (Location("demo/h.cuh", 2), (), [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('extern "C" { }\n#include "h.cuh"\n', error(TEMPLATE, "demo/inner.cuh")),
        ('extern "C" void f();\nnamespace n {\n#include "h.cuh"\n}\n', error(TEMPLATE, "demo/inner.cuh")),
        ('// extern "C" {\n#include "h.cuh"\n', error(OVERLOAD, "demo/inner.cuh")),
        ('extern "C" {\n#include "h.cuh"\n}\n', error('expected a ";"', "demo/inner.cuh")),
        ('extern "C" {\n#include "h.cuh"\n}\n', error(TEMPLATE, "demo/a.cu")),
        ('extern "C" {\n#define H "h.cuh"\n#include H\n}\n', error(TEMPLATE, "demo/inner.cuh")),
    ],
)
def test_other_errors_and_other_blocks_are_not(tmp_path: Path, text: str, found: Diagnostic) -> None:
    assert extern_c.enclosed([found], setting(tmp_path, text=text, files=HEADERS)) is None


def test_an_error_without_a_place_is_not(tmp_path: Path) -> None:
    assert extern_c.enclosed([Diagnostic("error", None, TEMPLATE)], setting(tmp_path)) is None
