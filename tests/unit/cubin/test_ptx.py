"""The parameters of the kernels of a PTX text."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.cubin.elf import read_kernels
from hatch_cubin.cubin.ptx import ptx_parameters
from hatch_cubin.project.source import ptx_entries
from tests.cubins import assembled
from tests.unit.cubin.test_elf import WITH_PARAMETERS


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
        ("(.param .u8 a, .param .align 2 .b32 b)", ((0, 1), (4, 4))),
        ("(.param .u64 a /* ) { */)", ((0, 8),)),
    ],
)
def test_parameters_are_aligned_by_their_types(listed: str, parameters: tuple[tuple[int, int], ...]) -> None:
    assert ptx_parameters(f".visible .entry k{listed}\n{{ ret; }}") == {"k": parameters}


@pytest.mark.parametrize(
    "listed",
    [
        "(.param .texref t)",
        "(.param .align 0 .b8 a[4])",
        "(.param .align 010 .b8 a[4])",
        "(.param .align 32 .b8 a[4])",
        "(.param .b8 a[010])",
        "(.param .b8 a[(4)])",
        "(.param .b8 a[",
        "(.param .u4 a)",
        "(.reg .u32 a)",
        "(.param .u32 a,)",
    ],
)
def test_a_kernel_with_parameters_of_another_kind_is_left_out(listed: str) -> None:
    assert ptx_parameters(f".entry k{listed} {{ ret; }}\n.entry j(.param .u32 a) {{ ret; }}") == {
        "j": ((0, 4),)
    }


_HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
_OTHER = ".visible .entry k(.param .u32 n, .param .u64 a)"


def _entry(listed: str = ".param .u64 a", start: str = ".visible .entry k", body: str = "") -> str:
    return f"{start}({listed})\n{{\n{body}\nret;\n}}\n"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_entry(), id="alone"),
        pytest.param(f"{_entry()}// before: {_OTHER}\n", id="a comment at the end of a line"),
        pytest.param(f"{_entry()}// before: {_OTHER}\n".replace("\n", "\r\n"), id="with CRLF"),
        pytest.param(f"{_entry()}/* {_OTHER}\n{{ ret; }} */\n", id="a comment"),
        pytest.param(f"// it's {_OTHER}\n{_entry()}", id="a comment before it"),
        pytest.param(f'// "\n{_entry()}// "\n/* {_OTHER} */\n', id="a quote in a comment"),
        pytest.param(f'.file 1 "/*"\n{_entry()}.file 2 "{_OTHER} */"\n', id="a comment's marks in a string"),
        pytest.param(f'{_entry()}.file 1 "a\\\n{_OTHER}"\n', id="a string of two lines"),
        pytest.param(_entry(body=f'.pragma "{_OTHER}";'), id="a pragma"),
        pytest.param(f".visible .entry k(.param .u64 other);\n{_entry()}", id="declared before"),
        pytest.param(f".extern .entry j(.param .u32 a);\n{_entry()}", id="another one is declared"),
        pytest.param(_entry(start=".weak .entry k"), id="weak"),
        pytest.param(_entry(start=".entry /* of */ k // x\n"), id="comments around the name"),
        pytest.param(_entry(".param .u8 z, .param .align 8 .b8 p[40], .param .b128 q"), id="arrays"),
        pytest.param(_entry(".param .u64 .ptr .global .align 16 a, .param .u32 b"), id="pointers"),
        *(
            pytest.param(_entry(f".param .u8 z, .param .align {each} p, .param .u16 q"), id=f".align {each}")
            for each in ("2 .b32", "4 .u64", "16 .b8", "010 .b64", "32 .b8", "64 .b8")
        ),
        *(
            pytest.param(_entry(f".param .b8 p[{each}], .param .u16 q"), id=f"[{each}]")
            for each in ("010", "0x10", "8U", " /**/ 8 ")
        ),
    ],
)
def test_each_parameter_is_where_the_assembler_puts_it(text: str, tmp_path: Path) -> None:
    cubin = assembled(tmp_path, f"{_HEAD}{text}".encode())
    assert cubin is not None
    seen = {symbol: kernel.parameters for symbol, kernel in read_kernels(cubin).items()}
    told = ptx_parameters(_HEAD + text)
    assert {symbol: told[symbol] for symbol in seen if symbol in told}.items() <= seen.items()
    assert {*seen} == {"k"} == {*ptx_entries(_HEAD + text)} - {"j"}


def test_a_kernel_that_is_declared_in_two_ways_has_no_parameters() -> None:
    text = f"{_OTHER};\n.visible .entry k(.param .u64 a) {{ ret; }}\n.entry j(.param .u64 a) {{ ret; }}"
    assert ptx_parameters(text) == {"j": ((0, 8),)}


@pytest.mark.nvrtc
def test_ptx_and_cubin_of_one_source_have_the_same_parameters() -> None:
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch="sm_90")
    cubin = bytes(Program(WITH_PARAMETERS, "c++", options).compile("cubin").code)
    _status, program = nvrtc.nvrtcCreateProgram(WITH_PARAMETERS.encode(), b"k.cu", 0, [], [])
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_90"])[0]) == 0
    text = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    found = ptx_parameters(text.rstrip(b"\0").decode())
    assert found == {symbol: kernel.parameters for symbol, kernel in read_kernels(cubin).items()}
