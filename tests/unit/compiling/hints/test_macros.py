"""Macros that change code which was not written for them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project, refusal
from tests.unit.compiling.hints.failed_compiles import TABLES, error, setting

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
    hint = "rename the macro, also in demo/a.cu"
    what = f"the macro N replaces the name N in {THEIRS}:8"
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


IS_MACRO = "N is a macro, defined as 'floot' (pyproject.toml:10)"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('expected a "," or ">"', IS_MACRO),
        (
            'identifier "floot" is undefined',
            f'{IS_MACRO}; for a string, write: N = "\\"floot\\""',
        ),
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


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [("256;", True), ('"float"', True), ("(256", True), ("x[", True), ("256", False), ("f(1);", False)],
)
def test_a_macro_with_a_broken_value_is_shown_anywhere_in_its_line(
    tmp_path: Path, value: str, *, is_shown: bool
) -> None:
    found = [error('expected a ")"', "demo/a.cu", 1, "void __launch_bounds__(N) k();", "     ^")]
    (told,) = advise(found, setting(tmp_path, f"define = {{ N = '{value}' }}"))
    assert bool(told.hint) is is_shown


def test_a_macro_of_the_project_is_shown_if_it_is_defined_once(tmp_path: Path) -> None:
    there = setting(tmp_path, text='#include "n.h"\n', files={"demo/n.h": "// n\n#define N 10; // ten\n"})
    found = [
        error('expected a "]"', "demo/a.cu", 2, "x[N] = 1;", "  ^"),
        error("expected an expression", "demo/a.cu", 2),
    ]
    (told,) = advise(found, there)
    assert (
        told.hint == "N is a macro, defined as '10;' (demo/n.h:2): a macro's value needs neither '=' nor ';'"
    )
    twice = setting(tmp_path, text="#ifdef A\n#define N 1\n#else\n#define N 2;\n#endif\n")
    assert [each.hint for each in advise(found, twice)] == [None, None]


@pytest.mark.nvrtc
def test_a_source_that_includes_cub_compiles_with_another_name(tmp_path: Path) -> None:
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ N = [128, 64] }}'
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, {"a.cu": SUM}, options))
    (problem,) = caught.value.problems
    assert (problem.where, problem.what.partition(" in ")[0]) == (
        Location("pyproject.toml", 13),
        "the macro N replaces the name N",
    )
    renamed = SUM.replace("N>", "MY_N>")
    assert pipeline.build(make_project(tmp_path, {"a.cu": renamed}, options.replace("N =", "MY_N =")))


@pytest.mark.nvrtc
def test_a_variants_macro_that_the_source_defines_again_is_an_error(tmp_path: Path) -> None:
    text = '#define N 1\nextern "C" __global__ void k(int *x) { *x = N; }\n'
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ N = [1, 2, 3] }}'
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, {"a.cu": text}, options))
    (problem,) = caught.value.problems
    assert problem[:3] == (
        "the source defines the macro N again, so all variants of the source would be equal",
        Location("demo/a.cu", 1),
        "put #ifndef N before this definition and #endif after it, to keep the configured value",
    )
    kept = text.replace("#define N 1", "#ifndef N\n#define N 1\n#endif")
    assert pipeline.build(make_project(tmp_path, {"a.cu": kept}, options))


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("__global__ void k(float *x,\n  int n) { *x = n; }", "n", 2),
        ("__global__ void k(float *x) { for (int i = 0; i < 3; ++i) x[i] = 1; }", "i", 1),
        (
            "template <int tile>\n__device__ int f() { return tile; }\n__global__ void k() { f<3>(); }",
            "tile",
            1,
        ),
        ("__global__ void k(int *x) { *x = 1; }", "k", 1),
    ],
)
def test_a_macro_that_the_projects_own_code_has_as_a_name_is_shown(
    tmp_path: Path, code: str, name: str, line: int
) -> None:
    options = 'archs = ["sm_90"]\n'
    project = make_project(tmp_path, {"a.cu": code}, f'{options}define = {{ {name} = "4" }}\n')
    first = refusal(CompileError, pipeline.build, project).problems[0]
    assert first.where == Location("demo/a.cu", line)
    assert first.hint == f"{name} is a macro, defined as '4' (pyproject.toml:11)"
    assert pipeline.build(make_project(tmp_path, {"a.cu": code}, options))


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("define", "named"),
    [
        ("__shfl_sync = 1", "the macro __shfl_sync"),
        ("N = 4, __VECTOR_TYPES_H__ = 1", "the macro __VECTOR_TYPES_H__"),
    ],
)
def test_a_macro_that_nvrtcs_own_header_has_as_a_name_is_told_once(
    tmp_path: Path, define: str, named: str
) -> None:
    files = {"a.cu": "__global__ void k(int *x) { *x = 1; }\n"}
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, files, f'archs = ["sm_90"]\ndefine = {{ {define} }}'))
    (problem,) = caught.value.problems
    assert problem[:3] == (
        f"NVRTC's own built-in header does not compile with {named}",
        Location("pyproject.toml", 11),
        f"remove {named} from 'define'",
    )


def test_of_macros_that_may_all_be_the_cause_all_are_named(tmp_path: Path) -> None:
    found = [error("bad", "__nv_nvrtc_builtin_header.h", 7)]
    assert advise(found, setting(tmp_path)) == found
    (told,) = advise(found, setting(tmp_path, 'define = { B = 1, "A(x)" = "x" }'))
    assert told.text == "NVRTC's own built-in header does not compile with the macros A, B"
    assert told.hint == "remove the macros A, B from 'define'"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("code", "value", "hint"),
    [
        (
            'printf("%s", N);',
            "1.0",
            (
                'N is a macro, defined as \'1.0\' (pyproject.toml:11); for a string, write: N = "\\"1.0\\""; '
                "to silence this warning: options = { diag-suppress = [181] }"
            ),
        ),
        (
            "*x = N + 1;",
            "4;",
            (
                "N is a macro, defined as '4;' (pyproject.toml:11): a macro's value needs "
                "neither '=' nor ';'; to silence this warning: options = { diag-suppress = [174] }"
            ),
        ),
        ("x + 1; *x = N;", "4", "to silence this warning: options = { diag-suppress = [174] }"),
    ],
)
def test_a_warning_beside_a_macro_of_the_table_shows_the_macro_first(
    tmp_path: Path, code: str, value: str, hint: str
) -> None:
    files = {"a.cu": f"#include <stdio.h>\n__global__ void k(int *x) {{ {code} }}\n"}
    warnings: list[str] = []
    project = make_project(tmp_path, files, f'archs = ["sm_90"]\ndefine = {{ N = "{value}" }}\n')
    pipeline.build(dataclasses.replace(project, warn=warnings.append))
    assert [each.partition("  hint: ")[2] for each in warnings] == [hint]


@pytest.mark.nvrtc
def test_a_macro_that_is_no_string_in_an_include_is_shown_with_quotes(tmp_path: Path) -> None:
    files = {"a.cu": "#include CONFIG\n__global__ void k(int *x) { *x = 1; }\n", "c.h": ""}
    options = 'archs = ["sm_90"]\ndefine = { CONFIG = "c.h" }\n'
    first = refusal(CompileError, pipeline.build, make_project(tmp_path, files, options)).problems[0]
    assert (first.hint or "").endswith('; for a string, write: CONFIG = "\\"c.h\\""')


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("value", "text", "end"),
    [
        ("hello", "", 'for a string, write: GREETING = "\\"hello\\""'),
        ("1", "#define HI hello\n", "HI is a macro, defined as 'hello' (demo/a.cu:1)"),
    ],
)
def test_a_text_without_quotes_in_the_code_is_shown_with_quotes(
    tmp_path: Path, value: str, text: str, end: str
) -> None:
    files = {"a.cu": f"{text}__global__ void k(const char **x) {{ *x = {'HI' if text else 'GREETING'}; }}\n"}
    options = f'archs = ["sm_90"]\ndefine = {{ GREETING = "{value}" }}\n'
    first = refusal(CompileError, pipeline.build, make_project(tmp_path, files, options)).problems[0]
    assert (first.hint or "").endswith(end)
