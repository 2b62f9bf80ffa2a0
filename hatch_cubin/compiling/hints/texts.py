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
)


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
    line = (text.splitlines() or [""])[: where.line][-1]
    if _CONFLICT.match(line):
        what = "has the marks of a merge that was not resolved"
        return Diagnostic(
            "error", where, what, (f"    {line}",), "keep one side of it, and none of the marks"
        )
    if match := _PLACEHOLDER.search(line):
        what = f"has a placeholder, {match[0]!r}: it is a template of sources and not one"
        hint = f"render it before the build, and leave it out: {setting.line('exclude', [where.path])}"
        return Diagnostic("error", where, what, (f"    {line}",), hint)
    return None
