"""Find the lines whose result depends on the time of the compile: uses of `__DATE__` and `__TIME__`.

Names that macros paste together with `##` are not found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .scan import TOKEN, join_continued_lines

_TIME_MACRO = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")


class TimeMacroUse(NamedTuple):
    """A line that depends on the time of its compile, and the name that makes it so."""

    path: str
    line: int
    name: str


def time_macro_uses(texts: Mapping[str, str]) -> Iterator[TimeMacroUse]:
    """Yield the lines of *texts* that make each compile differ. The texts are given by their paths."""
    for path, text in texts.items():
        yield from (TimeMacroUse(path, line, name) for line, name in _uses(text))


@functools.lru_cache(maxsize=1024)  # variants have their texts in common
def _uses(text: str) -> tuple[tuple[int, str], ...]:
    """Return the first use on each line, by the line's number."""
    code = TOKEN.sub(_line_ends, join_continued_lines(text.replace("\r\n", "\n")))
    names: dict[int, str] = {}
    line, before = 1, 0
    for match in _TIME_MACRO.finditer(code):
        line, before = line + code.count("\n", before, match.start()), match.start()
        names.setdefault(line, match[0])
    return tuple(names.items())


def _line_ends(match: re.Match[str]) -> str:
    """Return only the line ends of a comment, a string or a number, to keep the line numbers."""
    return "\n" * match[0].count("\n") or " "
