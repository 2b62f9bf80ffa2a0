"""The key of a text that a library compiles at run time: what it covers, and what it leaves out."""

from __future__ import annotations

import hashlib

import pytest

from hatch_cubin.bundle import loader_files
from hatch_cubin.loader._text_key import FRONTS, parse_options, text_key

TEXT = 'extern "C" __global__ void k(int *a) { *a = N; }\n'
KEY = text_key("cupy", ["-DN=4", "-std=c++17"], TEXT)


def test_a_key_never_changes() -> None:
    """Wheels keep their keys: what changes a key makes every wheel before it compile at run time."""
    content = f"cupy\0define=N=4\0std=c++17\0\0{TEXT}"
    assert hashlib.sha256(content.encode()).hexdigest() == KEY
    assert KEY == "a65c0d55a81413e3ba74caa1ef575b90839b09f9fd5c1a14d0ffe276c8331b47"


@pytest.mark.parametrize(
    "options",
    [
        ["-std=c++17", "-DN=4"],
        ("--std=c++17", "-D", "N=4"),
        ["-D N=4", "-std=c++17", "-I/usr/include", "-I", "x", "--include-path=y", "--include-path", "z"],
        ["--define-macro=N=4", "--diag-suppress=177", "-diag-suppress", "20", "-std=c++17"],
        ["--define-macro", "N=4", "-std=c++17"],
    ],
)
def test_spellings_the_order_folders_and_messages_do_not_count(options: list[str]) -> None:
    assert text_key("cupy", options, TEXT) == KEY


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        f'#line 1 "/home/me/k.cu"\n{TEXT}',
        f'\n  #  line 7 "k.cu"\r\n{TEXT}',
        f'#line 1 "a.cu"\n#line 2\n{TEXT}',
    ],
)
def test_line_ends_and_a_first_line_directive_do_not_count(text: str) -> None:
    assert text_key("cupy", ["-DN=4", "-std=c++17"], text) == KEY


@pytest.mark.parametrize(
    ("front", "options", "text"),
    [
        ("cuda.core", ["-DN=4", "-std=c++17"], TEXT),
        ("cupy", ["-DN=5", "-std=c++17"], TEXT),
        ("cupy", ["-DM=4", "-std=c++17"], TEXT),
        ("cupy", ["-DN=4"], TEXT),
        ("cupy", ["-DN=4", "-std=c++14"], TEXT),
        ("cupy", ["-DN=4", "-std=c++17", "-DM"], TEXT),
        ("cupy", ["-DN=4", "-std=c++17", "-Ofc=max"], TEXT),
        ("cupy", ["-DN=4", "-std=c++17"], f"{TEXT}\n"),
        ("cupy", ["-DN=4", "-std=c++17"], f"\n{TEXT}"),
        ("cupy", ["-DN=4", "-std=c++17"], f"{TEXT}#line 3\n"),
        ("cupy", ["-DN=4", "-std=c++17"], f"#linen 3\n{TEXT}"),
        ("cupy", ["-DN=4", "-std=c++17"], f"#line 3 /*\n{TEXT}"),
        ("cupy", ["-DN=4", "-std=c++17"], f"#line \\\n{TEXT}"),
        ("cupy", ["-DN=4", "-std=c++17"], TEXT.replace("\n", "\r")),
    ],
)
def test_everything_else_counts(front: str, options: list[str], text: str) -> None:
    assert text_key(front, options, text) != KEY


@pytest.mark.parametrize(
    "options",
    [["-DN=4", "-DN=5"], ["-std=c++14", "--std=c++17"], ["-Ofc=min", "-Ofc=max"]],
    ids=["macro", "std", "ofc"],
)
def test_the_last_of_equal_options_counts(options: list[str]) -> None:
    assert text_key("cupy", options, "") != text_key("cupy", options[::-1], "")


def test_forms_of_a_macro_keep_their_order() -> None:
    assert text_key("cupy", ["-DN(x)=x", "-DM", "-DN=5"], "") == text_key(
        "cupy", ["-DM=1", "-DN(x)=x", "-DN=5"], ""
    )


def test_a_text_is_only_a_directive() -> None:
    assert text_key("cupy", [], "#line 3") == text_key("cupy", [], "")


def test_half_of_a_character_has_a_key_too() -> None:
    assert text_key("cupy", [], "// \ud800") != text_key("cupy", [], "// \ud801")


def test_the_names_and_values_of_options() -> None:
    options = ["-std=c++14", "-DA", "-D", "B=", "-I", "inc", "--Ofast-compile", "min", "-Ofc=mid"]
    assert parse_options("cupy", [*options, "--diag-suppress=1,2"]) == [
        ("std", "c++14"),
        ("define", "A=1"),
        ("define", "B="),
        ("include", "inc"),
        ("ofast_compile", "min"),
        ("ofast_compile", "mid"),
        ("diag_suppress", "1,2"),
    ]


def test_the_options_for_speed_have_one_spelling() -> None:
    options = ["-use_fast_math", "-maxrregcount", "256"]
    assert text_key("cupy", options, TEXT) == text_key(
        "cupy", ["--maxrregcount=256", "--use_fast_math"], TEXT
    )
    assert text_key("cupy", options[:1], TEXT) != text_key("cupy", [], TEXT)


def test_a_key_of_cuda_core_never_changes() -> None:
    options = ["--use_fast_math", "--fmad=false", "-DN=4", "--disable-warnings", "-std=c++17"]
    content = f"cuda.core\0define=N=4\0fma=false\0std=c++17\0use_fast_math=\0\0{TEXT}"
    assert hashlib.sha256(content.encode()).hexdigest() == text_key("cuda.core", options, TEXT)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (["-w"], ["--disable-warnings"]),
        (["-lineinfo"], ["--generate-line-info"]),
        (["-Xptxas=-O3", "-ftz=true"], ["--ftz=true", "--ptxas-options=-O3"]),
        (["-fmad=true", "-dopt=on"], ["--dopt=on", "--fmad=true"]),
    ],
)
def test_options_of_cuda_core_have_one_spelling(options: list[str], same: list[str]) -> None:
    assert text_key("cuda.core", options, TEXT) == text_key("cuda.core", same, TEXT)
    for option in options:
        with pytest.raises(ValueError, match=option):
            text_key("cupy", [option], TEXT)


def test_every_library_has_its_files() -> None:
    assert {*FRONTS} == loader_files.DROP_INS.keys()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-DA", "-lineinfo"], "-lineinfo"),
        (["--use_fast_math=true"], "--use_fast_math=true"),
        (["--maxrregcount=x"], "--maxrregcount=x"),
        (["-G"], "-G"),
        (["-D"], "-D"),
        (["--std", "c++17"], "--std"),
        (["-DA=\0"], "-DA=\0"),
        ([""], ""),
        ([b"-DA"], b"-DA"),
        (["-D", 4], "-D"),
        ("-DA", "-"),
        (["-arch=sm_90"], "-arch=sm_90"),
    ],
)
def test_any_other_option_is_refused_by_name(options: list[str], named: object) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        text_key("cupy", options, "")
    assert caught.value.args == (named,)
