"""Sources in other languages for GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.compiling.advice import advise

from .failed_compiles import error, setting, undefined

MISSING = 'cannot open source file "{}"'


@pytest.mark.parametrize(
    ("text", "code", "language"),
    [
        (MISSING.format("hip/hip_runtime.h"), "", "HIP"),
        (MISSING.format("rocwmma/rocwmma.hpp"), "", "HIP"),
        ('identifier "hipThreadIdx_x" is undefined', "x[hipThreadIdx_x] = 1;", "HIP"),
        (MISSING.format("CL/cl.h"), "", "OpenCL C"),
        ("expected a declaration", "__kernel void k(__global float* x) {", "OpenCL C"),
        ("expected a declaration", "kernel void k(global float* x) {", "OpenCL C"),
        ('identifier "get_local_id" is undefined', "x[get_local_id(0)] = 1;", "OpenCL C"),
        (MISSING.format("sycl/sycl.hpp"), "", "SYCL"),
        (MISSING.format("CL/sycl.hpp"), "", "SYCL"),
        (MISSING.format("metal_stdlib"), "", "Metal"),
        ("expected a declaration", "kernel void k(device float* x [[buffer(0)]]) {", "Metal"),
        ("invalid specifier", "[numthreads(64, 1, 1)]", "HLSL"),
        ('identifier "gl_GlobalInvocationID" is undefined', "uint i = gl_GlobalInvocationID.x;", "GLSL"),
    ],
)
def test_another_language_is_named_in_place_of_all_errors(
    tmp_path: Path, text: str, code: str, language: str
) -> None:
    (told,) = advise([error(text, "demo/a.cu", 1, code, "^"), undefined("x")], setting(tmp_path))
    assert told.hint is not None
    assert told.hint.startswith(f"this is {language}, not CUDA C++: ")
    assert told.hint.endswith(': exclude = ["demo/a.cu"]')
    assert told.context[-1] == "and 1 more error after it"


def test_a_source_for_both_that_fails_elsewhere_is_cuda(tmp_path: Path) -> None:
    both = setting(tmp_path, text="#ifdef __HIP__\n#include <hip/hip_runtime.h>\n#endif\n")
    (told,) = advise([error("expected a declaration", "demo/a.cu", 9, "shipped x;", "^")], both)
    assert told.hint is None


def test_the_only_source_of_a_project_is_not_to_be_left_out(tmp_path: Path) -> None:
    there = setting(tmp_path)
    alone = replace(there, sources={there.path: ""})
    (told,) = advise([error(MISSING.format("hip/hip_runtime.h"))], alone)
    assert told.hint is not None
    assert "exclude" not in told.hint
