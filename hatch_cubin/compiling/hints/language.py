"""Hints for sources that need a later C++ standard, an option, or a feature that CUDA has removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_LATER = re.compile(
    r"\b(?:is|are) a C\+\+(20|23) feature|#error.*(?:requires|needs) (?:at least )?C\+\+ ?(\d\d)\b"
)
# Patterns of errors about features of C++20. Each pattern matches the message and the line of code, in which
# a "^" marks the position of the error.
_OF_CXX20 = re.compile(
    r"\^(?:requires\s*[\w({]|(?:concept|consteval|constinit|co_await|co_yield)\s+\w)"
    r'|"auto" is not allowed here\n.*[(,]\s*(?:const\s+)?\^auto\b[\s*&.]+\w'
    r'|"auto" is not allowed here\n\s*(?:const\s+)?\^auto\b[\s*&.]+\w+\s*[,)]'
    r"|expected an expression\n.*[{,]\s*\^\.\s*\w+\s*[={]"
    r"|argument list for variable template .*\n.*\btemplate\s*<(?:[^>]*,)?\s*\^[\w:]+\s+\w"
)
_NEEDS_FLAG = re.compile(r'only supported in Linux with the "--([a-z0-9-]+)" flag')
_LIMITS = (  # limits of GPUs that ptxas reports
    ("too much shared data", "use dynamic shared memory (extern __shared__), whose size the launch sets"),
    ("too much global constant data", "pass a pointer to device memory to the kernel"),
    ("Formal parameter space overflowed", "pass a pointer to device memory to the kernel"),
)
_UNQUOTED_C = re.compile(r"\bextern\s+C\b")
_REFERENCE = re.compile(r"(texture|surface) is not a template")


def needs_of_source(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report only that a C++ standard, option or feature is missing, and none of the resulting errors."""
    for each in found:
        if each.hint is None and (hint := _about(each, failed)) is not None:
            others = [other for other in found if each.is_own and not _follows(other, each)]
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def _follows(other: Diagnostic, error: Diagnostic) -> bool:
    return other.where == error.where or other.text.startswith("At end of source")


def _about(error: Diagnostic, failed: FailedCompile) -> str | None:
    if (standard := _standard(error, failed)) is not None:
        return f"to compile as C++{standard}:{failed.pasted('options', {'std': f'c++{standard}'})}"
    if match := _NEEDS_FLAG.search(error.text):
        return f"to allow this with an option:{failed.pasted('options', {match[1]: True})}"
    for limit, instead in _LIMITS:
        if limit in error.text:
            return instead
    if error.is_own and _UNQUOTED_C.search("".join(error.context[:1])):
        return 'write extern "C", with quotes'
    if match := _REFERENCE.search(error.text):
        instead = f"pass a cuda{match[1].title()}Object_t to the kernel instead"
        return f"CUDA 12 and later do not have {match[1]} references: {instead}"
    return None


def _standard(error: Diagnostic, failed: FailedCompile) -> str | None:
    """Return the C++ standard that the code in an error needs; None if the configured one is enough."""
    if match := _LATER.search(error.text):
        return match[1] or match[2]
    code, mark = (*error.context[:2], "", "")[:2]
    is_later = str(failed.module.options.get("std", ""))[-2:] in {"20", "23"}
    if not error.is_own or is_later or mark.strip() != "^":
        return None
    at = mark.index("^")
    return "20" if _OF_CXX20.search(f"{error.text}\n{code[:at]}^{code[at:]}") else None
