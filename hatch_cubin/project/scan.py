"""Scan a source or a header for its includes, and for the macros that an include can use.

The scan reads every branch of every conditional. It does not look for the included files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..common.digest import digest, file_digest
from . import disk
from .source_roots import ProjectTree

_TRIGRAPH_BACKSLASH = "??/"
_SUFFIX = r"(?:[^\W\d]\w*)?"  # the suffix of a literal belongs to it, even if it is an R
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"  # comments
    rf'|(?<![\w$])(?<!\\(?=[uU]))(?:u8|[uUL])?R"([^()\\\s]{{0,16}})\(.*?(?:\)\1"{_SUFFIX}|\Z)'  # raw strings
    # Numbers before a quote: it may separate digits, and the R of a raw string may belong to the number.
    r"|(?<![\w.])\.?\d(?=[\w.+-]*['\"])(?:[eEpP][+-]|'\w|[\w.])*"
    rf"""|"(?:[^"\\\n]|\\.)*(?:"{_SUFFIX})?|'(?:[^'\\\n]|\\.)*(?:'{_SUFFIX})?""",  # some have no end
    re.DOTALL,
)
_DIRECTIVE_NAMES = "include_next|include|import|embed|define|if|elif"
_BLANK = r"(?:[ \t]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*"
_DIRECTIVE = re.compile(rf"^[ \t]*(?:#|%:|\?\?=)[ \t]*({_DIRECTIVE_NAMES})\b([^\n]*)", re.MULTILINE)
_LATE_DIRECTIVE = re.compile(
    rf"{_BLANK}(?:#|%:|\?\?=){_BLANK}(?:{_DIRECTIVE_NAMES}|else|endif|ifn?def|undef)\b"
)
_OPERAND = re.compile(r"""\s*(?:"([^"\n]*)"|<([^>\n]*)>|([^\W\d]\w*)\s*(?:\s|$))""")
_HAS_INCLUDE = re.compile(r"""__has_(?:include|embed)(_next)?\s*\(\s*("[^"\n]*"|<[^>\n]*>)?""")
_HAS_INCLUDE_NAME = re.compile(r"\b__has_(?:include|embed)(?:_next)?\b")
# The operator without its parentheses, or a part of its name: a macro can supply the rest.
_HAS_INCLUDE_PART = re.compile(
    r"(?<!defined)(?<!defined\()(?<!defined )\b__has_(?:include|embed)(?:_next)?\b(?!\s*\()"
    r"|\b__has(?:_(?:i|in|inc|incl|inclu|includ|e|em|emb|embe)?)?\b|\b_?has_(?:include|embed)(?:_next)?\b"
)
# A macro with such a name, as in many libraries, may pass its parameter on to __has_include: then each call
# of the macro asks for a header.
_WRAPPER = r"\b(?!__has_(?:include|embed)(?:_next)?\b)(?i:\w*has_?include\w*)\b"
_WRAPPER_NAME = re.compile(_WRAPPER)
_FORWARDS_PARAMETER = re.compile(r"\(\s*([^\W\d]\w*)\s*\)\s*__has_include\s*\(\s*\1\s*\)\s*")
_WRAPPER_CALL = re.compile(
    rf"""(?<!defined)(?<!defined\()(?<!defined ){_WRAPPER}(?:\s*\(\s*("[^"\n]*"|<[^>\n]*>)\s*\))?"""
)
_WRAPPER_PART = re.compile(r"\b\w+_(?i:has_(?:i|in|inc|incl|inclu|includ)?)\b")
PASTE_OPERATOR = re.compile(r"\s*(?:##|%:%:|\?\?=\?\?=)\s*")
# In an #if, only __has_include is written like this.
_OPERAND_OF_MACRO = re.compile(r"""\(\s*("[^"\n]*"|<[^>\n]*>)""")
_DEFINE = re.compile(r"\s*([^\W\d]\w*)(\()?(.*)")
# A parameter, and a path that may contain it as a word. The path has no numbers, which could contain words.
# Each word matches in one way only: otherwise backtracking takes for ever.
_PATH_OPERAND = r"(?:[^\W\d]\w*\b|[/.-](?!\.?\d))+"
_TEMPLATE = re.compile(rf"\(\s*([^\W\d]\w*)\s*\)\s*<({_PATH_OPERAND})>\s*")
PATH_OPERAND = re.compile(_PATH_OPERAND)
MACRO_CALL = re.compile(r"([^\W\d]\w*)\(\s*([^\W\d][\w/.-]*)\s*\)\s*")
IDENTIFIER = re.compile(r"[^\W\d]\w*")
# It begins at the start of a line: a search from every position would take for ever in long lines.
_CONTINUED_LINES = re.compile(r"^(?:[^\n]*\\\n)+[^\n]*", re.MULTILINE)
UNKNOWN = "?"
UNKNOWN_WITH_PARENT = "?../"  # unknown, and it may lead out of a folder
UNKNOWN_PASTED = "?##"  # unknown, and pasted together
_OTHER_BLANKS = str.maketrans("\f\v\r", "   ")  # as NVRTC reads them


class Include(NamedTuple):
    """One include as written: a quoted or angled name, a macro's name, or unknown."""

    name: str
    # "quote", "angle", "macro" or "unknown"; "argument" is an angled name whose words macros can replace.
    form: str
    searches_on: bool = False  # include_next: it may mean a later file of this name on the search path


ANY_HEADER = Include("", "unknown")


class Scan(NamedTuple):
    """The includes of one file, and the macros that it defines."""

    includes: tuple[Include, ...]
    defines: tuple[tuple[str, str], ...] = ()


def scan(text: str) -> Scan:
    """Return the includes and the macros of *text*."""
    text = text.replace("\r\n", "\n").translate(_OTHER_BLANKS)
    includes, defines = _scan(text.replace("\\\n", ""))
    if _TRIGRAPH_BACKSLASH in text:  # it is a backslash where `std` is a strict one
        more = _scan(text.replace(_TRIGRAPH_BACKSLASH, "\\").replace("\\\n", ""))
        includes, defines = includes + more[0], defines + more[1]
    return Scan(tuple(includes), tuple(defines))


def _scan(text: str) -> tuple[list[Include], list[tuple[str, str]]]:
    bare = TOKEN.sub(_blank, text)
    includes: list[Include] = []
    defines: list[tuple[str, str]] = []
    for match in _DIRECTIVE.finditer(bare):
        kind, rest = match[1], match[2]
        if kind == "define":
            if (defined := _DEFINE.match(rest)) is None:
                continue
            defines.append(_macro(defined[1], defined[2], defined[3]))
            if PASTE_OPERATOR.search(defined[3]):
                defines.append((defined[1], UNKNOWN_PASTED))
            rest = defined[3]  # without the name: many files define __has_include for compilers without it
            if (
                defined[2]
                and _WRAPPER_NAME.fullmatch(defined[1])
                and _FORWARDS_PARAMETER.fullmatch(f"({rest}")
            ):
                continue
        elif kind not in {"if", "elif"}:
            includes.append(parse_operand(rest, every=kind == "include_next"))
            continue
        else:
            includes += map(parse_operand, _OPERAND_OF_MACRO.findall(_HAS_INCLUDE.sub("", rest)))
        includes += _has_include_operands(rest)
    return includes, defines


def _has_include_operands(text: str) -> Iterator[Include]:
    """Yield the headers that a condition, or a macro that a condition may use, looks for."""
    for found in _HAS_INCLUDE.finditer(text):
        yield parse_operand(found[2] or "", every=found[1] is not None)
    for found in _WRAPPER_CALL.finditer(text):
        operand = parse_operand(found[1] or "")
        yield operand._replace(form="argument") if operand.form == "angle" else operand
    if _can_build_has_include(text):
        yield ANY_HEADER


def _can_build_has_include(text: str) -> bool:
    """Return whether macros can turn a text into a use of `__has_include` with an unknown header."""
    named, pasted = (_count_has_include(each) for each in (text, PASTE_OPERATOR.sub("", text)))
    return pasted > named or any(part.search(text) for part in (_HAS_INCLUDE_PART, _WRAPPER_PART))


def _count_has_include(text: str) -> int:
    return len(_HAS_INCLUDE_NAME.findall(text)) + len(_WRAPPER_NAME.findall(text))


def _blank(match: re.Match[str]) -> str:
    """Blank a comment or a raw string; leave every other token alone."""
    token = match[0]
    if token.startswith("/"):  # NVRTC allows a directive behind a comment of several lines
        return "\n" if is_before_directive(match) else " "
    return '""' if token[0] in "uULR" else token


def is_before_directive(match: re.Match[str]) -> bool:
    """Return whether a token is a comment of several lines with a directive behind its end."""
    is_long = match[0].startswith("/*") and "\n" in match[0]
    return is_long and _LATE_DIRECTIVE.match(match.string, match.end()) is not None


def _macro(name: str, parameters: str | None, value: str) -> tuple[str, str]:
    """Return a macro and its value, as far as an include can use it."""
    if not parameters and (parse_operand(value).form != "unknown" or _is_path(value.strip())):
        return name, value.strip()
    if parameters and ".." not in value and _TEMPLATE.fullmatch(f"({value}"):
        return name, f"({value.strip()}"
    return name, UNKNOWN_WITH_PARENT if ".." in value else UNKNOWN  # another macro may supply the slash


def _is_path(value: str) -> bool:
    return PATH_OPERAND.fullmatch(value) is not None and ".." not in value


def include_values(macros: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the macros of a configuration table and their values, as far as an include can use them."""
    parts = ((*name.partition("("), value) for name, value in macros)
    return tuple(_macro(name, parenthesis, rest + value) for name, parenthesis, rest, value in parts)


def can_hide_includes(macros: Iterable[tuple[str, str]]) -> bool:
    """Return whether a table's macros can make conditions look for headers that no text names."""
    return any(_count_has_include(value) or _can_build_has_include(value) for _name, value in macros)


def expand_call(value: str, argument: str) -> str:
    """Return the expansion of a macro with this *value* when it is called with *argument*."""
    if (template := _TEMPLATE.fullmatch(value)) is None:
        return UNKNOWN
    path = IDENTIFIER.sub(lambda word: argument if word[0] == template[1] else word[0], template[2])
    return f"<{path}>"


def parse_operand(operand: str, *, every: bool = False) -> Include:
    """Return the include whose operand, the text behind `#include`, is given."""
    match = _OPERAND.match(operand)
    if match is None:
        return Include(operand.strip(), "unknown", every)
    form = "quote" if match[1] is not None else "angle" if match[2] is not None else "macro"
    return Include(match[match.lastindex or 0], form, every)


def join_continued_lines(text: str) -> str:
    """Join lines that end with a backslash with the next line, and keep the number of lines."""
    return _CONTINUED_LINES.sub(
        lambda match: match[0].replace("\\\n", "") + "\n" * match[0].count("\n"), text
    )


def line_of_include(include: Include, text: str) -> int | None:
    """Return the line of an include in its text; None if macros make the include."""
    match = re.search(rf'^[ \t]*#[^\n]*["<]{re.escape(include.name)}[">]', text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else None


class ScanCache:
    """Scans of files. Each file is read once, and scanned unless the scan of its digest is *known*."""

    def __init__(self, known: Callable[[str], Scan | None] = lambda _digest: None) -> None:
        self.used: dict[str, Scan] = {}  # by digest
        self._known = known
        self._files: dict[str, tuple[str, Scan]] = {}
        self._texts: dict[str, Scan] = {}

    def of_file(self, path: str, tree: ProjectTree) -> tuple[str, Scan]:
        """Return the digest and the scan of a header."""
        if path not in self._files:
            data = disk.read_file(path, tree)
            content = file_digest(data)
            text = functools.partial(_decode, data)
            self._files[path] = (content, self._scan(content, text))
        return self._files[path]

    def of_digest(self, content: str) -> Scan | None:
        """Return the scan of a file that was read before, by its digest; None if it is not known."""
        if content not in self.used and (known := self._known(content)) is not None:
            self.used[content] = known
        return self.used.get(content)

    def of_text(self, text: str) -> Scan:
        """Return the scan of a source."""
        if text not in self._texts:
            self._texts[text] = self._scan(digest([text]), lambda: text)
        return self._texts[text]

    def _scan(self, content: str, text: Callable[[], str]) -> Scan:
        if content not in self.used:
            known = self._known(content)
            self.used[content] = scan(text()) if known is None else known
        return self.used[content]


def _decode(data: bytes) -> str:
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
