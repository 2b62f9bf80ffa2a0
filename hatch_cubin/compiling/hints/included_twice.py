"""Hints about a header that is read twice, and about two headers of which only one is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_AGAIN = re.compile(
    r"has already been defined(?: \(previous definition at line (\d+)\))?|has already been declared in the"
    r"|^(?:invalid )?redefinition|redefinition of default argument|invalid redeclaration"
)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
_GUARD = re.compile(r"\s*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n\s*#[ \t]*define[ \t]+(\w+)\b")


def headers(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a header of the project without an include guard, or two headers with the same guard."""
    for each in found:
        if each.where is not None and each.where.path in failed.headers and _is_again(each):
            path = each.where.path
            others = [other for other in found if not (_is_in(path, other) and _AGAIN.search(other.text))]
            told = replace(each, text=f"the header is included twice: {each.text}", hint=_about(path, failed))
            return told.followed_by(len(found) - len(others) - 1), others
    return _hidden(found, failed)


def _is_again(error: Diagnostic) -> bool:
    """Return whether a line of a header is an error because the compiler has already read the same line."""
    match = _AGAIN.search(error.text)
    return match is not None and (
        match[1] is None or error.where is None or int(match[1]) == error.where.line
    )


def _is_in(path: str, error: Diagnostic) -> bool:
    return error.where is not None and error.where.path == path


def _about(path: str, failed: FailedCompile) -> str:
    guard = _GUARD.match(without_comments(failed.text_of(path)))
    if guard is not None and guard[1] != guard[2]:
        return f"its guard asks for {guard[1]} and defines {guard[2]}: write {guard[1]} in both lines"
    return f"write #pragma once as the first line of {path}"


def _hidden(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report two headers with the same guard, if one of them has the name that is missing."""
    texts = {path: failed.text_of(path) for path in failed.headers}
    for each in found:
        match = re.fullmatch(r'identifier "(\w+)" is undefined', each.text)
        for one, other, guard in _sharing(texts) if match and each.is_own else ():
            if match and re.search(rf"\b{match[1]}\b", without_comments(texts[one])):
                hint = (
                    f"{one} and {other} have the same guard, {guard}, so only the first of them is read: "
                    "give each a name of its own, or write #pragma once in place of it"
                )
                return replace(each, hint=hint), [left for left in found if left is not each]
    return None


def _sharing(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each pair of headers with the same guard, and the guard."""
    guards = {path: match[1] for path, text in texts.items() if (match := _guard(text)) is not None}
    for one, guard in guards.items():
        for other, same in guards.items():
            if one != other and guard == same:
                yield one, other, guard


def _guard(text: str) -> re.Match[str] | None:
    match = _GUARD.match(without_comments(text))
    return match if match and match[1] == match[2] and not _ONCE.search(text) else None
