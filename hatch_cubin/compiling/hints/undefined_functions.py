"""Hints about functions that a source calls but does not define."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...cubin.kernel_names import demangle
from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import OF_ITS_OWN, Diagnostic, Explanation
from .failed_compile import FailedCompile
from .other_sources import defined_elsewhere, is_for_others, linked

_UNRESOLVED = re.compile(r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'")
_UNDECLARED = re.compile(r'identifier "(\w+)" is undefined')
_HINT = "every source is compiled by itself: include the file that defines it"
_HINT_FOR_PTX = "every source is assembled by itself: its text has to define what it calls"


def unresolved(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report the first function without a body, by its name in the source, at the line that declares it."""
    for each in found:
        if match := _UNRESOLVED.search(each.text):
            symbol, name = match[1], demangle(match[1])
            text = each.text if name == symbol else each.text.replace(f"'{symbol}'", f"'{name}' ({symbol})")
            hint = _HINT_FOR_PTX if failed.module.source.is_ptx else at_definition(symbol, failed) or _HINT
            told = replace(each, text=text, where=_declaration(name, failed) or each.where, hint=hint)
            return told, [other for other in found if other is not each]
    return None


def undeclared(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a function that this source does not declare and another source of the project defines."""
    for each in found:
        match = _UNDECLARED.fullmatch(each.text)
        if match is None or not each.is_own or each.hint is not None:
            continue
        hint = at_definition(match[1], failed, is_declared=False)
        if hint is not None:
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def about_extern(warning: Diagnostic, failed: FailedCompile) -> str | None:
    """Return how to use a variable that another source defines, for a warning that this is a separate one."""
    name = OF_ITS_OWN.match(warning.text)
    return at_definition(name[1], failed) if name and not failed.module.part_of else None


def at_definition(symbol: str, failed: FailedCompile, *, is_declared: bool = True) -> str | None:
    """Return how to use a function that another source defines: link the source, or move it into a header."""
    elsewhere = defined_elsewhere(symbol, failed)
    if elsewhere is None or not (is_declared or "(" in elsewhere[1].text):
        return None
    path, found = elsewhere
    if not is_for_others(found, failed.sources[path]):
        return f"{found.where} defines it for that source alone: move it into a header that both include"
    table = linked(failed.module.base, [failed.path, path], failed)
    if is_declared:
        return f"{found.where} defines it, and this links the two:{table}"
    declaration = f"{found.text};"
    return f"{found.where} defines it: declare it here, {declaration!r}, and link the two:{table}"


def _declaration(name: str, failed: FailedCompile) -> Location | None:
    """Return the location of a function's declaration, or else of its first call."""
    word = re.escape(re.sub(r"<.*", "", name).rpartition("::")[2])
    declared = rf"^[^\n;{{}}()=]{{,200}}[\w*&>][ \t*&]{{1,20}}{word}\s*\([^;{{}}]{{,2000}};"
    for pattern in (declared, rf"\b{word}\b"):
        for path in (failed.path, *failed.headers):
            text = without_comments(failed.text_of(path))
            if match := re.search(pattern, text, re.MULTILINE):
                return Location(path, text.count("\n", 0, match.end()) + 1)
    return None
