"""About files that are no sources: what stands in for one, or what one is made from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import Location
from ...sources.source import LFS_HINT, is_lfs_pointer
from ..diagnostics import Diagnostic, Told
from .setting import Setting

_CONFLICT = re.compile(r"(?:<{7}|\|{7}|={7}|>{7})(?:\s|$)")
_PLACEHOLDER = re.compile(
    r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}(?=\s*[\w*&(\]<])|<%.*?%>|(?<!\w)@[A-Za-z_]\w*@|\$\{\w[^}]*\}"
    r"|%\(\w+\)[a-z]"
)
# What a text in quotes may have.
_BARE_PLACEHOLDER = re.compile(r"(?<![\w$])\$[A-Za-z_]\w*|(?<=void )\{\w+\}(?=\s*\()")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_ANNEX = re.compile(r"\s*[\w./\\-]*annex[/\\]objects[/\\]\S+\s*$")
_PAGE = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_DEFINED = re.compile(r"\s*#\s*define\s+(\w+)")


def spoiled(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of a file that is no source at all, in place of what a compiler makes of it."""
    for each in found:
        if each.is_own and each.where is not None and each.where.line is not None:
            text = setting.text_of(each.where.path)
            if (wrong := _what_is_wrong(text, each.where, setting)) is not None:
                return wrong, []
    return None


def _what_is_wrong(text: str, where: Location, setting: Setting) -> Diagnostic | None:
    if is_lfs_pointer(text):
        return Diagnostic("error", Location(where.path, 1), "is no source", hint=LFS_HINT)
    if (hint := _instead(text)) is not None:
        return Diagnostic("error", Location(where.path, 1), "is no source", hint=hint)
    line = (text.splitlines() or [""])[: where.line][-1]
    if _CONFLICT.match(line):
        what = "has the marks of a merge that was not resolved"
        return Diagnostic(
            "error", where, what, (f"    {line}",), "keep one side of it, and none of the marks"
        )
    for number, each in [(where.line, line), *_definitions(text, line)]:
        if match := _PLACEHOLDER.search(each) or _BARE_PLACEHOLDER.search(_QUOTED.sub('""', each)):
            what = f"has a placeholder, {match[0]!r}: it is a template of sources and not one"
            hint = f"render it before the build, and leave it out: {setting.line('exclude', [where.path])}"
            return Diagnostic("error", Location(where.path, number), what, (f"    {each}",), hint)
    return None


def _instead(text: str) -> str | None:
    """Return what to do about a file that was fetched, or not, as something else."""
    if _ANNEX.match(text):
        return "it is a pointer of git-annex: git annex get brings the file"
    if _PAGE.match(text):
        return "it is a page of HTML, as servers send it in place of a file: fetch it again"
    return None


def _definitions(text: str, line: str) -> list[tuple[int, str]]:
    """Return the lines, with their numbers, that define the macros which a line uses."""
    words = {*re.findall(r"\w+", line)}
    lines = enumerate(text.splitlines(), start=1)
    return [(number, each) for number, each in lines if (match := _DEFINED.match(each)) and match[1] in words]
