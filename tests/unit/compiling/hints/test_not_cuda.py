"""Sources that are not CUDA C++ for NVRTC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.hints import not_cuda
from hatch_cubin.compiling.hints.failed_compile import FailedCompile
from hatch_cubin.errors import CompileError, Location
from hatch_cubin.project.source import LFS_HINT
from tests.helpers import SAXPY, make_project, refusal

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
        ('identifier "import" is undefined', "    import torch", "Python"),
        ('identifier "import" is undefined', "    import cupy as cp", "Python"),
        ("unrecognized token", "    @cuda.jit", "Python"),
        ('identifier "cuda" is undefined', "int i = cuda.grid(1);", "Python"),
        ("unrecognized token", "    @cuda.jit(device=True)", "Python"),
        ("missing closing quote", '    code = r"""', "Python"),
        (MISSING.format("CL/sycl.hpp"), "", "SYCL"),
        (MISSING.format("metal_stdlib"), "", "Metal"),
        ("expected a declaration", "kernel void k(device float* x [[buffer(0)]]) {", "Metal"),
        ("expected a declaration", "    .version 8.0", "PTX"),
        ("invalid specifier", "[numthreads(64, 1, 1)]", "HLSL"),
        ('identifier "gl_GlobalInvocationID" is undefined', "uint i = gl_GlobalInvocationID.x;", "GLSL"),
    ],
)
def test_another_language_is_named_in_place_of_all_errors(
    tmp_path: Path, text: str, code: str, language: str
) -> None:
    (told,) = advise([error(text, "demo/a.cu", 1, code, "^"), undefined("x")], setting(tmp_path))
    assert told.hint is not None
    assert told.hint.startswith(f"this is {language}, not CUDA C++; ")
    assert told.hint.endswith(': exclude = ["demo/a.cu"]')
    assert told.context[-1] == "and 1 more error after this error"


def test_python_around_kernels_is_to_be_removed(tmp_path: Path) -> None:
    there = setting(tmp_path, text=f'code = r"""\n{SAXPY}"""\n')
    (told,) = advise([error("missing closing quote", "demo/a.cu", 1, 'code = r"""', "^"), error("x")], there)
    assert told.hint is not None
    assert told.hint.startswith(
        "this line is Python, not CUDA C++: leave only the CUDA C++ code in this file"
    )


def test_a_python_file_is_told(tmp_path: Path) -> None:
    there = setting(tmp_path, text=f'code = r"""\n{SAXPY}"""\n', path="demo/a.py")
    (told,) = advise([error("missing closing quote", "demo/a.py", 1, 'code = r"""', "^"), error("x")], there)
    assert str(told.hint).startswith(
        "this file is Python, not CUDA C++: move its CUDA C++ code into a .cu file"
    )


@pytest.mark.parametrize("code", [r"extern \"C\" __global__ void k() {", r"x[0] = 1;\n"])
def test_a_part_of_a_string_literal_is_told(tmp_path: Path, code: str) -> None:
    (told,) = advise([error("unrecognized token", "demo/a.cu", 1, code, "^"), error("x")], setting(tmp_path))
    assert told.hint is not None
    assert "string literal" in told.hint


@pytest.mark.parametrize(
    ("code", "is_template"),
    [
        ("void k(%(dtype)s *x) {", True),
        ("x[0] = %s;", True),
        ("__shared__ float s[%d];", True),
        ("if (i < {n}) x[i] = 1;", True),
        ("void k({dtype} *x) {", True),
        ("x[0] = $N;", True),
        ("x[0] = {{ value }};", False),
        ('printf("(%d, %s)", i, s) nope', False),
        ("auto v = std::array<int, 1>{n};", False),
        ("x[0] = y %s;", False),
        ("return {n};", False),
    ],
)
def test_placeholders_of_python_are_told_from_code(tmp_path: Path, code: str, *, is_template: bool) -> None:
    (told,) = advise([error("expected an expression", "demo/a.cu", 1, code, "^")], setting(tmp_path))
    assert (told.hint is not None and "text template" in told.hint) == is_template


@pytest.mark.parametrize(
    ("text", "is_body"),
    [
        ("y = a * x + y\n", True),
        ("if (i < n) { y[i] = x[i]; }\n", True),
        ("float32 x, float32 y\n", True),
        ("", False),
        ("struct A { floot x; };\n", False),
        ("int f(int x) { return y; }\n", False),
        ("#define A\nfloot x;\n", False),
    ],
)
def test_statements_outside_of_functions_are_told_once(tmp_path: Path, text: str, *, is_body: bool) -> None:
    found = [undefined("floot"), error("other", line=2)]
    told = not_cuda.statements(found, setting(tmp_path, text=text))
    assert (told is not None) == is_body
    assert told is None or (told[0].where, told[1]) == (found[0].where, [])
    assert not_cuda.statements(found[1:], setting(tmp_path, text=text)) is None
    assert not_cuda.statements([], setting(tmp_path, text=text)) is None


@pytest.mark.parametrize("code", ["int i = get_global_id(0);", "int gl_threadID = n;"])
def test_a_helper_of_a_cuda_source_is_no_other_language(tmp_path: Path, code: str) -> None:
    there = setting(tmp_path, text="__global__ void k() {}\n")
    (told,) = advise([error("expected a declaration", "demo/a.cu", 9, code, "^")], there)
    assert told.hint is None


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


TILE = "__tile_global__ void t(float *x) {}\n"
WHAT = "the compiler ignores tile code, because demo/{} is not compiled as CUDA Tile C++"


def as_plain_cpp(failed: FailedCompile) -> FailedCompile:
    return replace(failed, module=replace(failed.module, has_tile_code=False, is_tile=False))


AS_DEVICE = "options = { device-as-default-execution-space = true }"


@pytest.mark.parametrize(
    "text", ["", "int __tile_global__x;\n", f"#ifdef WITH_TILES\n{TILE}#endif\n", f"// {TILE}"]
)
def test_tile_code_that_the_compiler_may_not_read_is_not_refused(text: str) -> None:
    assert not_cuda.place_of_tile_code({"a.h": "", "k.cu": text}) is None


@pytest.mark.parametrize("text", [TILE, "__tile__ int f();\n", f"#ifdef __CUDACC__\n{TILE}#endif\n"])
def test_tile_code_is_reported_at_its_line(tmp_path: Path, text: str) -> None:
    found = [error("this needs C++20", "<cuda/cu13/include>/crt/cuda_tile.h", 55)]
    there = as_plain_cpp(setting(tmp_path, text=text))
    (told,) = advise(found, there)
    assert (told.code, told.hint) == (
        "tile-code-ignored",
        "write #include <cuda_tile.h> into demo/a.cu, outside of every #if",
    )
    assert told.where is not None
    assert told.context == (f"    {text.splitlines()[(told.where.line or 0) - 1]}",)
    assert not_cuda.tile_code([], there) is None


def test_tile_code_in_a_header_is_reported_in_the_header(tmp_path: Path) -> None:
    there = setting(tmp_path, text='#include "t.h"\n', files={"demo/t.h": TILE})
    (told,) = advise([error("x")], there)
    assert (told.code, told.where, told.context) == (
        "tile-code-ignored",
        Location("demo/t.h", 1),
        (f"    {TILE.rstrip()}",),
    )


def test_a_text_that_a_library_compiles_cannot_have_tile_kernels(tmp_path: Path) -> None:
    there = setting(tmp_path, text=TILE)
    of_call = as_plain_cpp(replace(there, module=replace(there.module, front="cupy")))
    (told,) = advise([error("x")], of_call)
    assert (told.code, "library" in (told.hint or "")) == ("tile-code-ignored", True)


def test_errors_in_tile_code_that_is_compiled_are_shown_as_they_are(tmp_path: Path) -> None:
    there = setting(tmp_path, text=TILE)
    assert [each.code for each in advise([error("x")], there)] == [""]


@pytest.mark.nvrtc
@pytest.mark.parametrize("options", ["", AS_DEVICE], ids=["as it is", "where NVRTC would leave it out"])
@pytest.mark.parametrize("guard", ["__CUDACC_VER_MAJOR__ > 12", "1"])
def test_no_wheel_is_built_without_a_tile_kernel(tmp_path: Path, options: str, guard: str) -> None:
    text = f'#include "t.h"\n{SAXPY}'
    header = f"#if {guard}\n{TILE}#endif\n"
    project = make_project(tmp_path, {"k.cu": text, "t.h": header}, f'archs = ["sm_90"]\n{options}')
    (refused,) = refusal(CompileError, pipeline.build, project).problems
    where = Location("demo/t.h", 2) if guard == "1" else Location("demo/k.cu")
    assert (refused.code, refused.what, refused.where) == ("tile-code-ignored", WHAT.format("k.cu"), where)


@pytest.mark.parametrize(
    "code", ["{% for i in n %}", "k({{ type }} *x) {}", "k(@TYPE@ *x) {}", "k(${TYPE} *x) {}"]
)
def test_a_template_for_a_script_is_named_as_one(tmp_path: Path, code: str) -> None:
    found = [error("expected an identifier", "demo/a.cu", 1, code, "^"), undefined("x")]
    (told,) = advise(found, setting(tmp_path, text=code))
    assert told.hint is not None
    assert "script" in told.hint
    assert told.hint.endswith(': exclude = ["demo/a.cu"]')


@pytest.mark.parametrize(
    "code", ["int a[1] = {{ x }};", "b = A{{1, 2}} * 3;", "b[@];", 'asm("$t");', "int y = {x};"]
)
def test_code_with_braces_or_signs_is_no_template(tmp_path: Path, code: str) -> None:
    (told,) = advise([error("expected an identifier", "demo/a.cu", 1, code, "^")], setting(tmp_path))
    assert told.hint is None


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (POINTER.encode(), LFS_HINT),
        (
            "__device__ int f();\n".encode("utf-16"),
            "demo/h.cuh contains null bytes, as in UTF-16 and UTF-32: save the file as UTF-8",
        ),
        (
            "__device__ int f\u00e9();\n".encode("latin-1"),
            "a character of this line is not UTF-8: save demo/h.cuh as UTF-8",
        ),
    ],
)
def test_a_header_that_is_not_text_is_one_error(tmp_path: Path, content: bytes, hint: str) -> None:
    files: dict[str, str | bytes] = {"k.cu": f'#include "h.cuh"\n{SAXPY}', "h.cuh": content}
    failure = refusal(CompileError, pipeline.build, make_project(tmp_path, files, 'archs = ["sm_90"]\n'))
    (told,) = failure.problems
    assert told.where is not None
    assert (told.where.path, told.hint) == ("demo/h.cuh", hint)


@pytest.mark.parametrize(
    ("char", "named"),
    [
        ("\u201c", "U+201C (left double quotation mark)"),
        ("\u200b", "U+200B (zero width space)"),
        ("\ufdd0", "U+FDD0 (without a name)"),
    ],
)
def test_a_character_outside_of_quotes_is_named(tmp_path: Path, char: str, named: str) -> None:
    text = f'int a; // caf\u00e9\nprintf("\u00e9", {char}x);\n'
    found = [error("unrecognized token", line=1), error("unrecognized token", line=2), error("x", line=2)]
    plain, told = sorted(advise(found, setting(tmp_path, text=text)), key=lambda each: str(each.where))
    assert (plain.hint, told.context) == (None, ("and 1 more error after this error",))
    assert told.hint == f"this line contains {named}, outside of quotes and comments"


@pytest.mark.nvrtc
def test_a_byte_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"k.cu": SAXPY.encode() + b"int \x93;\n", "h.cu": SAXPY}
    failure = refusal(CompileError, pipeline.build, make_project(tmp_path, files, 'archs = ["sm_90"]\n'))
    hint = failure.problems[0].hint
    assert hint
    assert "0x93" in hint
    assert "U+201C (left double quotation mark)" in hint
