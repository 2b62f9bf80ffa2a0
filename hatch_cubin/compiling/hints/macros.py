"""About macros that change code which was not written for them: that of headers, or the source's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import Location
from ...sources.source import without_comments
from ..diagnostics import Diagnostic, Told
from .setting import Setting

_OF_SYNTAX = re.compile(r"expected an? |.* is not allowed|invalid|.* requires an initializer")
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_FARTHEST = 2  # columns from a macro to where the compiler notices what is wrong


def taken(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of a macro that headers of others have as a name: all else that is said follows from it."""
    for each in found:
        if not each.is_own and _OF_SYNTAX.match(each.text):
            places = _places(setting)
            for name in _beside(each):
                if name in places:
                    what = f"the macro {name} takes the place of another {name}, in {each.where}"
                    hint = f"give the macro a name that nothing else has, in {setting.path} too"
                    return Diagnostic("error", places[name], what, each.context, hint), []
    return None


def stands(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell what a macro of the table stands for, where the project's own code fails beside it."""
    variant = dict(setting.module.variant)
    for each in found:
        missing = _UNDEFINED.match(each.text)
        if not each.is_own or each.hint is not None or not (missing or _OF_SYNTAX.match(each.text)):
            continue
        for name in _beside(each):
            value = dict(setting.module.macros).get(name)
            if value is not None and not (missing and missing[1] not in value):
                meaning = "of the variant" if name in variant else f"and stands for {value!r}"
                hint = f"{name} is a macro {meaning} ({setting.place_of_macro(name)})"
                return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _places(setting: Setting) -> Mapping[str, Location]:
    """Return where each macro is defined: by the table, or by the project's files."""
    places = {name: setting.place_of_macro(name) for name, _value in setting.module.macros}
    for path in (setting.path, *setting.headers):
        text = without_comments(setting.text_of(path))
        for match in _DEFINED.finditer(text):
            places.setdefault(match[1], Location(path, text.count("\n", 0, match.start(1)) + 1))
    return places


def _beside(error: Diagnostic) -> Iterator[str]:
    """Yield the names at the place that an error shows, or right before it."""
    code, mark = (*error.context, "", "")[:2]
    for word in _NAME.finditer(code) if mark.strip() == "^" else ():
        if word.start() <= mark.index("^") <= word.end() + _FARTHEST:
            yield word[0]
