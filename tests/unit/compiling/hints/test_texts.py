"""Files that are no sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import texts
from hatch_cubin.errors import Location

from .settings import error, setting

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def test_a_pointer_of_git_lfs_is_told_to_be_one(tmp_path: Path) -> None:
    there = setting(tmp_path, text='#include "h.h"\n', files={"demo/h.h": POINTER})
    told = texts.spoiled([error("first"), error("second", "demo/h.h", 2)], there)
    assert told is not None
    assert (told[0].text, told[0].where, told[1]) == ("is no source", Location("demo/h.h", 1), [])
    assert told[0].hint == "it is a pointer of Git LFS: git lfs pull brings the file"


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "=======", ">>>>>>> branch", "||||||| base"])
def test_marks_of_a_merge_are_told_where_the_compiler_met_them(tmp_path: Path, line: str) -> None:
    there = setting(tmp_path, text=f"int a;\n{line}\n")
    told = texts.spoiled([error("expected a declaration", line=2)], there)
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
    ],
)
def test_a_template_of_sources_is_told_to_be_one(tmp_path: Path, line: str, placeholder: str) -> None:
    there = setting(tmp_path, 'exclude = ["old.cu"]', text=f"\n{line}\n")
    told = texts.spoiled([error("expected a declaration", line=2)], there)
    assert told is not None
    assert told[0].text == f"has a placeholder, {placeholder!r}: {texts._A_TEMPLATE}"
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
    ],
)
def test_cxx_that_looks_like_one_is_left_alone(tmp_path: Path, line: str) -> None:
    assert texts.spoiled([error("bad", line=1)], setting(tmp_path, text=f"{line}\n")) is None


def test_marks_that_the_compiler_did_not_meet_are_none_of_its_errors(tmp_path: Path) -> None:
    there = setting(tmp_path, text="#if 0\n<<<<<<< HEAD\n#endif\nint main;\n")
    found = [
        error("bad", line=4),
        error("no line", line=None),
        error("no file", "gone.h", 1),
        error("another's", "<nvrtc>/a.h", 2),
    ]
    assert texts.spoiled(found, there) is None


def test_a_placeholder_is_told_where_the_macro_that_has_it_is_defined(tmp_path: Path) -> None:
    text = "#define OTHER @OTHER@\n # define TILE $TILE\n__shared__ float s[TILE];\n"
    told = texts.spoiled([error("unrecognized token", line=3)], setting(tmp_path, text=text))
    assert told is not None
    assert told[0].text == f"has a placeholder, '$TILE': {texts._A_TEMPLATE}"
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
    told = texts.spoiled([error("expected a declaration")], setting(tmp_path, text=text))
    assert told is not None
    assert (told[0].text, told[0].where) == ("is no source", Location("demo/a.cu", 1))
    assert told[0].hint == hint
