"""What a source needs of the compiler: a later C++, or an option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.hints import language
from hatch_cubin.config import value_checks
from hatch_cubin.errors import CompileError, Location
from tests.helpers import make_project, refusal

from .failed_compiles import error, setting

KERNEL = 'extern "C" __global__ void k(float *x) {{ {} }}\n'
ABOUT_SHARED, ABOUT_SYNC, ABOUT_EXTERN, ABOUT_MASK, ABOUT_VECTORS = (
    hint
    for pattern, hint in language._MESSAGES.items()
    if re.search(r"shared|sync|operand", pattern)  # in the order of the table
)
ABOUT_PTX = (
    "make the PTX again with the compiler of this toolkit, or with an older compiler, "
    'or write toolkit = "13.3.0"'
)
ABOUT_UNKNOWN_PTX = (
    "this version of hatch-cubin knows no release of CUDA that can read PTX {}: "
    "make the PTX again with the compiler of this toolkit, or with an older compiler"
)
ABOUT_SEMICOLON = "the ; at the end of the code before this line is missing"
ABOUT_COMMENT = "a comment in CUDA C++ begins with //"
CXX20 = 'to compile as C++20: options = { std = "c++20" }'


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("text", "std", "hint"),
    [
        (
            KERNEL.format("__int128 a = 1; *x = a;"),
            "17",
            'to allow this with an option: options = { std = "c++17", device-int128 = true }',
        ),
        ("template <class T> concept C = true;\n" + KERNEL.format("*x = 1;"), "17", CXX20),
        ("__device__ consteval int f() { return 1; }\n" + KERNEL.format("*x = f();"), "17", CXX20),
        (
            "#include <concepts>\ntemplate <class U, std::integral T> __device__ T f(T x, U) { return x; }\n"
            + KERNEL.format("*x = f(1, 2);"),
            "17",
            CXX20,
        ),
        ("__device__ float f(const auto x) { return x; }\n" + KERNEL.format("*x = f(1.f);"), "17", CXX20),
        (
            "__device__ float f(float y,\n  auto x) { return x; }\n" + KERNEL.format("*x = f(1.f, 1);"),
            "17",
            CXX20,
        ),
        ("struct P { int a, b; };\n" + KERNEL.format("P p{.a = 1, .b = 2}; *x = p.b;"), "17", CXX20),
        (
            "#include <cub/block/block_reduce.cuh>\n" + KERNEL.format("*x = 1;"),
            "14",
            CXX20.replace("20", "17"),
        ),
    ],
    ids=["int128", "concept", "consteval", "constrained", "auto", "auto on its line", "designated", "cub"],
)
def test_the_option_that_is_named_lets_the_source_compile(
    tmp_path: Path, text: str, std: str, hint: str
) -> None:
    table = f'archs = ["sm_90"]\noptions = {{ std = "c++{std}" }}\n'
    error = refusal(CompileError, pipeline.build, make_project(tmp_path / "a", {"k.cu": text}, table))
    (told,) = error.problems
    says, _, line = hint.partition(": ")
    assert told.hint is not None
    assert told.hint.startswith(f"{says}: ")
    assert told.hint.endswith(f": {line}")
    followed = f'archs = ["sm_90"]\n{line}\n'
    assert pipeline.build(make_project(tmp_path / "b", {"k.cu": text}, followed))


@pytest.mark.parametrize(
    ("text", "context", "options", "hint"),
    [
        ("this is a C++23 feature", (), "", 'to compile as C++23: options = { std = "c++23" }'),
        ("expected", ("requires true", "^"), "options = { std = 'c++20' }", None),
        ("expected", ("  requires true", "^"), "", None),
        ('identifier "concept" is undefined', ("concept + 1;", "^"), "", None),
        ('"auto" is not allowed here', ("auto x;", "^"), "", None),
        ('"auto" is not allowed here', ("auto x) {}", "^"), "", CXX20),
        ("expected an expression", ("f(, 1);", "  ^"), "", None),
        (
            "Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)",
            (),
            "",
            ABOUT_SHARED,
        ),
        ("Instruction 'vote' without '.sync' is not supported on .target sm_70", (), "", ABOUT_SYNC),
        ("Unsupported .version 9.9; current version is '9.5'", (), "", ABOUT_UNKNOWN_PTX.format("9.9")),
        ("Unsupported .version 9.3; current version is '9.0'", (), "", ABOUT_PTX),
        (
            'declaration is incompatible with previous "s" (declared at line 1)',
            ("extern __shared__ T s[];", "                    ^"),
            "",
            ABOUT_EXTERN,
        ),
        ('declaration is incompatible with previous "s" (declared at line 1)', ("int s;", "^"), "", None),
        ("unrecognized preprocessing directive", ("#inlcude <a.h>", " ^"), "", "did you mean #include?"),
        ("unrecognized preprocessing directive", ("# kernels", "  ^"), "", ABOUT_COMMENT),
        ("unrecognized preprocessing directive", (), "", ABOUT_COMMENT),
        (
            'no instance of overloaded function "__shfl_down_sync" matches the argument list',
            ("            argument types are: (float, int)", "x"),
            "",
            ABOUT_MASK,
        ),
        (
            'no operator "+" matches these operands',
            ("operand types are: float4 + float4",),
            "",
            ABOUT_VECTORS,
        ),
        ('no operator "+" matches these operands', ("operand types are: S + float",), "", None),
        ('expected a ";"', ("  x[0] = 1;", "  ^"), "", ABOUT_SEMICOLON),
        ('expected a ";"', ("  x[0] y;", "       ^"), "", None),
        ('expected a ";"', ("  {", "  ^"), "", None),
        (
            'namespace "std" has no member "printf"',
            ("std::printf(x);", "^"),
            "",
            "write this function of CUDA without std::, as in printf",
        ),
        (
            'expected a ")"',
            ("void k(const float * restrict y) {", "^"),
            "",
            "C++ does not have the keyword restrict: write __restrict__",
        ),
        (
            "attributes are not permitted in a function definition",
            ("__global__ void k(int *x) __launch_bounds__(256) {", "^"),
            "",
            "write marks such as __launch_bounds__ before the kernel's name",
        ),
        (
            'type is missing ("int" assumed)',
            ("__kernel__ void k() {}", "^"),
            "",
            "CUDA C++ marks a kernel with __global__, not with __kernel__",
        ),
        (
            'type is missing ("int" assumed)',
            ("extern C void k() {}", "       ^"),
            "",
            'write extern "C", with quotes',
        ),
        (
            "texture is not a template",
            (),
            "",
            (
                "CUDA 12 and later do not have texture references: pass a cudaTextureObject_t to the "
                "kernel instead"
            ),
        ),
    ],
)
def test_what_a_source_needs_is_said_once(
    tmp_path: Path, text: str, context: tuple[str, ...], options: str, hint: str | None
) -> None:
    found = [error("other", line=2), error(text, "demo/a.cu", 1, *context)]
    hints = {each.text: each.hint for each in advise(found, setting(tmp_path, options))}
    assert hints == {"other": None, text: hint}


def test_a_message_of_the_assembler_has_the_line_of_its_kernel(tmp_path: Path) -> None:
    there = setting(tmp_path, text="\n#include <a.h>\n__global__ void k(float *x) {}\n")
    (told,) = advise(
        [error("Entry function '_Z1kPf' uses too much shared data (0x1 bytes)", line=None)], there
    )
    assert (told.where, told.hint) == (Location("demo/a.cu", 3), ABOUT_SHARED)


def test_each_release_of_cuda_is_named_for_the_ptx_that_it_reads_first() -> None:
    releases = [value_checks.toolkit(each) for each in language.TOOLKITS.values()]
    minors = [tuple(map(int, each.split(".")[:2])) for each in releases]
    assert minors == sorted(minors)
    known = {(major, minor) for major, of in value_checks.CUDA.items() for minor in of}
    assert known - {*minors} == {(12, 0), (12, 6)}  # PTX 8.0 is the oldest, and 8.5 is that of 12.5 too


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", ["norm", "max", "printf"])
def test_a_kernel_with_the_name_of_a_function_of_cuda_is_renamed_or_loses_its_extern_c(
    tmp_path: Path, name: str
) -> None:
    text = KERNEL.format("*x = 1;").replace(" k(", f" {name}(")
    hint = (
        'another function, perhaps one of CUDA, has this name too: rename the kernel, or leave out extern "C"'
    )
    for number, wrong in enumerate((text, f"namespace n {{ {text} }}")):
        with pytest.raises(CompileError) as caught:
            pipeline.build(make_project(tmp_path / str(number), {"k.cu": wrong}, "archs = ['sm_90']"))
        assert [problem.hint for problem in caught.value.problems] == [hint]
    right = {"k.cu": text.replace('extern "C"', ""), "n.cu": text.replace(f" {name}(", f" {name}_of_rows(")}
    pipeline.build(make_project(tmp_path / "right", right, "archs = ['sm_90']"))
