"""Find lines with `__DATE__`, `__TIME__` or `__TIMESTAMP__`, which give different code at each compile.

A line is not found if another macro builds the name `__DATE__`, `__TIME__` or `__TIMESTAMP__` with the
operator `##`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .scan import TOKEN, join_continued_lines

_TIME_MACRO = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")


class TimeMacroUse(NamedTuple):
    """A line whose code depends on the time of the compile, and the macro that the line uses."""

    path: str
    line: int
    name: str


def time_macro_uses(texts: Mapping[str, str]) -> Iterator[TimeMacroUse]:
    """Yield lines that give different code at each compile; *texts* maps paths to the texts to search."""
    for path, text in texts.items():
        yield from (TimeMacroUse(path, line, name) for line, name in _uses(text))


@functools.lru_cache(maxsize=1024)  # cached, because variants of a source share the same texts
def _uses(text: str) -> tuple[tuple[int, str], ...]:
    """Return the number of each line that uses `__DATE__` or a similar macro, with the line's first macro."""
    code = TOKEN.sub(_line_ends, join_continued_lines(text.replace("\r\n", "\n")))
    names: dict[int, str] = {}
    line, before = 1, 0
    for match in _TIME_MACRO.finditer(code):
        line, before = line + code.count("\n", before, match.start()), match.start()
        names.setdefault(line, match[0])
    return tuple(names.items())


def _line_ends(match: re.Match[str]) -> str:
    """Replace a comment, string or number by its line ends, so that line numbers do not change."""
    return "\n" * match[0].count("\n") or " "
