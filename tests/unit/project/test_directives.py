"""Preprocessor directives in a text, for warnings and hints."""

from __future__ import annotations

from hatch_cubin.project.directives import CONDITION, DEFINE, has_quoted_include, included_names

TEXT = """\
#include <cuda_fp16.h>
  # include "own.cuh" // beside the source
#define SIZE 4
#ifdef FAST
#elif defined(SLOW)
#if SIZE > 2
int unused; // #include "in_a_comment.cuh"
"""


def test_the_names_of_included_files_in_their_order() -> None:
    assert included_names(TEXT) == ["cuda_fp16.h", "own.cuh"]


def test_only_quotes_name_a_file_that_could_be_in_the_own_folder() -> None:
    assert has_quoted_include(TEXT)
    assert not has_quoted_include("#include <own.cuh>\n")


def test_a_macro_has_a_name_and_a_value() -> None:
    assert DEFINE.findall(TEXT) == [("SIZE", " 4")]


def test_conditions_of_each_kind() -> None:
    assert CONDITION.findall(TEXT) == [" FAST", " defined(SLOW)", " SIZE > 2"]
