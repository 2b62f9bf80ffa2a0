"""Kernels in headers beside the sources: only those that no source includes are reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.kernels_in_headers import kernels_in_headers
from tests.helpers import SAXPY, make_project

pytestmark = pytest.mark.nvrtc

ARCH = 'archs = ["sm_90"]\n'
KERNEL = 'extern "C" __global__ void scale(float *x) { *x *= 2; }\n'


def found(
    root: Path, header: str, *, table: str = "", source: str = SAXPY, name: str = "scale.cuh"
) -> list[str]:
    """Return the place of each kernel that is not compiled."""
    project = make_project(root, {"k.cu": source, name: header}, ARCH + table)
    problems = kernels_in_headers(project, pipeline.make_plan(project).jobs)
    assert {each.code for each in problems} <= {"header-not-included"}
    return [str(each.where) for each in problems]


@pytest.mark.parametrize(
    ("header", "line"),
    [
        (KERNEL, 1),
        (f"#pragma once\n/* {KERNEL} */\n{KERNEL}", 4),
        (f"#ifndef SCALE_CUH\n#define SCALE_CUH\n{KERNEL}#endif\n", 3),
        ("__global__ void __launch_bounds__(256) scale(float *x) {\n*x *= 2; }\n", 1),
        ("namespace a {\nstatic __global__ void\nscale(float (&x)[4]) { *x *= 2; }\n}\n", 2),
        ('extern "C" {\n__global__ void scale(float *x) { *x *= 2; }\n__global__ void b() {}\n}\n', 2),
    ],
    ids=["extern C", "a comment", "an include guard", "launch bounds", "a namespace", "a block"],
)
def test_a_kernel_in_a_header_that_no_source_includes_is_reported(
    tmp_path: Path, header: str, line: int
) -> None:
    assert found(tmp_path, header) == [f"demo/scale.cuh:{line}"]


@pytest.mark.parametrize(
    "header",
    [
        "template <typename T> __global__ void scale(T *x) { *x *= 2; }\n",
        "__global__ void scale(float *x);\n",
        "#define KERNEL __global__ void\n__device__ int twice(int x) { return 2 * x; }\n",
        f"#define DEFINE \\\n{KERNEL}",
        f"// {KERNEL}",
        f'const char *text = R"({KERNEL})";\n',
        'const char *text = "__global__ void scale() {}";\n',
        "__global__ {}\n",
        "\0",
    ],
    ids=[
        "a template",
        "a declaration",
        "a macro",
        "the body of a macro",
        "a comment",
        "a raw string",
        "a string",
        "not a function",
        "not a text",
    ],
)
def test_a_header_without_a_kernel_of_its_own_is_not_reported(tmp_path: Path, header: str) -> None:
    assert found(tmp_path, header) == []


@pytest.mark.parametrize("include", ['#include "scale.cuh"\n', '#define H "scale.cuh"\n#include H\n'])
def test_an_included_header_is_not_reported(tmp_path: Path, include: str) -> None:
    assert found(tmp_path, KERNEL, source=include + SAXPY) == []


def test_a_header_that_is_a_source_or_a_file_with_another_suffix_is_not_reported(tmp_path: Path) -> None:
    assert found(tmp_path / "source", KERNEL, table='sources = ["**/*.cu", "**/*.cuh"]\n') == []
    assert found(tmp_path / "suffix", KERNEL, name="scale.txt") == []


def test_the_hint_names_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    files = {"k.cu": SAXPY, "k.h": KERNEL, "scale.h": KERNEL.replace("scale", "other")}
    project = make_project(tmp_path, files, ARCH)
    first, second = kernels_in_headers(project, pipeline.make_plan(project).jobs)
    assert (first.hint, second.hint) == (
        "include the header in a source",
        "rename the header to demo/scale.cu, or include it in a source",
    )


def test_a_build_reports_the_header_in_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    project = make_project(tmp_path, {"k.cu": SAXPY, "scale.cuh": KERNEL}, ARCH)
    pipeline.choose_plan(replace(project, inform=notes.append))
    assert [note for note in notes if "[header-not-included]" in note]
