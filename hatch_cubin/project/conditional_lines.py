"""Read the preprocessor conditions around lines, to find lines that the compiler certainly reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from .source import without_comments

# the macros that NVRTC defines in every compile
DEFINED_BY_NVRTC = frozenset({"__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__", "__cplusplus"})
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif|define)\b(.*)")
_ONE_MACRO = re.compile(r"(?:defined[ \t]*\(?[ \t]*)?([^\W\d]\w*)[ \t]*\)?")
_NOT_DEFINED = re.compile(r"(?:ifndef|if[ \t]+![ \t]*defined)[ \t]*\(?[ \t]*(\w+)[ \t]*\)?")


class Condition(NamedTuple):
    """A preprocessor condition around lines of code; *line* is the line number of the `#if` or `#else`."""

    kind: str
    operand: str
    line: int

    def lacking(self, given: AbstractSet[str]) -> tuple[str, ...] | None:
        """Return the macros that must be defined, besides the macros *given*, to make the condition true.

        The result is an empty tuple if the condition is already true with the macros *given*. The result is
        None if only a compiler can evaluate the condition.
        """
        if self.kind in {"elif", "else"}:  # #elif and #else depend on all conditions before them
            return None
        if self.operand == "1":
            return ()
        if match := _NOT_DEFINED.fullmatch(f"{self.kind} {self.operand}"):
            return None if match[1] in given else ()
        matches = [_ONE_MACRO.fullmatch(part.strip()) for part in self.operand.split("&&")]
        if not all(matches):
            return None
        return tuple(match[1] for match in matches if match and match[1] not in given)


def surely_read(text: str, given: AbstractSet[str]) -> Iterator[tuple[str, int]]:
    """Yield the text and number of each line that the compiler certainly reads with the macros *given*."""
    known = DEFINED_BY_NVRTC | given
    for line, number, around in lines_with_conditions(text):
        if all(condition.lacking(known) == () for condition in around):
            yield line, number


def lines_with_conditions(text: str) -> Iterator[tuple[str, int, tuple[Condition, ...]]]:
    """Yield each line of code, its number, and the conditions around the line (without include guards)."""
    around: list[Condition | None] = []
    guard = ""  # the macro, if the previous line is an #ifndef; otherwise empty
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        match = _DIRECTIVE.fullmatch(line)
        kind, operand = (match[1], match[2].strip()) if match else ("", "")
        if kind == "define":
            if operand.split()[:1] == [guard]:
                around[-1] = None
        elif kind == "endif":
            around[-1:] = []
        elif kind:
            around[len(around) - (kind in {"else", "elif"}) :] = [Condition(kind, operand, number)]
        else:
            yield line, number, tuple(each for each in around if each is not None)
        if kind or line.strip():
            guard = operand if kind == "ifndef" else ""
