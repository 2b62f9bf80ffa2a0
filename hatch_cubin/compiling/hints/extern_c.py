"""Hints about headers that are included between the braces of `extern "C" { }`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .include_chain import Step

_REFUSED = re.compile(r'this declaration may not have extern "C" linkage|.* has "C" linkage$')
_BRACES = re.compile(r'extern\s*"C"\s*(?=\{)|[{}]')
_HINT = 'move the include above the block: templates and overloads cannot be extern "C"'


def enclosed(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report the include, instead of an error for each template and overload in the header."""
    for each in found:
        if each.where is not None and _REFUSED.match(each.text):
            for step in _enclosed(failed.include_chains.get(each.where.path, ()), failed):
                below = {path for path, way in failed.include_chains.items() if step in way}
                others = [other for other in found if not other.where or other.where.path not in below]
                what = f'{step.name!r} is included inside of extern "C" {{ }}'
                told = replace(each, where=step.where, text=what, context=(), hint=_HINT)
                return told.followed_by(len(found) - len(others) - 1), others
    return None


def _enclosed(way: Sequence[Step], failed: FailedCompile) -> Iterator[Step]:
    """Yield the project's includes that are in such a block, the outermost first."""
    for step in way:
        lines = without_comments(failed.text_of(step.where.path)).splitlines()
        if _is_in_block("\n".join(lines[: (step.where.line or 1) - 1])):
            yield step


def _is_in_block(before: str) -> bool:
    """Return whether a block with C linkage is open at the end of a text."""
    opened: list[bool] = []
    is_next = False
    for match in _BRACES.finditer(before):
        if match[0] == "}":
            del opened[-1:]
        elif match[0] == "{":
            opened.append(is_next)
        is_next = match[0] not in "{}"
    return any(opened)
