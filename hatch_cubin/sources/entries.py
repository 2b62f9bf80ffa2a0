"""Read from a source's text which kernels every compile of it has, as far as that needs no compiler. Pure.

Only a text that cannot mean anything else says that: a header, a condition or a macro may change every line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping

from .scan import TOKEN
from .source import Source, ptx_entries

_DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:|\?\?=)[^\S\n]*(\w*)([^\n]*)", re.MULTILINE)
_HARMLESS = frozenset(("define", "pragma", "line", ""))
_KERNEL = re.compile(r'\bextern\s+"C"\s+__global__\s+void\s+([^\W\d]\w*)\s*\(')
_WORDS = frozenset(("extern", "__global__", "void"))
_FORWARD = re.compile(r"\.extern\s+\.entry\b")


def declared_kernels(source: Source, macros: Mapping[str, str]) -> Collection[str]:
    """Return the symbols of kernels that a source has whatever it is compiled for, with these *macros*."""
    if source.is_ptx:
        return () if _FORWARD.search(source.text) else ptx_entries(source.text)
    return [name for name in _defined(source.text) if not {name, *_WORDS} & macros.keys()]


@functools.lru_cache(maxsize=32)  # the archs and variants of a source are asked about one after another
def _defined(text: str) -> tuple[str, ...]:
    """Return the names of the `extern "C"` kernels that a text defines; nothing if that is not certain."""
    if '"C"' not in text:
        return ()
    code = TOKEN.sub(_blank, text.replace("\\\n", ""))
    found = _DIRECTIVE.findall(code)
    if not _HARMLESS.issuperset(kind for kind, _rest in found):
        return ()
    defined = {word[0] for kind, rest in found if kind == "define" and (word := re.search(r"\w+", rest))}
    code = _DIRECTIVE.sub("", code)
    names = [match[1] for match in _KERNEL.finditer(code) if _has_body(code, match.end())]
    return () if defined & {*names, *_WORDS} else tuple(names)


def _blank(match: re.Match[str]) -> str:
    if match[0][0] == "/":
        return " "
    return match[0] if match[0] == '"C"' else '""'


def _has_body(code: str, at: int) -> bool:
    """Say whether a list of parameters that begins before *at* is followed by a body."""
    depth = 1
    for match in re.compile(r"[()]").finditer(code, at):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return code[match.end() :].lstrip().startswith("{")
    return False
