"""Entries of `instantiate` that the compiler refuses: each at its line, with the kernel that it may mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import Diagnostic, failure
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project, read_config, refusal
from tests.unit.compiling.hints.failed_compiles import TABLES, setting

TEXT = """\
struct Half2 {};
template <class T> __global__ void __launch_bounds__(128) kern(T *x) { *x = 1; }
namespace my {
namespace { __device__ void f() {} }
template <class T,
          int N> __global__ void scale(T *x) { if (N) { *x = N; } }
}
extern "C" __global__ void plain() {}
enum class Mode : int { SLOW, FAST = 2 };  // NEVER
"""

ARCHS = 'archs = ["sm_90"]\n'
LISTED = (
    "the templates of demo/a.cu, each with an example of its arguments, are: "
    "'kern<float>', 'my::scale<float, 4>'"
)
ABOUT_KERN = "the kernel's template is 'template <class T>' (demo/a.cu:2): write for example \"kern<float>\""
ABOUT_SCALE = (
    "the kernel's template is 'template <class T, int N>' (demo/a.cu:6): write for "
    'example "my::scale<float, 4>"'
)


def refused(entry: str, text: str) -> Diagnostic:
    return Diagnostic("error", Location("demo/a.cu"), text, (f"  #pragma nv_mangled_name {entry}", "   ^"))


def rule(*entries: str) -> str:
    listed = "".join(f"  {entry!r},\n" for entry in entries)
    return f"{TABLES}\npath = 'demo/*.cu'\ninstantiate = [\n{listed}]\n"


@pytest.mark.parametrize(
    ("entry", "text", "hint"),
    [
        ("kernn<float>", 'identifier "kernn" is undefined', LISTED),
        ("my::sale<int, 1>", 'namespace "my" has no member "sale"', LISTED),
        ("nothing<int>", 'identifier "nothing" is undefined', LISTED),
        ("<int>", "expected an expression", LISTED),
        ("_Z4kernIiEvPT_", 'identifier "_Z4kernIiEvPT_" is undefined', LISTED),
        ("other<int>", "type name is not allowed", None),
        ("scale<int, 1>", 'identifier "scale" is undefined', ABOUT_SCALE),
        ("my::scale<int>", 'identifier "scale" is undefined', None),
        ("my::scale<int>()", "no instance of function template", ABOUT_SCALE),
        ("scale<int>", "cannot determine which", ABOUT_SCALE),
        ("kern", "cannot determine which", ABOUT_KERN),
        (
            "kern<float>",
            "cannot determine which",
            ("the kernel's template is 'template <class T>' (demo/a.cu:2)"),
        ),
        ("kern(float*);", "type name is not allowed", ABOUT_KERN),
        ("kern<int>, kern<float>", "Extra tokens found", ABOUT_KERN),
        ("template __global__ void kern<int>(int*);", "expected an expression", ABOUT_KERN),
        ("kern<at::Half>", 'name followed by "::" must be a class or namespace name', ABOUT_KERN),
        ("kern<Nothing>", 'identifier "Nothing" is undefined', ABOUT_KERN),
        ("kern<T>", 'identifier "T" is undefined', ABOUT_KERN),
        (
            "kern<FAST>",
            'identifier "FAST" is undefined',
            'FAST is a value of the enumeration Mode: write "kern<Mode::FAST>"',
        ),
        (
            "kern<half>",
            'identifier "half" is undefined',
            'include <cuda_fp16.h>, which the source needs: options = { pre-include = ["cuda_fp16.h"] }',
        ),
        (
            "my::f",
            "Name expression cannot form address of a non-__global__/__tile_global__ function",
            "only kernels need an entry: device functions are compiled with the kernels that call them",
        ),
        (
            "plain<int>",
            "type name is not allowed",
            "'plain' (demo/a.cu:8) is not a template, so remove its entry",
        ),
    ],
)
def test_an_entry_is_told_at_its_line_with_what_it_may_mean(
    tmp_path: Path, entry: str, text: str, hint: str | None
) -> None:
    compile_ = setting(tmp_path, rule("kern<int>", entry), text=TEXT)
    entered = Location("pyproject.toml", compile_.config.place.of("source", 0, "instantiate", 1).line)
    assert advise([refused(entry, f"instantiate: {text}")], compile_) == [
        Diagnostic("error", entered, f"instantiate: {entry!r}: {text}", (), hint)
    ]


def test_a_mistake_in_a_product_is_told_once(tmp_path: Path) -> None:
    rules = rule("plain").replace(
        "'plain'", "'plain', {kernel = 'kern<{A}, {N}>', A = ['a', 'half'], N = '1..2'}"
    )
    compile_ = setting(tmp_path, rules, text=TEXT)
    follows = "instantiate: Error in parsing name expression for lowered name lookup."
    said = [
        refused("plain", follows),
        refused("kern<a,1>", 'instantiate: identifier "a" is undefined'),
        refused("kern<a,2>", follows),
        refused("kern<half,1>", 'instantiate: identifier "half" is undefined'),
        refused("kern<half,2>", 'instantiate: identifier "half" is undefined'),
    ]
    place = compile_.config.place.of("source", 0, "instantiate", 1)
    assert [(each.where, each.text.split("'")[1]) for each in advise(said, compile_)] == [
        (place, "plain"),
        (place, "kern<a,1>"),
        (place, "kern<half,1>"),
    ]


def test_an_entry_is_looked_for_in_the_rules_of_its_source(tmp_path: Path) -> None:
    other = rule("kerm<int>").replace("*.cu", "b.cu")
    rules = f"{other}{rule('kern<int>')}{rule('kern<int>', 'kerm<int>')}"
    compile_ = replace(setting(tmp_path, text=TEXT), config=read_config(rules))
    (told,) = advise([refused("kerm<int>", 'instantiate: identifier "kerm" is undefined')], compile_)
    assert told.where == compile_.config.place.of("source", 2, "instantiate", 1)


def test_each_wrong_entry_is_told_once(tmp_path: Path) -> None:
    compile_ = setting(tmp_path, rule("a<int>", "b<half>"), text=TEXT)
    said = [
        refused("a<int>", 'instantiate: identifier "a" is undefined'),
        refused("a<int>", "instantiate: type name is not allowed"),
        refused("b<half>", 'instantiate: identifier "b" is undefined'),
    ]
    told = advise(said, compile_)
    assert [each.text for each in told] == [
        "instantiate: 'a<int>': identifier \"a\" is undefined",
        "instantiate: 'b<half>': identifier \"b\" is undefined",
    ]


def test_entries_stand_beside_what_is_wrong_in_the_source_itself(tmp_path: Path) -> None:
    own = Diagnostic("error", Location("demo/a.cu", 3), 'expected a ";"')
    follows = refused("kern<int>", 'instantiate: identifier "kern" is undefined')
    misspelled = refused("kerm<int>", 'instantiate: identifier "kerm" is undefined')
    told = advise([own, follows, misspelled], setting(tmp_path, text=TEXT))
    assert told == [
        own,
        Diagnostic(
            "error",
            Location("demo/a.cu"),
            "instantiate: 'kerm<int>': identifier \"kerm\" is undefined",
            (),
            LISTED,
        ),
    ]


@pytest.mark.nvrtc
def test_the_examples_of_hints_compile(tmp_path: Path) -> None:
    table = rule("kernn<float>", "scale<float, 4>", "plain<int>", "kern <int>();")
    table = table.replace("demo/*.cu", "demo/a.cu")
    error = refusal(CompileError, pipeline.build, make_project(tmp_path, {"a.cu": TEXT}, f"{ARCHS}{table}"))
    found = sorted((each.where, each.hint) for each in error.problems)
    about_plain = "'plain' (demo/a.cu:8) is not a template, so remove its entry"
    assert found == [
        (Location("pyproject.toml", 14 + number), hint)
        for number, hint in enumerate((LISTED, ABOUT_SCALE, about_plain, ABOUT_KERN))
    ]
    followed = rule("kern<float>", "my::scale<float, 4>")
    assert pipeline.build(make_project(tmp_path, {"a.cu": TEXT}, f"{ARCHS}{followed}"))


@pytest.mark.nvrtc
def test_an_error_in_a_template_has_the_only_entry_that_asks_for_it(tmp_path: Path) -> None:
    text = "template <class T> __global__ void k(T *x) { *x = 1; }\n"
    shown = []
    for folder, entries in (("one", ["k<float *>"]), ("two", ["k<float *>", "k<int *>"])):
        project = make_project(tmp_path / folder, {"k.cu": text}, f"archs = ['sm_90']\n{rule(*entries)}")
        error = refusal(CompileError, pipeline.build, project)
        shown.append([line for line in error.problems[0].details if "pyproject.toml" in line])
    assert shown == [["    in the instantiation of 'k<float *>' (pyproject.toml:14)"], []]


def test_an_entry_that_declares_a_new_class_is_explained(tmp_path: Path) -> None:
    text = "struct S {};\ntemplate <class T> __global__ void k(T *x) { *x = 1; }\n"
    about = "the kernel's template is 'template <class T>' (demo/k.cu:2): write for example \"k<float>\""
    for entry, hint in (("k<class T>", about), ("k<struct S>", None)):
        project = make_project(tmp_path / entry[2:5], {"k.cu": text}, f"archs = ['sm_90']\n{rule(entry)}")
        error = refusal(CompileError, pipeline.build, project)
        assert {each.hint for each in error.problems} == {hint}


def test_a_source_without_templates_lists_none(tmp_path: Path) -> None:
    error = refused("nothing<int>", 'instantiate: identifier "nothing" is undefined')
    assert advise([error], setting(tmp_path, text="// none"))[0].hint is None


@pytest.mark.nvrtc
@pytest.mark.parametrize("entry", ['"scale<int>"', '{ kernel = "scale<{T}>", T = ["int", "float"] }'])
def test_an_entry_of_a_table_for_several_sources_is_moved_to_those_that_have_it(
    tmp_path: Path, entry: str
) -> None:
    files = {
        "a.cu": "template <class T> __global__ void scale(T *x) { *x = 1; }\n",
        "b.cu": "__global__ void k(float *x) { *x = 1; }\n",
    }
    rule = "[[tool.hatch.build.hooks.cubin.source]]\npath = {}\ninstantiate = {}\n"
    options = "archs = ['sm_90']\n" + rule.format("'demo/*.cu'", f"[{entry}]")
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path / "before", files, options))
    (problem,) = caught.value.problems
    hint, _, table = (problem.hint or "").partition("\n")
    assert hint == "demo/b.cu does not have a template 'scale': remove the entry from this table, and add:"
    assert f"instantiate = [{entry}]" in table
    pipeline.build(make_project(tmp_path / "after", files, options.replace(entry, "") + table))


KERNEL = "template <class T> __global__ void k(T *x) { *x = 1; }\n"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{KERNEL}extern template __global__ void k<int>(int *);\n", "'extern template' (demo/k.cu:2)"),
        ("template <class T> __global__ void k(T *x);\n", "'k' (demo/k.cu:1) is only declared"),
    ],
)
def test_an_entry_without_a_definition_is_explained(tmp_path: Path, text: str, what: str) -> None:
    table = f"{ARCHS}{TABLES}\npath = 'demo/k.cu'\ninstantiate = ['k<int>']\n"
    refused = refusal(CompileError, pipeline.build, make_project(tmp_path, {"k.cu": text}, table))
    (told,) = refused.problems
    assert told.code == "wrong-compiler-result"
    assert told.hint is not None
    assert told.hint.startswith(what)


def test_a_wrong_result_without_a_known_reason_has_no_hint(tmp_path: Path) -> None:
    table = f"{TABLES}\npath = 'demo/a.cu'\ninstantiate = ['k<int>']\n"
    wrong = failure("wrong-compiler-result", "x", Location("demo/a.cu"))
    assert advise([wrong], setting(tmp_path, table, text=KERNEL)) == [wrong]
