"""Errors that follow from an earlier mistake are counted, and not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.compiling.hints import follow_ups
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project, refusal

from .failed_compiles import error, setting, undefined

ATTRIBUTE = error('attribute "__global__" does not apply here')
SEMICOLON = error('expected a ";"')


def errors_of(root: Path, files: dict[str, str | bytes]) -> list[tuple[Location | None, str, str]]:
    """Return the place and the text of each error of a build, and the line that counts other errors."""
    found = refusal(CompileError, pipeline.build, make_project(root, files, 'archs = ["sm_90"]')).problems
    counts = ["".join(line for line in each.details if line.startswith("and ")) for each in found]
    return [(each.where, each.what, more) for each, more in zip(found, counts, strict=True)]


@pytest.mark.nvrtc
def test_an_unfinished_struct_in_a_header_is_one_error_of_all_sources(tmp_path: Path) -> None:
    kernel = '#include "part.h"\nextern "C" __global__ void {name}(int *x) {{ x[0] = 1; }}\n'
    sources = {f"{name}.cu": kernel.format(name=name) for name in "abc"}
    assert errors_of(tmp_path, {"part.h": "struct Part { int x }\n", **sources}) == [
        (Location("demo/part.h", 1), 'expected a ";"', "and 3 more errors after this error")
    ]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        ('extern "C" __global__ void k(float *x, my_t *y) { x[0] = y[0]; }', 1),
        ("__global__ void k(float *x,\n                  my_t y) {\n  x[0] = y;\n}", 2),
        ("template <class T> __global__ void k(my_t<T> x) { x[0] = 1; }", 1),
    ],
)
def test_an_unknown_type_of_a_parameter_is_the_first_error(tmp_path: Path, kernel: str, line: int) -> None:
    (where, what, _more), *others = errors_of(tmp_path, {"k.cu": kernel})
    assert (where, what) == (Location("demo/k.cu", line), 'identifier "my_t" is undefined')
    assert not [what for _where, what, _more in others if "attribute" in what or "incomplete" in what]


def test_what_was_wrong_before_a_header_stays(tmp_path: Path) -> None:
    first, in_header = undefined("x"), error('expected a ";"', "demo/part.h")
    told = follow_ups.of_syntax_error_in_header([first, in_header, SEMICOLON], setting(tmp_path))
    assert told == (in_header.followed_by(1), [first])


@pytest.mark.parametrize(
    "other",
    [SEMICOLON, error('expected a ";"', "<cccl>/a.h"), error("no such member", "demo/part.h")],
    ids=["in the source", "in another package's header", "no syntax error"],
)
def test_other_errors_have_no_follow_ups(tmp_path: Path, other: Diagnostic) -> None:
    assert follow_ups.of_syntax_error_in_header([other, undefined("x")], setting(tmp_path)) is None


def test_only_the_errors_of_the_kernel_follow_from_its_unknown_type(tmp_path: Path) -> None:
    before, after, unknown = undefined("x", 1), undefined("y", 9), undefined("my_t", 3)
    found = [before, ATTRIBUTE, unknown, SEMICOLON, after]
    assert follow_ups.of_unknown_type(found, setting(tmp_path)) == (unknown.followed_by(2), [before, after])


@pytest.mark.parametrize("found", [[undefined("x")], [ATTRIBUTE, SEMICOLON, undefined("x")], [ATTRIBUTE]])
def test_an_attribute_without_an_unknown_type(tmp_path: Path, found: list[Diagnostic]) -> None:
    assert follow_ups.of_unknown_type(found, setting(tmp_path)) is None
