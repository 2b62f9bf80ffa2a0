"""What an option switches on, and limits of shared memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.hints import compiler_limits
from hatch_cubin.errors import CompileError
from tests.helpers import make_project

from .failed_compiles import TABLES, error, setting

INTEGER = '128-bit integer type is only supported in Linux with the "--device-int128" flag in NVRTC'
REAL = '128-bit floating point type is only supported in Linux with the "--device-float128" flag in NVRTC'


def test_types_of_128_bits_are_allowed_by_an_option_each(tmp_path: Path) -> None:
    found = [error(INTEGER), error(INTEGER, line=2), error(REAL, line=3), error("other", line=4)]
    told = compiler_limits.types_of_128_bits(found, setting(tmp_path, 'options = { std = "c++20" }'))
    assert told is not None
    assert told[0].hint == (
        'an option allows it: options = { std = "c++20", device-int128 = true, device-float128 = true }'
    )
    assert "2 more errors" in " ".join(told[0].context)
    assert told[1] == found[3:]


def test_other_errors_are_not_theirs(tmp_path: Path) -> None:
    assert compiler_limits.types_of_128_bits([error("other")], setting(tmp_path)) is None


@pytest.mark.nvrtc
def test_shared_memory_of_two_types_compiles_as_bytes(tmp_path: Path) -> None:
    text = "template <class T> __global__ void k(T *x) { extern __shared__ T s[]; s[0] = *x; *x = s[1]; }\n"
    options = f"archs = ['sm_90']\n{TABLES}\npath = 'demo/k.cu'\ninstantiate = ['k<float>', 'k<double>']\n"
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, {"k.cu": text}, options))
    hint = caught.value.problems[0].hint
    assert hint is not None
    assert hint.startswith("all instantiations share one extern __shared__ s, which has one type: ")
    followed = text.replace("extern __shared__ T s[];", hint.partition(": ")[2])
    assert pipeline.build(make_project(tmp_path, {"k.cu": followed}, options))


STATIC = "__shared__ arrays of fixed size have 49152 bytes at most, these have "
BY_LAUNCH = "and give the bytes of all such arrays where the kernel is launched"
SHARED = 'extern "C" __global__ void k(float *x) {{ {} s[threadIdx.x] = *x; *x = s[3]; }}\n'


def hint_of(root: Path, text: str) -> str | None:
    """Build a source that does not compile, and return the hint."""
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(root, {"k.cu": text}, "archs = ['sm_90']"))
    (problem,) = caught.value.problems
    return problem.hint


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        (
            "__shared__ float s[20000];",
            f"80000: make the largest an extern __shared__ array without a size, {BY_LAUNCH}",
        ),
        ("extern __shared__ float s[20000];", f"80000: write s[] without a size, {BY_LAUNCH}"),
        (
            "__shared__ float s[80000];",
            "320000; and no block of any GPU has more than 232448, however it gets them",
        ),
    ],
)
def test_too_much_shared_memory_is_told_in_bytes(tmp_path: Path, declared: str, hint: str) -> None:
    assert hint_of(tmp_path, SHARED.format(declared)) == f"{STATIC}{hint}"


@pytest.mark.nvrtc
def test_shared_memory_of_a_launch_has_no_size(tmp_path: Path) -> None:
    text = SHARED.format("extern __shared__ float s[];")
    assert pipeline.build(make_project(tmp_path, {"k.cu": text}, "archs = ['sm_90']"))


@pytest.mark.nvrtc
def test_a_size_that_no_launch_changes_is_warned_of(tmp_path: Path) -> None:
    said: list[str] = []
    text = "\n" + SHARED.format("extern __shared__ float s[200];")
    project = make_project(tmp_path, {"k.cu": text}, "archs = ['sm_90']")
    pipeline.build(dataclasses.replace(project, warn=said.append))
    (warning,) = said
    assert warning == (
        "demo/k.cu:2: extern declaration of the entity s is treated as a static definition"
        " [compiler-warning]\n"
        "  hint: the size in this declaration is fixed and a launch cannot change it: remove 'extern', "
        "or write s[] to set the size at the launch"
    )


@pytest.mark.nvrtc
def test_too_much_constant_memory_compiles_as_device_memory(tmp_path: Path) -> None:
    text = '__constant__ float c[20000];\nextern "C" __global__ void k(float *x) { *x = c[(int)*x]; }\n'
    assert hint_of(tmp_path / "before", text) == (
        "all __constant__ variables of a source have 65536 bytes at most, these have 80000: "
        "write __device__ in place of __constant__ for the largest"
    )
    followed = text.replace("__constant__", "__device__")
    assert pipeline.build(make_project(tmp_path / "after", {"k.cu": followed}, "archs = ['sm_90']"))


def test_another_declaration_that_is_incompatible_is_not_of_shared_memory(tmp_path: Path) -> None:
    found = [error('declaration is incompatible with previous "f" (declared at line 1)')]
    assert advise(found, setting(tmp_path, text="extern __shared__ int s[];\nint f(); float f();\n")) == found


def test_parameters_above_the_limit_are_to_be_passed_by_a_pointer(tmp_path: Path) -> None:
    found = [error("Formal parameter space overflowed (40008 bytes required, max 32764 bytes allowed)")]
    told = compiler_limits.memory(found, setting(tmp_path))
    assert told is not None
    assert "pass a pointer" in str(told[0].hint)
