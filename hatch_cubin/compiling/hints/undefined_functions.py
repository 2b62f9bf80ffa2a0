"""About functions that are declared and called, and whose bodies no part of the compile has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...config.toml_lines import setting as setting_line
from ...cubin.kernel_names import demangle
from ...errors import Location
from ...project.source import Source, without_comments
from ..definitions import definition
from ..diagnostics import Diagnostic, Told
from .failed_compile import Setting

_UNRESOLVED = re.compile(r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'")
_HINT = "every source is compiled by itself: include the file that defines it"
_HINT_FOR_PTX = "every source is assembled by itself: its text has to define what it calls"


def unresolved(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of the first such function, by its name in the source, with the line that declares it."""
    for each in found:
        if match := _UNRESOLVED.search(each.text):
            symbol, name = match[1], demangle(match[1])
            text = each.text if name == symbol else each.text.replace(f"'{symbol}'", f"'{name}' ({symbol})")
            hint = _HINT_FOR_PTX if setting.module.source.is_ptx else _at_definition(symbol, setting) or _HINT
            told = replace(each, text=text, where=_declaration(name, setting) or each.where, hint=hint)
            return told, [other for other in found if other is not each]
    return None


def _at_definition(symbol: str, setting: Setting) -> str | None:
    """Return the table that links a source with the one of the project that defines what it lacks."""
    for path, text in setting.sources.items():
        found = None if path == setting.path else definition(symbol, Source(path, text))
        if found is not None and not found.is_static:
            rule = {"name": setting.module.base, "sources": [setting.path, path], "mode": "lto"}
            lines = (setting_line(key, value) for key, value in rule.items())
            table = "".join(f"\n    {line}" for line in (setting.config.place.tables("module"), *lines))
            return f"{found.where} defines it, and this links the two:{table}"
    return None


def _declaration(name: str, setting: Setting) -> Location | None:
    """Return where a function is declared, or else called for the first time."""
    word = re.escape(re.sub(r"<.*", "", name).rpartition("::")[2])
    declared = rf"^[^\n;{{}}()=]{{,200}}[\w*&>][ \t*&]{{1,20}}{word}\s*\([^;{{}}]{{,2000}};"
    for pattern in (declared, rf"\b{word}\b"):
        for path in (setting.path, *setting.headers):
            text = without_comments(setting.text_of(path))
            if match := re.search(pattern, text, re.MULTILINE):
                return Location(path, text.count("\n", 0, match.end()) + 1)
    return None
