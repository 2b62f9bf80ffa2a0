"""Files that are no sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import not_source
from hatch_cubin.errors import Location

from .failed_compiles import error, setting

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def test_a_pointer_of_git_lfs_is_told_to_be_one(tmp_path: Path) -> None:
    there = setting(tmp_path, text='#include "h.h"\n', files={"demo/h.h": POINTER})
    told = not_source.wrong_file([error("first"), error("second", "demo/h.h", 2)], there)
    assert told is not None
    assert (told[0].text, told[0].where, told[1]) == ("is no source", Location("demo/h.h", 1), [])
    assert told[0].hint == "the file is only a pointer of Git LFS: 'git lfs pull' downloads its content"


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "=======", ">>>>>>> branch", "||||||| base"])
def test_marks_of_a_merge_are_told_where_the_compiler_met_them(tmp_path: Path, line: str) -> None:
    there = setting(tmp_path, text=f"int a;\n{line}\n")
    told = not_source.wrong_file([error("expected a declaration", line=2)], there)
    assert told is not None
    assert told[0].where == Location("demo/a.cu", 2)
    assert told[0].text == "has the marks of a merge that was not resolved"
    assert told[0].context == (f"    {line}",)
    assert told[0].hint == "keep one side of it, and none of the marks"


@pytest.mark.parametrize(
    ("line", "placeholder"),
    [
        ("__global__ void k_{{ dtype }}(int *x) {", "{{ dtype }}"),
        ("{{ type|lower }} *x;", "{{ type|lower }}"),
        ("{% for t in types %}", "{% for t in types %}"),
        ("typedef @DTYPE@ type;", "@DTYPE@"),
        ("x = ${VALUE};", "${VALUE}"),
        ("typedef %(value_type)s value_type;", "%(value_type)s"),
        ("__global__ void k($T *x) {", "$T"),
        ("__launch_bounds__(8) void {kernel_name}(float *x) {{", "{kernel_name}"),
        ("<%def name='a'>x<%/def%>", "<%def name='a'>x<%/def%>"),
        ("void k({ctype} *x) {", "{ctype}"),
        ("x[i] = ({ctype})1;", "{ctype}"),
        ("float s[{size}];", "{size}"),
        ("x[0] = {scale:.6f};", "{scale:.6f}"),
        ("void k({0} *x) {", "{0}"),
        ("void k(%s *x) {", "%s"),
        ("x[0] = %d;", "%d"),
        ("x[0] = <<SCALE>>;", "<<SCALE>>"),
        ('#include "{header}"', "{header}"),
    ],
)
def test_a_template_of_sources_is_told_to_be_one(tmp_path: Path, line: str, placeholder: str) -> None:
    there = setting(tmp_path, 'exclude = ["old.cu"]', text=f"\n{line}\n")
    told = not_source.wrong_file([error("expected a declaration", line=2)], there)
    assert told is not None
    assert told[0].text == f"has a placeholder, {placeholder!r}: {not_source._A_TEMPLATE}"
    assert told[0].hint == ('render it before the build, and leave it out: exclude = ["old.cu", "demo/a.cu"]')


@pytest.mark.parametrize(
    "line",
    [
        "int a[1][1] = {{N}};",
        "f({{x}}, 1);",
        "Pair p{{1}, {2}};",
        "a << b; // =======",
        "x @ y",
        'f("$x", "void {x}(");',
        "x %(y);",
        "a %d;",
        "P p = {n};",
        "f({n}, 1);",
        "float4{x} * y;",
        "1 <<N>> 2;",
        "x = cond ? a:b;",
        'printf("i=%d, %f [{n}] {x:3}", i, y);',
        "switch (n) {default:break;}",
        "y = float2{std::min(a,b),c};",
        'asm("mov.u32 %0, %r1;" : "=r"(x));',
    ],
)
def test_cxx_that_looks_like_one_is_left_alone(tmp_path: Path, line: str) -> None:
    assert not_source.wrong_file([error("bad", line=1)], setting(tmp_path, text=f"{line}\n")) is None


def test_marks_that_the_compiler_did_not_meet_are_none_of_its_errors(tmp_path: Path) -> None:
    there = setting(tmp_path, text="#if 0\n<<<<<<< HEAD\n#endif\nint main;\n")
    found = [
        error("bad", line=4),
        error("no line", line=None),
        error("no file", "gone.h", 1),
        error("another's", "<nvrtc>/a.h", 2),
    ]
    assert not_source.wrong_file(found, there) is None


def test_a_placeholder_is_told_where_the_macro_that_has_it_is_defined(tmp_path: Path) -> None:
    text = "#define OTHER @OTHER@\n # define TILE $TILE\n__shared__ float s[TILE];\n"
    told = not_source.wrong_file([error("unrecognized token", line=3)], setting(tmp_path, text=text))
    assert told is not None
    assert told[0].text == f"has a placeholder, '$TILE': {not_source._A_TEMPLATE}"
    assert (told[0].where, told[0].context) == (Location("demo/a.cu", 2), ("     # define TILE $TILE",))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "/annex/objects/SHA256E-s12--4d7a.cu\n",
            "it is a pointer of git-annex: git annex get brings the file",
        ),
        (
            "../.git/annex/objects/G8/x/MD5E-s1--a.cu/MD5E-s1--a.cu",
            "it is a pointer of git-annex: git annex get brings the file",
        ),
        (
            "\n<!DOCTYPE html>\n<html></html>\n",
            "it is a page of HTML, as servers send it in place of a file: fetch it again",
        ),
    ],
)
def test_what_came_in_place_of_a_source_is_told(tmp_path: Path, text: str, hint: str) -> None:
    told = not_source.wrong_file([error("expected a declaration")], setting(tmp_path, text=text))
    assert told is not None
    assert (told[0].text, told[0].where) == ("is no source", Location("demo/a.cu", 1))
    assert told[0].hint == hint


@pytest.mark.parametrize(
    ("path", "left_out"), [("demo/a.cu", ', and leave it out: exclude = ["demo/a.cu"]'), ("demo/h.h", "")]
)
def test_braces_that_are_doubled_are_those_of_format(tmp_path: Path, path: str, left_out: str) -> None:
    files = {"demo/a.cu": '#include "h.h"\n', "demo/h.h": ""}
    files[path] = "void k(float* x) {{\n  if (n && {active}) x[0] = 1;\n  bad\n}}\n"
    there = setting(tmp_path, text=files.pop("demo/a.cu"), files=files)
    told = not_source.wrong_file([error("bad", path, 3)], there)
    assert told is not None
    assert (told[0].text, told[0].where) == (
        f"has a placeholder, '{{active}}': {not_source._A_TEMPLATE}",
        Location(path, 2),
    )
    assert told[0].hint == f"render it before the build{left_out}"


def test_doubled_braces_around_no_placeholder_are_cxx(tmp_path: Path) -> None:
    text = "void k(float* x) {{\n  bad\n}}\n"
    assert not_source.wrong_file([error("bad", line=2)], setting(tmp_path, text=text)) is None


def test_a_macro_that_is_a_placeholder_alone_is_one(tmp_path: Path) -> None:
    text = "#define N {block_size}\n__shared__ float s[N];\n"
    told = not_source.wrong_file([error("expected an expression", line=2)], setting(tmp_path, text=text))
    assert told is not None
    assert (told[0].text, told[0].where) == (
        f"has a placeholder, '{{block_size}}': {not_source._A_TEMPLATE}",
        Location("demo/a.cu", 1),
    )


@pytest.mark.parametrize("text", ["x = {n};\n", "#define N {n}\nx = N;\n"])
def test_a_name_in_braces_that_nothing_declares_may_be_a_placeholder(tmp_path: Path, text: str) -> None:
    found = [error('identifier "n" is undefined', line=text.count("\n")), error("other")]
    told = not_source.perhaps_filled_in(found, setting(tmp_path, text=text))
    assert told is not None
    assert told[0].hint == (
        'if a script fills in {n}: render it before the build, and leave it out: exclude = ["demo/a.cu"]'
    )
    assert told[1] == found[1:]


@pytest.mark.parametrize(
    ("text", "path"), [("x = n;\n", "demo/a.cu"), ("", "demo/a.cu"), ("x = {n};\n", "<cuda>/a.h")]
)
def test_a_name_that_is_not_in_braces_is_none(tmp_path: Path, text: str, path: str) -> None:
    found = [error("bad"), error('identifier "n" is undefined', path)]
    assert not_source.perhaps_filled_in(found, setting(tmp_path, text=text)) is None


@pytest.mark.parametrize(
    "line", ["import numpy as np", "from cupy import RawKernel", "#!/usr/bin/env python3"]
)
def test_python_is_no_source(tmp_path: Path, line: str) -> None:
    told = not_source.wrong_file([error("bad", line=1)], setting(tmp_path, text=f"{line}\nkernel = 1\n"))
    assert told is not None
    assert told[0].hint == "it is Python: a .cu file has CUDA C++ alone"
