"""Hints about inline assembly: its operands, its registers, and where to double a percent sign."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .similar_names import did_you_mean

_UNKNOWN = re.compile(r"Unknown symbol '([%$]?\w+)'")
_DOUBLED = re.compile(r"%%([A-Za-z_]\w*(?:\.[xyzw])?)")
_TOO_FEW = re.compile(r"asm operand index requested is larger than")
_NOT_WRITTEN = re.compile(r"an asm output operand must have one of the '=' or '\+' modifiers")
_CONSTRAINT = re.compile(r"asm operand type size\(\d+\) does not match type/size implied by constraint")
_CONSTRAINTS = '"h" is for 16 bits, "r" for 32, "l" for 64 and pointers, "f" for float, "d" for double'
_NO_VARIABLES = "the text of an asm cannot name variables"
_BEHIND = 'and behind the text : "=r"({0}) if it is written, or : : "r"({0}) if it is only read'
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ASM = re.compile(rf"\b_*asm_*\s*(?:_*volatile_*\s*)?\(\s*((?:{_QUOTED.pattern}\s*)+)")
_ENDED = re.compile(r"(?:[;{}:]|\A)(?:\s|\\[nrt])*\Z")
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
        if each.hint is None and (hint := _about(each, failed)) is not None:
            others = [other for other in found if other.where != each.where or other.hint is not None]
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def _about(error: Diagnostic, failed: FailedCompile) -> str | None:
    code = without_comments(failed.module.source.text)
    if match := _UNKNOWN.search(error.text):
        return _about_symbol(match[1], "".join(error.context[:1]).strip(), code)
    if "near '%'" in error.text and (match := _DOUBLED.search("".join(error.context[:1]))):
        name = match[1]
        return f"an asm with operands has %%{name} for the register %{name}, one without any has %{name}"
    if "Parsing error near" in error.text:
        return _unended(code)
    if _TOO_FEW.search(error.text):
        return "the text has an operand's number that no operand has: they are counted from %0, in order"
    if _NOT_WRITTEN.search(error.text):
        return 'what is behind the first colon is written, as in "=r"; what is only read is behind the second'
    return _CONSTRAINTS if _CONSTRAINT.search(error.text) else None


def _unended(code: str) -> str | None:
    """Return a hint for the first text of an asm whose last instruction has no semicolon."""
    last = (_QUOTED.findall(texts[1])[-1][1:-1] for texts in _ASM.finditer(code))
    text = next((text for text in last if not _ENDED.search(text)), None)
    return None if text is None else f'write ; at the end of the text "{text}" of the asm'


def _about_symbol(name: str, instruction: str, code: str) -> str | None:
    if name[0] not in "%$":
        is_variable = re.search(rf"\b{name}\b", _QUOTED.sub("", code))
        return f"{_NO_VARIABLES}: write %0 for {name}, {_BEHIND.format(name)}" if is_variable else None
    if name[1:].isdigit():
        operand = f"%{name[1:]}"
        if name != operand:
            return f"operands are called %0, %1, …: write {operand} for {name}"
        return f"this asm has no operands, so {name} is none: name them{_with_operands(instruction)}"
    return did_you_mean(name, _REGISTERS)


def _with_operands(instruction: str) -> str:
    """Return an example that names the operands of an instruction; the first one is written."""
    match = re.fullmatch(r"[\w.:]+?\.[a-z]+(\d+)\s+(%0,[^;]*;)", instruction)
    if match is None or "[" in instruction:
        return ""
    kind = instruction.split(maxsplit=1)[0].rpartition(".")[2]
    letter = {"f32": "f", "f64": "d"}.get(kind) or {"16": "h", "64": "l"}.get(match[1], "r")
    read = [f'"{letter}"(v{number})' for number in sorted({*re.findall(r"%(\d)\b", instruction)} - {"0"})]
    text = re.sub(r"%(?=[A-Za-z_])", "%%", instruction)
    behind = f" : {', '.join(read)}" if read else ""
    return f', as in asm("{text}" : "={letter}"(v0){behind})'
