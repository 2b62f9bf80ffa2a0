"""What the kernels of a PTX text take."""

from __future__ import annotations

import pytest

from hatch_cubin.cubin.elf import read_kernels
from hatch_cubin.cubin.ptx import ptx_parameters
from tests.unit.cubin.test_elf import TAKING


@pytest.mark.parametrize(
    ("listed", "parameters"),
    [
        ("", ()),
        ("()", ()),
        ("(.param .u64 x)", ((0, 8),)),
        ("(.param .u8 a, .param .f32 b, .param .b16 c)", ((0, 1), (4, 4), (8, 2))),
        ("(.param .f16x2 a, .param .bf16 b, .param .s64 c)", ((0, 4), (4, 2), (8, 8))),
        ("(.param .u8 a,\n.param .align 16 .b8 b[20])", ((0, 1), (16, 20))),
        ("(.param .u64 .ptr .global .align 4 a, .param .u64 .ptr b)", ((0, 8), (8, 8))),
        ("(.param .u32 a, // the first\n /* and */ .param .u32 b)", ((0, 4), (4, 4))),
        ("(.param .u32 a[3])", ((0, 12),)),
    ],
)
def test_parameters_lie_as_their_types_are_aligned(
    listed: str, parameters: tuple[tuple[int, int], ...]
) -> None:
    assert ptx_parameters(f".visible .entry k{listed}\n{{ ret; }}") == {"k": parameters}


@pytest.mark.parametrize(
    "listed",
    [
        "(.param .texref t)",
        "(.param .align 0 .b8 a[4])",
        "(.param .u4 a)",
        "(.reg .u32 a)",
        "(.param .u32 a,)",
    ],
)
def test_a_kernel_with_parameters_of_another_kind_is_left_out(listed: str) -> None:
    assert ptx_parameters(f".entry k{listed} {{ ret; }}\n.entry j(.param .u32 a) {{ ret; }}") == {
        "j": ((0, 4),)
    }


@pytest.mark.nvrtc
def test_the_compilers_ptx_says_what_its_cubin_says() -> None:
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch="sm_90")
    cubin = bytes(Program(TAKING, "c++", options).compile("cubin").code)
    _status, program = nvrtc.nvrtcCreateProgram(TAKING.encode(), b"k.cu", 0, [], [])
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_90"])[0]) == 0
    text = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    found = ptx_parameters(text.rstrip(b"\0").decode())
    assert found == {symbol: kernel.parameters for symbol, kernel in read_kernels(cubin).items()}
