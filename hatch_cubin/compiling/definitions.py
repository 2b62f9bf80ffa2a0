"""Find the line of a source that defines or mentions a symbol, by the symbol's name without namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..cubin import kernel_names
from ..errors import Location
from ..project.source import Source, without_comments

# The longest declaration to read, in characters. Longer texts would be slow.
_LONGEST = 400
# Matches a part of a declaration. Only alignments and attributes may have parentheses.
_ATTRIBUTE = r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\)){0,99}\)"
PART = rf"(?:{_ATTRIBUTE}|[^;{{}}()=#])"
# Matches a declaration of variables, up to the first value or the end. A number in parentheses is a value.
_VARIABLE = re.compile(
    rf"__(?:device|constant|managed)__{PART}{{0,{_LONGEST}}}(?:\[\([^;{{}}=]*)?(?P<end>[;={{]|\(\s*[-+.\d])"
)
_BEFORE = re.compile(r"#[^\n]*|[;{}]")
_PRIVATE = ("static", "template", "inline", "__forceinline__", "constexpr")


class Definition(NamedTuple):
    """The definition of a function or variable: the file and line, and the text of the line."""

    where: Location
    text: str

    @property
    def why_private(self) -> str | None:
        """The keyword (such as `static`) that hides the definition from other sources, or None."""
        return next((word for word in _PRIVATE if re.search(rf"\b{word}\b", self.text)), None)


def base_of(symbol: str) -> str:
    """Return the name of a function or variable without namespaces and template arguments."""
    return re.sub(r"<.*", "", kernel_names.demangle(symbol)).rpartition("::")[2]


def word_of(symbol: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(base_of(symbol))}\b")


def plain_text(source: Source) -> str:
    return without_comments(source.text)


def definition(symbol: str, source: Source) -> Definition | None:
    """Return the definition of a function or variable with the name of *symbol*, in any namespace."""
    word, text = re.escape(base_of(symbol)), plain_text(source)
    for pattern in (
        rf"(?:^|[;{{}}])[^\n;{{}}()=#]*[\w*&>][ \t*&]+(?:\w+::)*{word}\s*\([^;{{}}]*\)\s*(?:const\s*)?\{{",
        rf"^\s*\.(?:visible|weak)\s[^\n;]*[ \t]{re.escape(symbol)}\b",
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            return _at(match.start(), match.end(), text, source)
    places = (place for place in _declarations(text) if base_of(symbol) in _names_in(text[slice(*place)]))
    return next((_at(*place, text, source) for place in places), None)


def _at(start: int, end: int, text: str, source: Source) -> Definition:
    line = text.count("\n", 0, end) + 1
    before = text[:start].rstrip().rpartition("\n")[2]
    # Matches `template <…>` in the line before the definition.
    head = before if before.endswith(">") else ""
    shown = " ".join(f"{head} {text[start:end]}".split()).strip(";}{= ")
    return Definition(Location(source.path, line), shown)


def defined_variables(text: str) -> Iterator[str]:
    """Yield the names of the variables in device memory that *text* defines; *text* has no comments."""
    for start, end in _declarations(text):
        yield from _names_in(text[start:end])


def _declarations(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each declaration of variables in device memory.

    In `__device__ int a = 1;`, the end is the place after the `=`, because the value defines no names.
    """
    for match in _VARIABLE.finditer(text):
        first = max(0, match.start() - _LONGEST)
        ends = [first, *(each.end() for each in _BEFORE.finditer(text, first, match.start()))]
        yield ends[-1], match.end()


def _names_in(declaration: str) -> Iterator[str]:
    """Yield the names that a declaration of variables defines. `extern` without a value defines no name."""
    if declaration[-1] in "={" or not re.search(r"\bextern\b", declaration):
        bare = re.sub(rf"{_ATTRIBUTE}|<[^<>]*>|\[[^\]]*\]?|\(.*|[;={{]$", "", declaration)
        for declarator in bare.split(","):
            yield from re.findall(r"(\w+)\s*$", declarator)


def mention(symbol: str, source: Source) -> Location | None:
    """Return the line of a source that defines a symbol, or else the first line that mentions the symbol."""
    if (found := definition(symbol, source)) is not None:
        return found.where
    word, text = re.escape(base_of(symbol)), plain_text(source)
    for pattern in (
        rf"\bextern\b[^;{{}}]*?\b({word})\b",
        rf"(?:^|[;{{}}])[^;{{}}()=#]*[\w*&>]\s[\s*&]*({word})\s*\([^;{{}}]*;",
        rf"\b({word})\b",
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            return Location(source.path, text.count("\n", 0, match.start(1)) + 1)
    return None
