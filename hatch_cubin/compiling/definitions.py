"""Find the line of a source that defines or mentions a symbol, by the symbol's name without namespaces."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..cubin import kernel_names
from ..errors import Location
from ..project.source import Source, without_comments

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
        rf"(?:^|[;{{}}])(?![^\n;]*\bextern\b)[^\n;{{}}()=#]*__(?:device|constant|managed)__[^\n;{{}}()=]*\b{word}\b\s*[=;\[{{]",
        rf"^\s*\.(?:visible|weak)\s[^\n;]*[ \t]{re.escape(symbol)}\b",
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            line = text.count("\n", 0, match.end()) + 1
            before = text[: match.start()].rstrip().rpartition("\n")[2]
            # Matches `template <…>` in the line before the definition.
            head = before if before.endswith(">") else ""
            shown = " ".join(f"{head} {match[0]}".split()).strip(";}{= ")
            return Definition(Location(source.path, line), shown)
    return None


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
