"""Errors that the compiler reports only because of an earlier mistake in the code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

# After these errors, the compiler reads the lines behind a header as a part of the header's last declaration.
_UNFINISHED = re.compile(r'expected a (?:"[;})]"|declaration)')
_OF_DECLARATION = re.compile(
    r"expected |linkage specification|space annotations|does not apply here|incomplete type|declaration"
)
_NOT_SHOWN = "errors that follow from this error are not shown"
_UNDEFINED = re.compile(r'identifier "\w+" is undefined')
# If the type of a kernel's parameter is unknown, the compiler reads the kernel as a variable.
_READ_AS_VARIABLE = re.compile(r'attribute "__global__" does not apply here')
_END_OF_DECLARATOR = re.compile("[{;]")


def of_unfinished_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a header of the project ends inside a declaration, leave out what follows in the source."""
    for index, each in enumerate(found):
        is_in_header = each.is_own and each.where is not None and each.where.path != failed.path
        if is_in_header and _UNFINISHED.match(each.text):
            following = [other for other in found[index + 1 :] if _follows_header(other, failed)]
            # a line without a number, so that the error is equal in all sources that include the header
            told = replace(each, context=(*each.context, _NOT_SHOWN)) if following else each
            others = [other for other in found if other is not each and other not in following]
            return told, others
    return None


def _follows_header(error: Diagnostic, failed: FailedCompile) -> bool:
    is_in_source = error.where is not None and error.where.path == failed.path
    return is_in_source and _OF_DECLARATION.search(error.text) is not None


def of_unknown_type(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If the type of a kernel's parameter is unknown, leave out the other errors in its declaration."""
    for each in found:
        if not _READ_AS_VARIABLE.search(each.text) or each.where is None or each.where.line is None:
            continue
        path, lines = each.where.path, _lines_of_declarator(failed.text_of(each.where.path), each.where.line)
        of_kernel = [one for one in found if one.where and one.where.path == path and one.where.line in lines]
        unknown = next((one for one in of_kernel if _UNDEFINED.match(one.text)), None)
        if unknown is not None:
            others = [one for one in found if one not in of_kernel]
            return unknown.followed_by(len(of_kernel) - 1), others
    return None


def _lines_of_declarator(text: str, first: int) -> range:
    """Return the numbers of the lines from *first* to the line where the parameters of a kernel end."""
    after = enumerate(text.splitlines()[first - 1 :], first)
    last = next((number for number, line in after if _END_OF_DECLARATOR.search(line)), first)
    return range(first, last + 1)
