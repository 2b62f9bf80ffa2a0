from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.compiling import advice
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.errors import Location
from hatch_cubin.keys.headers import folder_of
from tests.helpers import write_tree

APART = (
    "keep kernels in a file of their own, or put the host's part between #ifndef __CUDACC_RTC__ and #endif"
)
AS_DEVICE = "options = { device-as-default-execution-space = true } takes such functions as device code"
UNANNOTATED = (
    "A function without execution space annotations (__host__/__device__/__global__) is considered a host one"
)


def error(text: str, path: str = "demo/a.cu", line: int = 1, *context: str) -> Diagnostic:
    return Diagnostic("error", Location(path, line), text, context)


def advise(
    found: list[Diagnostic],
    folder_of: Callable[[str], str | None],
    version: tuple[int, int] = (13, 4),
    wanted: str | None = None,
) -> list[Diagnostic]:
    return advice.advise(found, folder_of, version, wanted)


def nowhere(_name: str) -> None:
    return None


def hints(found: list[Diagnostic]) -> list[str | None]:
    return [each.hint for each in found]


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("torch/extension.h", f"that is PyTorch's, for host code, which NVRTC does not compile: {APART}"),
        ("vector", f"that is for host code, which NVRTC does not compile: {APART}"),
        ("cutlass/gemm/gemm.h", 'header-packages = ["nvidia-cutlass"]'),
        ("curand_kernel.h", 'header-packages = ["nvidia-curand"]'),
        ("cub/block/block_reduce.cuh", 'toolkit = "13.4" brings the toolkit\'s headers with the compiler'),
        ("tvm/ffi/tensor.h", f"that is TVM's, for host code, which NVRTC does not compile: {APART}"),
        ("mine.cuh", "no folder of 'include-dirs' has it, and no wheel of 'header-packages'"),
    ],
)
def test_a_missing_header_says_what_would_bring_it(header: str, hint: str) -> None:
    missing = error(f'cannot open source file "{header}"')
    assert hints(advise([missing], nowhere)) == [hint]


@pytest.mark.parametrize(
    ("header", "version", "wanted", "hint"),
    [
        ("curand_kernel.h", (12, 9), None, 'header-packages = ["nvidia-curand-cu12"]'),
        ("mma.h", (12, 9), None, 'toolkit = "12.9" brings the toolkit\'s headers with the compiler'),
        (
            "mma.h",
            (12, 9),
            "12.9",
            'toolkit = "12.9" brings its headers where builds are isolated; elsewhere, install them',
        ),
        ("mma.h", (13, 0), "system", "the toolkit in CUDA_HOME has no such header"),
    ],
)
def test_a_missing_header_of_nvidias_is_of_the_toolkit_that_is_used(
    header: str, version: tuple[int, int], wanted: str | None, hint: str
) -> None:
    missing = error(f'cannot open source file "{header}"')
    assert hints(advise([missing], nowhere, version, wanted)) == [hint]


def test_a_header_of_the_project_names_the_folder_to_search(tmp_path: Path) -> None:
    write_tree(tmp_path, {"csrc/include/deep/mine.cuh": "", "top.cuh": ""})
    found = [error(f'cannot open source file "{name}"') for name in ("deep/mine.cuh", "top.cuh", "ine.cuh")]
    assert hints(advise(found, lambda name: folder_of(tmp_path, name))) == [
        'include-dirs = ["csrc/include"]',
        'include-dirs = ["."]',
        "no folder of 'include-dirs' has it, and no wheel of 'header-packages'",
    ]


def test_what_follows_from_a_missing_header_is_left_out() -> None:
    missing = error('cannot open source file "vector"')
    assert [each.text for each in advise([error("x"), missing, error("y")], nowhere)] == [missing.text]


def test_host_code_is_one_error_that_counts_the_others() -> None:
    main = error(UNANNOTATED, "demo/a.cu", 7, "int main() {")
    (found,) = advise([error("x"), main, error("y")], nowhere)
    assert found.where == Location("demo/a.cu", 7)
    assert found.context == ("int main() {", "and 2 more errors after it")
    assert found.hint == f"NVRTC compiles device code only: {APART}; {AS_DEVICE}"


def test_a_header_wheel_written_for_hosts_too_asks_for_the_option() -> None:
    of_cute = error(UNANNOTATED, "<nvidia-cutlass/include>/cute/a.hpp")
    (found,) = advise([of_cute, error("x", "<nvidia-cutlass/include>/cute/b.hpp")], nowhere)
    assert found.hint == AS_DEVICE
    assert found.context == ("and 1 more error after it",)


def test_what_the_project_got_wrong_itself_is_told_beside_what_a_header_met_of_it() -> None:
    of_cub = error(UNANNOTATED, "<cuda/cu13/include>/cub/a.cuh")
    own = error('identifier "BLOCK" is undefined', "demo/a.cu", 3)
    told, *others = advise([of_cub, error(UNANNOTATED, "demo/a.cu"), own, of_cub], nowhere)
    assert (told.where, told.hint) == (of_cub.where, AS_DEVICE)
    assert told.context == ("and 2 more errors after it",)
    assert others == [own]


@pytest.mark.parametrize(
    "text",
    [
        'namespace "std" has no member "vector"',
        "A function explicitly marked as a __host__ function is not allowed",
        'identifier "cudaMalloc" is undefined',
    ],
)
def test_calls_of_the_host_are_named_as_host_code(text: str) -> None:
    (found,) = advise([error(text)], nowhere)
    assert found.hint == f"NVRTC compiles device code only: {APART}"
    assert found.context == ()


def test_a_type_that_nvcc_brings_unasked_names_the_option_that_brings_it_here() -> None:
    (found,) = advise([error("expected a declaration"), error('identifier "uint8_t" is undefined')], nowhere)
    assert found.text == 'identifier "uint8_t" is undefined'
    assert found.context == ("and 1 more error after it",)
    assert found.hint == (
        'nvcc includes <cstdint> by itself, NVRTC does not: options = { pre-include = ["cstdint"] }'
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("'x' not supported on .target 'sm_90'", 'if it is one of that GPU alone: archs = ["sm_90a"]'),
        ("'x' not supported on .target 'sm_90a'", None),
        ("Feature 'x' requires .target sm_100 or higher", None),
    ],
)
def test_an_instruction_of_one_gpu_names_the_arch_that_may_have_it(text: str, hint: str | None) -> None:
    assert advice.about_target(text) == hint


def test_other_errors_stay_as_they_are() -> None:
    found = [error('identifier "flaot" is undefined'), error('expected a ";"', line=2)]
    assert advise(found, nowhere) == found


def test_an_instantiation_that_fails_is_one_error_in_the_users_words() -> None:
    def pragma(text: str, name: str) -> Diagnostic:
        return error(f"instantiate: {text}", "demo/a.cu", 1, f"  #pragma nv_mangled_name {name}", "     ^")

    found = [
        pragma('identifier "nope" is undefined', "nope<1>"),
        pragma("expected an expression", "nope<1>"),
        pragma("Error in parsing name expression", "nope<1>"),
        error("other", "demo/a.cu", 1, "  int i"),
        pragma('expected a ">"', "scale<1"),
    ]
    assert [(each.text, each.context) for each in advise(found, nowhere)] == [
        ("instantiate: 'nope<1>': identifier \"nope\" is undefined", ()),
        ("other", ("  int i",)),
        ("instantiate: 'scale<1': expected a \">\"", ()),
    ]
