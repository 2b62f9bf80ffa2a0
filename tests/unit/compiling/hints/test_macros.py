"""Macros that change code which was not written for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin import _pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project
from tests.unit.compiling.hints.settings import TABLES, error, setting

THEIRS = "<nvrtc/cccl>/cub/x.cuh"
RULE = f"{TABLES}\npath = 'demo/a.cu'\n"
SHOWN = ("  template <int N>", "                ^")
SUM = """\
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void k(float *x) {
  __shared__ cub::BlockReduce<float, N>::TempStorage s;
  *x = cub::BlockReduce<float, N>(s).Sum(*x);
}
"""


@pytest.mark.parametrize(
    ("options", "text", "place"),
    [
        ("define = { N = 4 }", "", Location("pyproject.toml", 10)),
        (f"define = {{ N = 4 }}\n{RULE}define = {{ N = 3 }}", "", Location("pyproject.toml", 13)),
        (f"{RULE}variants = {{ N = [4] }}", "", Location("pyproject.toml", 12)),
        (f"{RULE}\n{RULE}variants.N = [4]\n{RULE}define.M = 1", "", Location("pyproject.toml", 15)),
        ("", "// N\n#  define N 4\n", Location("demo/a.cu", 2)),
    ],
)
def test_a_macro_that_headers_have_as_a_name_is_told_once(
    tmp_path: Path, options: str, text: str, place: Location
) -> None:
    found = [
        error('identifier "x" is undefined', THEIRS, 7, *SHOWN),
        error('expected a "," or ">"', THEIRS, 8, *SHOWN),
        error('expected a "," or ">"', "demo/a.cu", 9),
    ]
    hint = "give the macro a name that nothing else has, in demo/a.cu too"
    what = f"the macro N takes the place of another N, in {THEIRS}:8"
    assert advise(found, setting(tmp_path, options, text=text)) == [
        Diagnostic("error", place, what, SHOWN, hint)
    ]


@pytest.mark.parametrize(
    "shown",
    [(), ("  template <int N>",), ("  template <int N>", "   ^"), ("  template <int M>", SHOWN[1])],
)
def test_what_fails_elsewhere_has_other_reasons(tmp_path: Path, shown: tuple[str, ...]) -> None:
    found = [error('expected a "," or ">"', THEIRS, 8, *shown)]
    assert advise(found, setting(tmp_path, "define = { N = 4 }")) == found
    own = [error('expected a "," or ">"', "demo/a.cu", 8, *shown)]
    assert advise(own, setting(tmp_path, "define = { N = 4 }")) == own


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('expected a "," or ">"', "N is a macro and stands for 'floot' (pyproject.toml:10)"),
        ('identifier "floot" is undefined', "N is a macro and stands for 'floot' (pyproject.toml:10)"),
        ('identifier "other" is undefined', None),
        ("too few arguments", None),
    ],
)
def test_beside_an_error_of_the_source_it_is_said_what_a_macro_of_the_table_stands_for(
    tmp_path: Path, text: str, hint: str | None
) -> None:
    found = [error(text, "demo/a.cu", 3, *SHOWN), error("other")]
    told = advise(found, setting(tmp_path, "define = { N = 'floot' }"))
    assert [(each.text, each.hint) for each in told] == [(text, hint), ("other", None)]


def test_of_a_variants_macro_no_value_is_shown(tmp_path: Path) -> None:
    (told,) = advise(
        [error('expected a ";"', "demo/a.cu", 3, *SHOWN)], setting(tmp_path, f"{RULE}variants.N = [4]")
    )
    assert told.hint == "N is a macro of the variant (pyproject.toml:12)"


@pytest.mark.nvrtc
def test_a_source_that_includes_cub_compiles_with_another_name(tmp_path: Path) -> None:
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ N = [128, 64] }}'
    with pytest.raises(CompileError) as caught:
        _pipeline.build(make_project(tmp_path, {"a.cu": SUM}, options))
    (problem,) = caught.value.problems
    assert (problem.where, problem.what.partition(",")[0]) == (
        Location("pyproject.toml", 13),
        "the macro N takes the place of another N",
    )
    renamed = SUM.replace("N>", "MY_N>")
    assert _pipeline.build(make_project(tmp_path, {"a.cu": renamed}, options.replace("N =", "MY_N =")))


@pytest.mark.nvrtc
def test_a_variants_macro_that_the_source_defines_again_is_an_error(tmp_path: Path) -> None:
    text = '#define N 1\nextern "C" __global__ void k(int *x) { *x = N; }\n'
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ N = [1, 2, 3] }}'
    with pytest.raises(CompileError) as caught:
        _pipeline.build(make_project(tmp_path, {"a.cu": text}, options))
    (problem,) = caught.value.problems
    assert problem[:3] == (
        "N is defined again: its variants would be one",
        Location("demo/a.cu", 1),
        "#ifndef N before it, and #endif behind, keep the value that was given",
    )
    kept = text.replace("#define N 1", "#ifndef N\n#define N 1\n#endif")
    assert _pipeline.build(make_project(tmp_path, {"a.cu": kept}, options))
