"""Errors that follow from an earlier mistake are not reported one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.compiling.hints import follow_ups
from hatch_cubin.errors import CompileError, Location, Problem
from tests.helpers import make_project, refusal

from .failed_compiles import error, setting, undefined

ATTRIBUTE = error('attribute "__global__" does not apply here')
SEMICOLON = error('expected a ";"')


def errors_of(root: Path, files: dict[str, str | bytes]) -> tuple[Problem, ...]:
    return refusal(CompileError, pipeline.build, make_project(root, files, 'archs = ["sm_90"]')).problems


@pytest.mark.nvrtc
def test_an_unfinished_struct_in_a_header_is_one_error_of_all_sources(tmp_path: Path) -> None:
    kernel = '#include "part.h"\nextern "C" __global__ void {name}({more}int *x) {{ x[0] = 1; }}\n'
    sources = {f"{name}.cu": kernel.format(name=name, more="int y, " * (name == "b")) for name in "abc"}
    (one,) = errors_of(tmp_path, {"part.h": "struct Part { int x }\n", **sources})
    assert (one.where, one.what) == (Location("demo/part.h", 1), 'expected a ";"')


@pytest.mark.nvrtc
def test_other_errors_of_a_source_with_an_unfinished_header_stay(tmp_path: Path) -> None:
    source = '#include "part.h"\nint second;\n__global__ void k(int *x) {\n  x[0] = missing;\n}\n'
    found = errors_of(tmp_path, {"part.h": "struct Part { int x }\n", "k.cu": source})
    assert [each.where for each in found if each.what == 'identifier "missing" is undefined'] == [
        Location("demo/k.cu", 4)
    ]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        ('extern "C" __global__ void k(float *x, my_t *y) { x[0] = y[0]; }', 1),
        ("__global__ void k(float *x,\n                  my_t y) {\n  x[0] = y;\n}", 2),
        ("template <class T> __global__ void k(my_t<T> x) { x[0] = 1; }", 1),
        ("__global__ void k(my_t *x);\n__global__ void k2(int *x) { x[0] = 1; }", 1),
    ],
)
def test_an_unknown_type_of_a_parameter_is_the_first_error(tmp_path: Path, kernel: str, line: int) -> None:
    first, *others = errors_of(tmp_path, {"k.cu": kernel})
    assert (first.where, first.what) == (Location("demo/k.cu", line), 'identifier "my_t" is undefined')
    assert not [each for each in others if "attribute" in each.what or "incomplete" in each.what]


def test_a_kernel_that_is_a_variable_hides_no_other_error(tmp_path: Path) -> None:
    text = "__global__ int v;\n__device__ int f() { return foo; }\nint x\n"
    found = [ATTRIBUTE, undefined("foo", 2), error('expected a ";"', line=3)]
    assert follow_ups.of_unknown_type(found, setting(tmp_path, text=text)) is None


def test_only_the_declaration_follows_from_the_end_of_a_header(tmp_path: Path) -> None:
    in_header, in_other = error('expected a ";"', "demo/part.h"), error('expected a ";"', "demo/b.h")
    found = [
        undefined("x"),
        in_header,
        error("linkage specification is not allowed"),
        undefined("y"),
        in_other,
    ]
    told = follow_ups.of_unfinished_header(found, setting(tmp_path))
    assert told is not None
    assert told[0].where == in_header.where
    assert told[0].context == ("errors that follow from this error are not shown",)
    assert told[1] == [undefined("x"), undefined("y"), in_other]
    assert follow_ups.of_unfinished_header([in_header], setting(tmp_path)) == (in_header, [])


@pytest.mark.parametrize(
    "other",
    [
        SEMICOLON,
        error('expected a ";"', "<cccl>/a.h"),
        error("no such member", "demo/part.h"),
        error("expected an expression", "demo/part.h"),
    ],
    ids=["in the source", "in another package's header", "no syntax error", "the compiler goes on"],
)
def test_other_errors_have_no_follow_ups(tmp_path: Path, other: Diagnostic) -> None:
    assert follow_ups.of_unfinished_header([other, undefined("x")], setting(tmp_path)) is None


def test_only_the_errors_of_the_kernel_follow_from_its_unknown_type(tmp_path: Path) -> None:
    text = "\n__global__ void k(int a,\n  my_t *x) {\n  x[0] = y;\n}\n"
    before, after, unknown = undefined("x", 1), undefined("y", 4), undefined("my_t", 3)
    attribute = error(ATTRIBUTE.text, line=2)
    found = [before, attribute, unknown, error('expected a ";"', line=3), after]
    told = follow_ups.of_unknown_type(found, setting(tmp_path, text=text))
    assert told == (unknown.followed_by(2), [before, after])


@pytest.mark.parametrize(
    "found", [[undefined("x")], [ATTRIBUTE, SEMICOLON], [replace(ATTRIBUTE, where=None)]]
)
def test_an_attribute_without_an_unknown_type(tmp_path: Path, found: list[Diagnostic]) -> None:
    assert follow_ups.of_unknown_type(found, setting(tmp_path)) is None
