"""Errors that the compiler reports only because of an earlier mistake in the code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_SYNTAX = re.compile(r"expected an? ")
_UNDEFINED = re.compile(r'identifier "\w+" is undefined')
# If the type of a kernel's parameter is unknown, the compiler reads the kernel as a variable.
_READ_AS_VARIABLE = re.compile(r'attribute "__global__" does not apply here')
_END_OF_VARIABLE = re.compile(r'expected a ";"')


def of_syntax_error_in_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a header of the project has a syntax error, report this, and not the errors after it."""
    for index, each in enumerate(found):
        is_in_header = each.is_own and each.where is not None and each.where.path != failed.path
        if is_in_header and _SYNTAX.match(each.text):
            return each.followed_by(len(found) - index - 1), [*found[:index]]
    return None


def of_unknown_type(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """If the type of a kernel's parameter is unknown, report only this, and not the resulting errors."""
    begin = next((index for index, each in enumerate(found) if _READ_AS_VARIABLE.search(each.text)), None)
    if begin is None:
        return None
    after = range(begin + 1, len(found))
    end = next((index for index in after if _END_OF_VARIABLE.match(found[index].text)), begin)
    of_kernel = found[begin : end + 1]
    unknown = next((each for each in of_kernel if _UNDEFINED.match(each.text)), None)
    if unknown is None:
        return None
    return unknown.followed_by(len(of_kernel) - 1), [*found[:begin], *found[end + 1 :]]
