"""Hints about features of C++ and PTX that CUDA no longer supports, or does not support yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_REFERENCE = re.compile(r"(texture|surface) is not a template")
_UNSYNCED = re.compile(
    r'identifier "__shfl(?:_up|_down|_xor)?" is undefined|Instruction \'vote\' without \'\.sync\''
)
_SYNCED = "since CUDA 9, such calls begin with the mask of the lanes that take part: "
# The assembler's messages about a whole text, the directive that each is about, and the hint.
_OF_PTX = (
    (
        re.compile(r"requires PTX ISA \.version 3\.1 or later"),
        ".version",
        "write .version 3.1 with .address_size 64, where its code allows that, or generate it anew",
    ),
    (
        re.compile(r"32-Bit ABI"),
        ".address_size",
        "no arch from sm_90 on has 32-bit addresses: generate it anew, for 64-bit ones",
    ),
    (
        re.compile(r"Deprecated feature: '\.tex' not supported"),
        ".tex",
        "PTX 1.5 and later declare a texture as .global .texref: generate it anew",
    ),
    (
        re.compile(r"Unsupported \.version"),
        ".version",
        "a newer compiler wrote it: where there is a toolkit of that release, 'toolkit' names it",
    ),
)


def references(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """Report a texture or surface reference, instead of the errors in all code that uses it."""
    for each in found:
        if match := _REFERENCE.search(each.text):
            instead = f"pass the kernel a cuda{match[1].title()}Object_t"
            hint = f"CUDA 12 and later have no {match[1]} references: {instead}"
            return replace(each, hint=hint).followed_by(len(found) - 1), []
    return None


def unsynced(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """Report a warp-level call without a mask of the lanes that take part."""
    for each in found:
        if _UNSYNCED.search(each.text):
            called = re.search(r"__shfl\w*", each.text)
            vote = "__any_sync, __all_sync or __ballot_sync"
            hint = _SYNCED + (f"{called[0]}_sync(0xffffffff, …)" if called else vote)
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def outdated(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report PTX that is too old or too new for the assembler, at the directive that shows this."""
    for each in found if failed.module.source.is_ptx else ():
        for pattern, directive, hint in _OF_PTX:
            if pattern.search(each.text):
                where = each.where if each.where and each.where.line else _place_of(directive, failed)
                return replace(each, where=where, hint=hint), [other for other in found if other is not each]
    return None


def _place_of(directive: str, failed: FailedCompile) -> Location:
    """Return the location of a directive, or else of `.target`, which every PTX text has."""
    text = without_comments(failed.module.source.text)
    for each in (directive, ".target"):
        if match := re.search(rf"^[^\S\n]*{re.escape(each)}\b", text, re.MULTILINE):
            return Location(failed.path, text.count("\n", 0, match.start()) + 1)
    return Location(failed.path)
