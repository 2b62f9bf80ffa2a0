"""Hints about macros that replace names by accident, in headers or in the source itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation, failure
from .failed_compile import FailedCompile

_OF_SYNTAX = re.compile(r"expected an? |.* is not allowed|invalid|.* requires an initializer")
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_BUILT_IN = "__nv_nvrtc_builtin_header.h"
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_NO_TYPES = "return|case|goto|else|sizeof|new|delete|throw|not|and|or|typedef|inline|constexpr"
_TYPES = (
    r"float\w*|double\w*|int\w*|unsigned|signed|char|short|long|bool|void|auto|half2?|size_t|\w+_t|[A-Z]\w*"
)
_FARTHEST = 2  # columns between a macro and the reported position of the error


def in_built_in_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro whose name NVRTC's own header uses: only a macro can cause errors in that header."""
    beside = [each for each in found if each.where is not None and each.where.path == _BUILT_IN]
    if not beside or not failed.module.macros:
        return None
    given = {name.partition("(")[0] for name, _value in failed.module.macros}
    names = given.intersection(name for each in beside for name in _beside(each))
    names = names or {name for name in given if name.startswith("_")} or given
    what = f"NVRTC's own built-in header does not compile with {_listed(names, 'the macro')}"
    hint = f"leave {'it' if len(names) == 1 else 'them'} out of 'define'"
    return failure("reserved-macro", what, failed.place_of_macro(min(names)), hint, beside[0].context), []


def used_in_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro whose name an outside header uses: all other errors follow from it."""
    for each in found:
        if not each.is_own and _OF_SYNTAX.match(each.text):
            places = _places(failed)
            for name in _beside(each):
                if name in places:
                    what = f"the macro {name} takes the place of another {name}, in {each.where}"
                    hint = f"give the macro a name that nothing else has, in {failed.path} too"
                    return failure("macro-replaces-name", what, places[name], hint, each.context), []
    return None


def declared_in_project(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro of the table that replaces a name which the project's own code declares."""
    failing = {each.where: each for each in found if each.is_own}
    for name, _value in failed.module.macros:
        for where in _declarations(name, failed):
            if (error := failing.get(where)) is not None:
                what = f"the macro {name} takes the place of another {name}, in {where}"
                key = "variants" if name in dict(failed.module.variant) else "define"
                hint = f"leave {name} out of '{key}', or give the macro a name that nothing else has"
                place = failed.place_of_macro(name)
                told = failure("macro-replaces-name", what, place, hint, error.context)
                return told, [each for each in found if each is not error and not _mentions(name, each)]
    return None


def beside_error(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report the value of a macro of the table, if the project's own code fails next to that macro."""
    variant = dict(failed.module.variant)
    for each in found:
        missing = _UNDEFINED.match(each.text)
        if not each.is_own or each.hint is not None or not (missing or _OF_SYNTAX.match(each.text)):
            continue
        for name in _beside(each):
            value = dict(failed.module.macros).get(name)
            if value is not None and not (missing and missing[1] not in value):
                meaning = "of the variant" if name in variant else f"and stands for {value!r}"
                hint = f"{name} is a macro {meaning} ({failed.place_of_macro(name)})"
                others = [other for other in found if other is not each and not _mentions(name, other)]
                return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def ended(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro of the project whose value ends with a semicolon, if code fails next to that macro."""
    for each in found if any(_OF_SYNTAX.match(each.text) for each in found) else ():
        for name in _beside(each) if each.is_own and each.hint is None else ():
            define = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b[^\n]*;[ \t]*$", re.MULTILINE)
            for path in (failed.path, *failed.headers):
                text = without_comments(failed.text_of(path))
                if match := define.search(text):
                    place = Location(path, text.count("\n", 0, match.end()) + 1)
                    others = [other for other in found if other.where != each.where]
                    told = replace(each, hint=f"leave out the ; at the end of the macro {name} ({place})")
                    return told.followed_by(len(found) - len(others) - 1), others
    return None


def _declarations(name: str, failed: FailedCompile) -> Iterator[Location]:
    """Yield the locations at which the project's own code declares that name."""
    word = re.escape(name)
    declares = re.compile(
        rf"\b(?:struct|class|union|enum|namespace|using|typename|concept)\s+{word}\b(?!\s*::)"
        rf"|\b(?!(?:{_NO_TYPES})\b)[A-Za-z_]\w*(?:\s*<[^<>;{{}}]*>)?\s+{word}\s*(?=[;,=)(\[{{:>]|$)"
        rf"|\b(?:{_TYPES})\s*[*&]+\s*(?:(?:const|__restrict__|__restrict|\.\.\.)\s*)*{word}\s*(?=[;,=)(\[])"
        rf"|\benum\b[^;{{}}()]*\{{(?:[^{{}}]*[,\s])?{word}\s*[,=}}]",
        re.MULTILINE,
    )
    for path in (failed.path, *failed.headers):
        text = without_comments(failed.text_of(path))
        code = _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        for match in declares.finditer(code):
            at = code.rindex(name, match.start(), match.end())
            yield Location(path, code.count("\n", 0, at) + 1)


def _mentions(name: str, error: Diagnostic) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", line) for line in error.context)


def _listed(names: Collection[str], kind: str) -> str:
    return f"{kind}{'s' * (len(names) > 1)} {', '.join(sorted(names))}"


def _places(failed: FailedCompile) -> Mapping[str, Location]:
    """Return the location of each macro's definition, in the table or in the project's files."""
    places = {name: failed.place_of_macro(name) for name, _value in failed.module.macros}
    for path in (failed.path, *failed.headers):
        text = without_comments(failed.text_of(path))
        for match in _DEFINED.finditer(text):
            places.setdefault(match[1], Location(path, text.count("\n", 0, match.start(1)) + 1))
    return places


def _beside(error: Diagnostic) -> Iterator[str]:
    """Yield the names at the position that an error points at, or right before it."""
    code, mark = (*error.context, "", "")[:2]
    for word in _NAME.finditer(code) if mark.strip() == "^" else ():
        if word.start() <= mark.index("^") <= word.end() + _FARTHEST:
            yield word[0]
