"""Hints about inline assembly: its operands, its registers, and where to double a percent sign."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .similar_names import did_you_mean

_UNKNOWN = re.compile(r"Unknown symbol '([%$]\w+)'")
_DOUBLED = re.compile(r"%%([A-Za-z_]\w*(?:\.[xyzw])?)")
_TOO_FEW = re.compile(r"asm operand index requested is larger than")
_NOT_WRITTEN = re.compile(r"an asm output operand must have one of the '=' or '\+' modifiers")
_CONSTRAINT = re.compile(r"asm operand type size\(\d+\) does not match type/size implied by constraint")
_CONSTRAINTS = '"h" is for 16 bits, "r" for 32, "l" for 64 and pointers, "f" for float, "d" for double'
_REGISTERS = str.split(
    """
    %tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid %clock %clock_hi %clock64
    %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt %globaltimer %globaltimer_lo
    %globaltimer_hi %clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank
    %cluster_nctarank %is_explicit_cluster %total_smem_size %dynamic_smem_size %aggr_smem_size
    """
)


def operands(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report inline assembly that names an operand or a register that does not exist."""
    for each in found if not failed.module.source.is_ptx else ():
        if each.hint is None and (hint := _about(each)) is not None:
            others = [other for other in found if other.where != each.where or other.hint is not None]
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def _about(error: Diagnostic) -> str | None:
    if match := _UNKNOWN.search(error.text):
        return _about_symbol(match[1])
    if "near '%'" in error.text and (match := _DOUBLED.search("".join(error.context[:1]))):
        name = match[1]
        return f"an asm with operands has %%{name} for the register %{name}, one without any has %{name}"
    if _TOO_FEW.search(error.text):
        return "the text has an operand's number that no operand has: they are counted from %0, in order"
    if _NOT_WRITTEN.search(error.text):
        return 'what is behind the first colon is written, as in "=r"; what is only read is behind the second'
    return _CONSTRAINTS if _CONSTRAINT.search(error.text) else None


def _about_symbol(name: str) -> str | None:
    if name[1:].isdigit():
        operand = f"%{name[1:]}"
        if name != operand:
            return f"operands are called %0, %1, …: write {operand} for {name}"
        return f'this asm has no operands, so {name} is none: name them, as in asm("…" : "=r"(value))'
    return did_you_mean(name, _REGISTERS)
