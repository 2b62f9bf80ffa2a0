"""What is told of a compile that failed: each cause once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import NO_KERNEL, Diagnostic
from hatch_cubin.headers.resolve import SearchFolder
from tests.helpers import write_tree

from .hints.failed_compiles import APART, error, setting, undefined


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    found = [error('identifier "blorp" is undefined'), error('expected a ";"', line=2)]
    assert advise(found, setting(tmp_path)) == found
    assert advise([], setting(tmp_path)) == []


def test_what_one_cause_leaves_is_explained_by_the_next(tmp_path: Path) -> None:
    found = [undefined("blorp", 3), undefined("BLOCK", 2), undefined("M_PI", 1)]
    assert [(each.text, each.hint) for each in advise(found, setting(tmp_path))] == [
        (
            'identifier "M_PI" is undefined',
            'nvcc includes <cmath> automatically, but NVRTC does not: options = { pre-include = ["cmath"] }',
        ),
        (
            'identifier "BLOCK" is undefined',
            'if this name is a macro, replace … by its value: define = { BLOCK = "…" }',
        ),
        ('identifier "blorp" is undefined', None),
    ]


def test_what_a_header_met_and_what_the_project_got_wrong_are_both_told(tmp_path: Path) -> None:
    text = "A function without execution space annotations (__host__/__device__/__global__) is a host one"
    of_cute, own = error(text, "<nvidia-cutlass/include>/cute/a.hpp"), undefined("BLOCK", 3)
    told, other = advise([of_cute, own, of_cute], setting(tmp_path))
    assert (told.where, told.context) == (of_cute.where, ("and 1 more error after this error",))
    assert told.hint == (
        "to compile functions without an annotation as device code: "
        "options = { device-as-default-execution-space = true }"
    )
    assert other.hint == 'if this name is a macro, replace … by its value: define = { BLOCK = "…" }'


def chain(root: Path, length: int) -> list[Diagnostic]:
    """Return what is told of an error in a header of others that so many includes lead to."""
    headers = {f"{number}.h": f"#include <{number + 1}.h>\n" for number in range(1, length)}
    write_tree(root / "lib", {**headers, f"{length}.h": ""})
    there = setting(
        root / "p", text="\n#include <1.h>\n", search=(SearchFolder(root / "lib", "lib", "lib 1"),)
    )
    return advise([error("bad", f"<lib>/{length}.h", 7, "  code")], there)


def test_an_error_in_a_header_of_others_shows_the_way_from_the_source(tmp_path: Path) -> None:
    (told,) = chain(tmp_path, 2)
    assert told.context == ("  code", "included from <lib>/1.h:1", "included from demo/a.cu:2")


def test_of_a_long_way_the_projects_end_is_shown(tmp_path: Path) -> None:
    (told,) = chain(tmp_path, 7)
    shown = [f"included from <lib>/{number}.h:1" for number in (4, 3, 2, 1)]
    assert told.context == ("  code", "…", *shown, "included from demo/a.cu:2")


def test_a_header_that_no_text_leads_to_is_shown_without_a_way(tmp_path: Path) -> None:
    found = error("bad", "<lib>/computed.h", 7)
    assert advise([found], setting(tmp_path)) == [found]


def test_a_missing_header_of_a_header_for_hosts_is_told_as_that_header(tmp_path: Path) -> None:
    write_tree(tmp_path / "cccl", {"thrust/complex.h": "#include <sstream>\n"})
    search = (SearchFolder(tmp_path / "cccl", "cuda/cccl", "wheels"),)
    there = setting(tmp_path / "p", text="#include <thrust/complex.h>\n", search=search)
    (told,) = advise([error('cannot open source file "sstream"', "<cuda/cccl>/thrust/complex.h")], there)
    assert told.context == ("included from demo/a.cu:1",)
    assert told.hint == (
        "<thrust/complex.h> is for host code, which NVRTC does not compile: "
        "use <cuda/std/complex> for device code"
    )


def test_of_many_errors_in_a_header_of_others_the_first_is_shown(tmp_path: Path) -> None:
    found = [error(text, "<lib>/a.h", number) for number, text in enumerate(("one", "two", "three"))]
    own = [error("own", line=3), error("own", line=4)]
    told = advise([*own, *found], setting(tmp_path))
    assert told == [*own, found[0].followed_by(2)]


def test_without_a_kernel_the_hint_is_for_where_no_arch_has_one(tmp_path: Path) -> None:
    (told,) = advise([error(NO_KERNEL)], setting(tmp_path, text="#ifdef A\n__global__ void k() {}\n#endif\n"))
    assert told.hint is None
    assert told.otherwise == (
        "the condition '#ifdef A' (demo/a.cu:1) hides the kernels from the compiler: define = { A = true }"
    )


def test_a_missing_header_of_the_hosts_says_how_to_keep_it_apart(tmp_path: Path) -> None:
    (told,) = advise([error('cannot open source file "vector"'), error("x")], setting(tmp_path))
    apart = APART.replace(" file,", " file and add the file with the host code to 'exclude',")
    assert told.hint == f"this header is for host code, which NVRTC does not compile: {apart}"


@pytest.mark.parametrize(
    ("options", "path", "is_excluded"),
    [
        ("", "demo/sub/a.cu", True),
        ('exclude = ["demo/b.cu"]\nsources = ["**/*.cu"]', "demo/a.cu", True),
        ('sources = ["demo/a.cu"]', "demo/a.cu", False),
        ('sources = ["demo/b.cu", "a.cu"]', "demo/a.cu", False),
    ],
)
def test_a_file_with_host_code_is_left_out_of_the_sources_by_the_hint(
    tmp_path: Path, options: str, path: str, *, is_excluded: bool
) -> None:
    found = [error('cannot open source file "torch/extension.h"', path)]
    (told,) = advise(found, setting(tmp_path, options, path=path))
    assert (told.hint and "to 'exclude'" in told.hint) == is_excluded
    assert (told.hint and "change 'sources'" in told.hint) != is_excluded


@pytest.mark.parametrize("options", ["", 'sources = ["demo/a.cu", "demo/b.cu"]'])
def test_hints_for_files_with_the_same_host_code_are_equal(tmp_path: Path, options: str) -> None:
    paths = ("demo/a.cu", "demo/b.cu")
    told = [
        advise([error('cannot open source file "vector"', path)], setting(tmp_path, options, path=path))
        for path in paths
    ]
    assert len({each.hint for (each,) in told}) == 1


def test_a_member_of_a_module_is_not_excluded(tmp_path: Path) -> None:
    """The key 'exclude' does not apply to 'sources' of [[module]] tables."""
    failed = setting(tmp_path)
    failed = replace(failed, module=replace(failed.module, part_of="m"))
    (told,) = advise([error('cannot open source file "vector"')], failed)
    assert "change 'sources'" in (told.hint or "")


def test_a_header_is_not_excluded(tmp_path: Path) -> None:
    header = setting(tmp_path, text='#include "a.h"\n', files={"demo/a.h": "#include <vector>\n"})
    (told,) = advise([error('cannot open source file "vector"', "demo/a.h")], header)
    assert (told.hint or "").endswith(APART)


def test_an_instantiation_that_fails_is_one_error_in_the_users_words(tmp_path: Path) -> None:
    def pragma(text: str, name: str) -> Diagnostic:
        return error(f"instantiate: {text}", "demo/a.cu", 1, f"  #pragma nv_mangled_name {name}", "     ^")

    found = [
        pragma('identifier "nope" is undefined', "nope<1>"),
        pragma("expected an expression", "nope<1>"),
        pragma("Error in parsing name expression", "nope<1>"),
        error("other", "demo/a.cu", 1, "  int i"),
        pragma('expected a ">"', "scale<1"),
    ]
    assert [(each.text, each.context) for each in advise(found, setting(tmp_path))] == [
        ("other", ("  int i",)),
        ("instantiate: 'nope<1>': identifier \"nope\" is undefined", ()),
        ("instantiate: 'scale<1': expected a \">\"", ()),
    ]


def test_errors_in_headers_that_follow_from_an_error_of_the_project_are_left_out(tmp_path: Path) -> None:
    follows = error("incomplete type", "<cub>/a.cuh", 1, "with T=<error-type>")
    own, other = undefined("blorp"), error("incomplete type", "<cub>/b.cuh", 1, "with T=float")
    assert [each.text for each in advise([follows, other, own], setting(tmp_path))] == [other.text, own.text]
    assert [each.text for each in advise([follows], setting(tmp_path))] == [follows.text]
