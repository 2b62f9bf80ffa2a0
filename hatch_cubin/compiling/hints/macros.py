"""Hints about macros that replace names by accident, in headers or in the source itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...config.toml_lines import setting
from ...errors import Location
from ...project.directives import DEFINE
from ...project.source import without_comments
from ..call_options import with_macros
from ..diagnostics import Diagnostic, Explanation, failure
from .failed_compile import FailedCompile

_OF_SYNTAX = re.compile(
    r"expected an? |.* is not allowed|invalid|.* requires an initializer|improperly terminated"
)
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXTRA = re.compile(r"[^(){};]*;")  # Matches a macro's value with an unnecessary semicolon at its end.
# Compiler messages about code that needs a string: `#include`, or a function such as printf.
_WANTS_STRING = re.compile(r"expected a file name|expected type \"(?:const )?char \*")
_BUILT_IN = "__nv_nvrtc_builtin_header.h"
# The most columns between a macro's name and the position of an error that the macro causes.
_FARTHEST = 2


def in_built_in_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If NVRTC's built-in header has errors, report the macro that replaces a name in this header."""
    beside = [each for each in found if each.where is not None and each.where.path == _BUILT_IN]
    if not beside or not failed.module.macros:
        return None
    given = {name.partition("(")[0] for name, _value in failed.module.macros}
    names = given.intersection(name for each in beside for name in _beside(each))
    names = names or {name for name in given if name.startswith("_")} or given
    what = f"NVRTC's own built-in header does not compile with {_listed(names, 'the macro')}"
    hint = f"remove {_listed(names, 'the macro')} from 'define'"
    return failure("reserved-macro", what, failed.place_of_macro(min(names)), hint, beside[0].context), []


def used_in_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a macro replaces a name in another package's header, report this in place of the header's errors."""
    for each in found:
        if not each.is_own and _OF_SYNTAX.match(each.text):
            macros = _macros(failed)
            for name in _beside(each):
                if name in macros:
                    what = f"the macro {name} replaces the name {name} in {each.where}"
                    hint = f"rename the macro, also in {failed.path}"
                    return failure("macro-replaces-name", what, macros[name][1], hint, each.context), []
    return None


def not_of_call(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro in `define` that a call of CuPy or cuda.core uses in its code, but does not get."""
    for each in found if failed.module.front else ():
        missing = _UNDEFINED.match(each.text)
        names = {missing[1]} if missing else {*_beside(each)}
        hint = with_macros(failed.config, failed.module.source, names) if each.is_own else None
        if hint is not None:
            others = [other for other in found if other.where != each.where]
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def beside_error(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If an error in the project's code is next to a macro, add a hint with the macro's value."""
    for each in found:
        missing = _UNDEFINED.match(each.text)
        if not each.is_own or each.hint is not None or not (missing or _OF_SYNTAX.match(each.text)):
            continue
        macros = _macros(failed)
        for name in (*_beside(each), *_broken(each, macros)):
            value, place = macros.get(name, (None, None))
            if value is not None and not (missing and missing[1] not in value):
                others = [other for other in found if other.where != each.where]
                told = replace(each, hint=_with_value(name, value, place, each.text))
                return told.followed_by(len(found) - len(others) - 1), others
    return None


def about_warning(warning: Diagnostic, failed: FailedCompile) -> str | None:
    """Return a hint with a macro's value if the warning is next to a macro that pyproject.toml defines."""
    values = {name.partition("(")[0]: value for name, value in failed.module.macros}
    found = (
        _with_value(name, values[name], failed.place_of_macro(name), warning.text)
        for name in _beside(warning)
        if name in values
    )
    return next(found, None)


def _with_value(name: str, value: str, place: Location | None, text: str) -> str:
    """Return a hint with the value of a macro; *text* is the error or warning that the hint is for."""
    fix = ""
    if value.startswith("=") or value.endswith(";"):
        fix = ": a macro's value needs neither '=' nor ';'"
    elif _WANTS_STRING.search(text) or _UNDEFINED.match(text):
        is_toml = place is not None and place.path.endswith(".toml")
        if not is_toml or value.startswith('"'):
            return f"{name} is a macro, defined as {value!r} ({place})"
        fix = f"; for a string, write: {setting(name, json.dumps(value))}"
    return f"{name} is a macro, defined as {value!r} ({place}){fix}"


def _listed(names: Collection[str], kind: str) -> str:
    return f"{kind}{'s' * (len(names) > 1)} {', '.join(sorted(names))}"


def _macros(failed: FailedCompile) -> Mapping[str, tuple[str, Location]]:
    """Return the value and location of each macro that has exactly one definition in settings and code."""
    found = [(name, value, failed.place_of_macro(name)) for name, value in failed.module.macros]
    for path in dict.fromkeys((failed.path, *failed.headers)):
        text = without_comments(failed.text_of(path))
        for match in DEFINE.finditer(text):
            place = Location(path, text.count("\n", 0, match.start(1)) + 1)
            found.append((match[1], match[2].strip(), place))
    times = Counter(name for name, _value, _place in found)
    return {name: (value, place) for name, value, place in found if times[name] == 1}


def _broken(error: Diagnostic, macros: Mapping[str, tuple[str, Location]]) -> Iterator[str]:
    """Yield the macros in an error's line whose values have quotes, an extra semicolon or an open bracket."""
    for name in _NAME.findall("".join(error.context[:1])):
        value = macros[name][0] if name in macros else ""
        if (
            value.startswith('"')
            or _EXTRA.fullmatch(value)
            or any(value.count(one) != value.count(other) for one, other in ("()", "[]"))
        ):
            yield name


def _beside(error: Diagnostic) -> Iterator[str]:
    """Yield the names at the position of an error, or directly before the position."""
    code, mark = (*error.context, "", "")[:2]
    for word in _NAME.finditer(code) if mark.strip() == "^" else ():
        if word.start() <= mark.index("^") <= word.end() + _FARTHEST:
            yield word[0]
