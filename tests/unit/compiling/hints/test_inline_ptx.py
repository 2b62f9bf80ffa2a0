"""Inline assembly that ptxas or the compiler refuses: the hint, and what comes of following it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints import inline_ptx
from hatch_cubin.errors import CompileError
from tests.helpers import make_project

from .failed_compiles import error, setting

KERNEL = (
    'extern "C" __global__ void k(int *x) {{ int v = *x; float f = 0; asm volatile({}); *x = v + (int)f; }}\n'
)
DOUBLED = "an asm with operands has %%tid.x for the register %tid.x, one without any has %tid.x"
NAMED = "this asm has no operands, so %0 is none: name them, as in "
VARIABLE = (
    "the text of an asm cannot name variables: write %0 for v, "
    'and behind the text : "=r"(v) if it is written, or : : "r"(v) if it is only read'
)
WRITTEN = 'what is behind the first colon is written, as in "=r"; what is only read is behind the second'
CONSTRAINTS = '"h" is for 16 bits, "r" for 32, "l" for 64 and pointers, "f" for float, "d" for double'


def hint_of(root: Path, asm: str) -> str | None:
    """Return the hint of the only problem; "compiles" if there is none."""
    try:
        pipeline.build(make_project(root, {"k.cu": KERNEL.format(asm)}, "archs = ['sm_90']"))
    except CompileError as exc:
        (problem,) = exc.problems
        return problem.hint
    return "compiles"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("asm", "hint", "followed"),
    [
        (
            '"mov.u32 %0, %laneid;"',
            NAMED + 'asm("mov.u32 %0, %%laneid;" : "=r"(v0))',
            '"mov.u32 %0, %%laneid;" : "=r"(v)',
        ),
        (
            '"add.f32 %0, %1, %1;"',
            NAMED + 'asm("add.f32 %0, %1, %1;" : "=f"(v0) : "f"(v1))',
            '"add.f32 %0, %1, %1;" : "=f"(f) : "f"(f)',
        ),
        (
            '"mov.u32 v, %tid.x;"',
            VARIABLE,
            '"mov.u32 %0, %%tid.x;" : "=r"(v)',
        ),
        (
            '"mov.u32 %0, %%tid.x" : "=r"(v)',
            'write ; at the end of the text "mov.u32 %0, %%tid.x" of the asm',
            '"mov.u32 %0, %%tid.x;" : "=r"(v)',
        ),
        (
            '"{ .reg .u32 t; mov.u32 t, %%tid.x; }"',
            DOUBLED,
            '"{ .reg .u32 t; mov.u32 t, %tid.x; }"',
        ),
        ('"mov.u32 %0, %%%tid.x;" : "=r"(v)', DOUBLED, '"mov.u32 %0, %%tid.x;" : "=r"(v)'),
        (
            '"mov.u32 $0, %%tid.x;" : "=r"(v)',
            "operands are called %0, %1, …: write %0 for $0",
            '"mov.u32 %0, %%tid.x;" : "=r"(v)',
        ),
        ('"mov.u32 %0, %%laned;" : "=r"(v)', "did you mean '%laneid'?", '"mov.u32 %0, %%laneid;" : "=r"(v)'),
        (
            '"mov.u32 %0, %3;" : "=r"(v) : "r"(v)',
            "the text has an operand's number that no operand has: they are counted from %0, in order",
            '"mov.u32 %0, %1;" : "=r"(v) : "r"(v)',
        ),
        ('"mov.u32 %0, %%tid.x;" : "r"(v)', WRITTEN, '"mov.u32 %0, %%tid.x;" : "=r"(v)'),
        ('"mov.f32 %0, 0f3f800000;" : "=r"(f)', CONSTRAINTS, '"mov.f32 %0, 0f3f800000;" : "=f"(f)'),
    ],
)
def test_a_mistake_in_inline_assembly_has_a_hint_that_works(
    tmp_path: Path, asm: str, hint: str, followed: str
) -> None:
    assert hint_of(tmp_path / "before", asm) == hint
    assert hint_of(tmp_path / "after", followed) == "compiles"


@pytest.mark.parametrize("instruction", ["ld.global.f32 %0, [%1];", "bar.sync 0;"])
def test_an_instruction_without_plain_operands_has_no_example(instruction: str) -> None:
    assert inline_ptx._with_operands(instruction) == ""


def test_what_is_no_mistake_of_operands_has_no_hint(tmp_path: Path) -> None:
    for found in (error("Unknown symbol '%what'"), error("Parsing error near '%': syntax error"), error("x")):
        assert inline_ptx.operands([found], setting(tmp_path)) is None
    ptx = setting(tmp_path, path="demo/k.ptx", text=".version 8.0\n.target sm_90\n")
    assert inline_ptx.operands([error("Unknown symbol '%0'")], ptx) is None
