"""Warnings of kernels that compile, but whose launches do not do what their text says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import launch_hazards
from hatch_cubin.errors import Location, problem
from hatch_cubin.project.source import Source
from tests.helpers import make_project

REFERENCE = "kernel-takes-reference"
BOUNDS = "launch-bounds-ignored"


@pytest.mark.parametrize(
    ("text", "kernels", "found"),
    [
        ("__global__ void k(float &x) { x = 1; }", {"k": "_Z1kRf"}, [(REFERENCE, 1)]),
        (
            "\ntemplate <class T> __global__ void k(const T &x) {}\n",
            {"a::k<int>": "_ZN1a1kIiEEvRKT_"},
            [(REFERENCE, 2)],
        ),
        ('#include "k.cuh"\n', {"k": "_Z1kRf"}, [(REFERENCE, None)]),
        ('extern "C" {\n__global__ void\nk(int a,\n S& s) {}\n}', {"k": "k"}, [(REFERENCE, 3)]),
        ('extern "C" __global__ void k(int *p, int n = 3 & 1) { *p = n & 1; }', {"k": "k"}, []),
        ("__global__ void k(float *x) { float &y = *x; }", {"k": "_Z1kPf"}, []),
        ("__device__ void f(float &x) {}\n__global__ void k() {}", {"k": "_Z1kv"}, []),
        ("__global__ void __launch_bounds__(0) k() {}", {"k": "_Z1kv"}, [(BOUNDS, 1)]),
        ("#if 0\n__launch_bounds__(0)\n#endif\n__launch_bounds__( -1, 2)", {}, [(BOUNDS, 4)]),
        ("// __launch_bounds__(0)\n__launch_bounds__(256, 0)", {}, []),
    ],
)
def test_a_launch_that_does_not_do_what_the_text_says_is_warned_of(
    text: str, kernels: dict[str, str], found: list[tuple[str, int | None]]
) -> None:
    told = [*launch_hazards.found_in(Source("k.cu", text), kernels)]
    assert [(each.code, each.where) for each in told] == [
        (code, Location("k.cu", line)) for code, line in found
    ]


def test_the_warnings_say_what_to_write_instead() -> None:
    source = Source("k.cu", "__global__ void __launch_bounds__(0) k(float &x) { x = 1; }")
    what = "kernel 'k' has a parameter that is a reference, which a launch passes as an address"
    hint = "pass the value, or a pointer to device memory, because a kernel cannot use an address of the host"
    bounds = "the compiler ignores __launch_bounds__ of 0 threads"
    instead = "write the number of threads of the largest block, or remove __launch_bounds__"
    assert [*launch_hazards.found_in(source, {"k": "_Z1kRf"})] == [
        problem(REFERENCE, what, Location("k.cu", 1), hint),
        problem(BOUNDS, bounds, Location("k.cu", 1), instead),
    ]


@pytest.mark.nvrtc
def test_a_build_warns_of_a_reference(tmp_path: Path) -> None:
    said: list[str] = []
    project = make_project(tmp_path, {"k.cu": "__global__ void k(float &x) { x = 1; }"}, "archs = ['sm_90']")
    pipeline.build(dataclasses.replace(project, warn=said.append))
    (warning,) = said
    assert warning.startswith("demo/k.cu:1: kernel 'k' has a parameter that is a reference")
    assert f"[{REFERENCE}]\n" in warning
