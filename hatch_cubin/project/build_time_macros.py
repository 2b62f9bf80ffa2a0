"""Find the lines whose result depends on the time of the compile: uses of `__DATE__` and `__TIME__`. Pure.

Macros can paste such a name together with `##`. A line is reported if the words that its macros can reach
can make such a name together.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from .scan import IDENTIFIER, PASTE_OPERATOR, TOKEN, join_continued_lines

_TIME_MACROS = ("__DATE__", "__TIME__", "__TIMESTAMP__")
_NAME_PARTS = frozenset(
    name[start:end]
    for name in _TIME_MACROS
    for start in range(len(name))
    for end in range(start + 1, len(name) + 1)
)
_PLAIN = re.compile(rf"\b(?:{'|'.join(_TIME_MACROS)})\b")
_DEFINE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*define[ \t]+([^\W\d]\w*)(?:\(([^()\n]*)\))?([^\n]*)", re.MULTILINE
)
_CALL = re.compile(r"\b([^\W\d]\w*)\s*(?=\()")
_SIMPLE_ARGUMENTS = re.compile(r"\([\w\s,]*\)")
_PARENTHESIS = re.compile(r"[()]")
_LONGEST_CALL = 10_000


class TimeMacroUse(NamedTuple):
    """A line that depends on the time of its compile, and the name that makes it so."""

    path: str
    line: int
    name: str
    is_literal: bool  # the name is written on the line; otherwise macros make it


class _Macro(NamedTuple):
    name: str
    line: int
    words: frozenset[str]  # of its value, without its parameters
    pastes: bool


class _Text(NamedTuple):
    code: str  # without comments, strings and definitions
    macros: Sequence[_Macro]


def time_macro_uses(texts: Mapping[str, str]) -> Iterator[TimeMacroUse]:
    """Yield the lines of *texts* that make each compile differ.

    The texts are given by their paths. A macro that one of them defines can be used in all of them.
    """
    read = {path: _read(text) for path, text in texts.items()}
    macros = _Macros(macro for each in read.values() for macro in each.macros)
    for path, each in read.items():
        found = {
            line: TimeMacroUse(path, line, name, is_plain)
            for line, name, is_plain in _lines_with_times(each, macros)
        }
        yield from (found[line] for line in sorted(found))


@functools.lru_cache(maxsize=1024)  # variants have their texts in common
def _read(text: str) -> _Text:
    macros: list[_Macro] = []
    line, before = 1, 0

    def define(match: re.Match[str]) -> str:
        nonlocal line, before
        line, before = line + code.count("\n", before, match.start()), match.start()
        name, parameters, value = match.groups()
        words = frozenset(IDENTIFIER.findall(value)) - {*IDENTIFIER.findall(parameters or "")}
        macros.append(_Macro(name, line, words, PASTE_OPERATOR.search(value) is not None))
        return ""

    code = TOKEN.sub(_lines_of, join_continued_lines(text.replace("\r\n", "\n")))
    return _Text(_DEFINE.sub(define, code), macros)


def _lines_of(match: re.Match[str]) -> str:
    """Return only the line ends of a comment, a string or a number, to keep the line numbers."""
    return "\n" * match[0].count("\n") or " "


def _lines_with_times(text: _Text, macros: _Macros) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines that use a time macro, the macro's name, and whether the name is written there."""
    for macro in text.macros:
        if (name := macros.time_name(macro.words, pastes=macro.pastes, except_for=macro.name)) is not None:
            yield macro.line, name, name in macro.words
    for call in _CALL.finditer(text.code):
        is_known = call[1] in macros
        if inside := (_arguments if is_known else _simple_arguments)(text.code, call.end()):
            # An unknown macro, of a header outside the project, may paste its arguments.
            name = macros.time_name({call[1], *IDENTIFIER.findall(inside)}, pastes=not is_known)
            if name is not None:
                yield text.code.count("\n", 0, call.start()) + 1, name, False
    for match in _PLAIN.finditer(text.code):
        yield text.code.count("\n", 0, match.start()) + 1, match[0], True


def _arguments(code: str, start: int) -> str:
    """Return the arguments of a call whose parenthesis is at *start*, with both parentheses."""
    depth = 0
    for match in _PARENTHESIS.finditer(code, start, start + _LONGEST_CALL):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return code[start : match.end()]
    return ""


def _simple_arguments(code: str, start: int) -> str:
    match = _SIMPLE_ARGUMENTS.match(code, start)
    return match[0] if match and "_" in match[0] else ""  # the name of each time macro begins with it


class _Macros:
    """The macros of all texts, to find which names the words of a line can expand to."""

    def __init__(self, macros: Iterable[_Macro]) -> None:
        self._by_name: dict[str, list[_Macro]] = {}  # each may be defined in several ways
        for macro in macros:
            self._by_name.setdefault(macro.name, []).append(macro)
        self._reached: dict[str, tuple[AbstractSet[str], bool]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def time_name(self, words: AbstractSet[str], *, pastes: bool, except_for: str = "") -> str | None:
        """Return the time macro that *words* together expand to.

        None if one of the words, other than *except_for*, expands to it alone: then the definition of
        this word is reported.
        """
        parts = words & _NAME_PARTS
        for word in (word for word in words if word in self._by_name and word != except_for):
            reached, pasted = self._reach(word)
            if _composed_name(reached, pastes=pasted):
                return None
            parts, pastes = parts | reached, pastes or pasted
        return _composed_name(parts, pastes=pastes)

    def _reach(self, name: str) -> tuple[AbstractSet[str], bool]:
        """Return the parts of time macros' names in a macro's expansion, and whether the expansion pastes."""
        if name not in self._reached:
            seen, pending, pastes = {name}, [name], False
            while pending:
                for macro in self._by_name.get(pending.pop(), ()):
                    pastes |= macro.pastes
                    pending += macro.words - seen
                    seen |= macro.words
            self._reached[name] = seen & _NAME_PARTS, pastes
        return self._reached[name]


def _composed_name(parts: AbstractSet[str], *, pastes: bool) -> str | None:
    """Return the time macro whose name is one of *parts*, or can be pasted together from them."""
    return next(
        (name for name in _TIME_MACROS if name in parts or (pastes and _is_made_of(parts, name))), None
    )


def _is_made_of(parts: AbstractSet[str], name: str) -> bool:
    if not any(map(name.startswith, parts)):  # true of nearly every line
        return False
    starts = {""}
    for start in (name[:end] for end in range(1, len(name) + 1)):
        starts |= {start} & {before + part for before in starts for part in parts}
    return name in starts
