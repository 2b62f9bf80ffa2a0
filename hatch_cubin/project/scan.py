"""Scan a source or a header for includes, and for macros that change includes.

The scan covers all branches of each conditional. The scan does not look for the included files.
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
_SUFFIX = r"(?:[^\W\d]\w*)?"  # the suffix of a literal belongs to the literal, even if the suffix is an R
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"  # comments
    rf'|(?<![\w$])(?<!\\(?=[uU]))(?:u8|[uUL])?R"([^()\\\s]{{0,16}})\(.*?(?:\)\1"{_SUFFIX}|\Z)'  # raw strings.
    # Numbers before a quote are tokens, because the quote may separate digits, and the R of a raw string may
    # belong to the number.
    r"|(?<![\w.])\.?\d(?=[\w.+-]*['\"])(?:[eEpP][+-]|'\w|[\w.])*"
    # strings and characters, even without a closing quote
    rf"""|"(?:[^"\\\n]|\\.)*(?:"{_SUFFIX})?|'(?:[^'\\\n]|\\.)*(?:'{_SUFFIX})?""",
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
# The operator __has_include without its parentheses, or a part of its name: a macro can supply the rest.
_HAS_INCLUDE_PART = re.compile(
    r"(?<!defined)(?<!defined\()(?<!defined )\b__has_(?:include|embed)(?:_next)?\b(?!\s*\()"
    r"|\b__has(?:_(?:i|in|inc|incl|inclu|includ|e|em|emb|embe)?)?\b|\b_?has_(?:include|embed)(?:_next)?\b"
)
# Names of macros that may pass a parameter to __has_include, as in many libraries: each call of such a macro
# may look for a header.
_WRAPPER = r"\b(?!__has_(?:include|embed)(?:_next)?\b)(?i:\w*has_?include\w*)\b"
_WRAPPER_NAME = re.compile(_WRAPPER)
_FORWARDS_PARAMETER = re.compile(r"\(\s*([^\W\d]\w*)\s*\)\s*__has_include\s*\(\s*\1\s*\)\s*")
_WRAPPER_CALL = re.compile(
    rf"""(?<!defined)(?<!defined\()(?<!defined ){_WRAPPER}(?:\s*\(\s*("[^"\n]*"|<[^>\n]*>)\s*\))?"""
)
_WRAPPER_PART = re.compile(r"\b\w+_(?i:has_(?:i|in|inc|incl|inclu|includ)?)\b")
PASTE_OPERATOR = re.compile(r"\s*(?:##|%:%:|\?\?=\?\?=)\s*")
# In an #if, only __has_include has a quoted or angled name in parentheses.
_OPERAND_OF_MACRO = re.compile(r"""\(\s*("[^"\n]*"|<[^>\n]*>)""")
_DEFINE = re.compile(r"\s*([^\W\d]\w*)(\()?(.*)")
# A path whose words may be macros or a parameter. Paths with numbers are excluded, because the letters in a
# number could look like words.
# The pattern can match each word in only one way, because otherwise backtracking would take very long.
_PATH_OPERAND = r"(?:[^\W\d]\w*\b|[/.-](?!\.?\d))+"
_TEMPLATE = re.compile(rf"\(\s*([^\W\d]\w*)\s*\)\s*<({_PATH_OPERAND})>\s*")
PATH_OPERAND = re.compile(_PATH_OPERAND)
MACRO_CALL = re.compile(r"([^\W\d]\w*)\(\s*([^\W\d][\w/.-]*)\s*\)\s*")
IDENTIFIER = re.compile(r"[^\W\d]\w*")
# The pattern matches only at the start of a line: a search from every position would take very long in long
# lines.
_CONTINUED_LINES = re.compile(r"^(?:[^\n]*\\\n)+[^\n]*", re.MULTILINE)
UNKNOWN = "?"
UNKNOWN_WITH_PARENT = "?../"  # an unknown value that may contain `..`, and so may lead to a different folder
UNKNOWN_PASTED = "?##"  # an unknown value that the operator ## makes
_OTHER_BLANKS = str.maketrans("\f\v\r", "   ")  # NVRTC reads these characters as blanks


class Include(NamedTuple):
    """One include in a file: a quoted name, an angled name, a macro's name, or an unknown form."""

    name: str
    # The form is "quote", "angle", "macro", "argument" or "unknown". The form "argument" is a name in angle
    # brackets in which macros may replace words.
    form: str
    # true for #include_next, which may mean a later file of the same name on the search path
    searches_on: bool = False


ANY_HEADER = Include("", "unknown")


class Scan(NamedTuple):
    """The includes in one file, and the macros that the file defines."""

    includes: tuple[Include, ...]
    defines: tuple[tuple[str, str], ...] = ()


def scan(text: str) -> Scan:
    """Return the includes in *text*, and the macros that the text defines."""
    text = text.replace("\r\n", "\n").translate(_OTHER_BLANKS)
    includes, defines = _scan(text.replace("\\\n", ""))
    # with a strict value of the option `std`, the trigraph `??/` is a backslash
    if _TRIGRAPH_BACKSLASH in text:
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
            # the macro's own name is not scanned, because many files define __has_include for compilers that
            # do not have it
            rest = defined[3]
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
    """Yield the headers that a condition may look for, with `__has_include` or with a macro that uses it."""
    for found in _HAS_INCLUDE.finditer(text):
        yield parse_operand(found[2] or "", every=found[1] is not None)
    for found in _WRAPPER_CALL.finditer(text):
        operand = parse_operand(found[1] or "")
        yield operand._replace(form="argument") if operand.form == "angle" else operand
    if _can_build_has_include(text):
        yield ANY_HEADER


def _can_build_has_include(text: str) -> bool:
    """Return whether macros can turn *text* into a use of `__has_include` with an unknown header."""
    named, pasted = (_count_has_include(each) for each in (text, PASTE_OPERATOR.sub("", text)))
    return pasted > named or any(part.search(text) for part in (_HAS_INCLUDE_PART, _WRAPPER_PART))


def _count_has_include(text: str) -> int:
    return len(_HAS_INCLUDE_NAME.findall(text)) + len(_WRAPPER_NAME.findall(text))


def _blank(match: re.Match[str]) -> str:
    """Replace a comment by a blank or a line end, and a raw string by an empty string. Keep other tokens."""
    token = match[0]
    if token.startswith("/"):  # NVRTC accepts a directive on the last line of a long comment
        return "\n" if is_before_directive(match) else " "
    return '""' if token[0] in "uULR" else token


def is_before_directive(match: re.Match[str]) -> bool:
    """Return whether a token is a comment over several lines, and a directive follows on the last line."""
    is_long = match[0].startswith("/*") and "\n" in match[0]
    return is_long and _LATE_DIRECTIVE.match(match.string, match.end()) is not None


def _macro(name: str, parameters: str | None, value: str) -> tuple[str, str]:
    """Return a macro's name and value; return a placeholder for a value that `#include MACRO` cannot use."""
    if not parameters and (parse_operand(value).form != "unknown" or _is_path(value.strip())):
        return name, value.strip()
    if parameters and ".." not in value and _TEMPLATE.fullmatch(f"({value}"):
        return name, f"({value.strip()}"
    # another macro may supply the slash after ".."
    return name, UNKNOWN_WITH_PARENT if ".." in value else UNKNOWN


def _is_path(value: str) -> bool:
    return PATH_OPERAND.fullmatch(value) is not None and ".." not in value


def include_values(macros: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the names and values of macros in pyproject.toml, for includes such as `#include MACRO`.

    A value that no include can use is replaced by a placeholder.
    """
    parts = ((*name.partition("("), value) for name, value in macros)
    return tuple(_macro(name, parenthesis, rest + value) for name, parenthesis, rest, value in parts)


def can_hide_includes(macros: Iterable[tuple[str, str]]) -> bool:
    """Return whether macros in pyproject.toml can expand to `__has_include`.

    A macro with `__has_include` may look for a header that no file of the project names.
    """
    return any(_count_has_include(value) or _can_build_has_include(value) for _name, value in macros)


def expand_call(value: str, argument: str) -> str:
    """Return the expansion of a macro with the definition *value*, called with the argument *argument*."""
    if (template := _TEMPLATE.fullmatch(value)) is None:
        return UNKNOWN
    path = IDENTIFIER.sub(lambda word: argument if word[0] == template[1] else word[0], template[2])
    return f"<{path}>"


def parse_operand(operand: str, *, every: bool = False) -> Include:
    """Return the include for an operand, which is the text after `#include`."""
    match = _OPERAND.match(operand)
    if match is None:
        return Include(operand.strip(), "unknown", every)
    form = "quote" if match[1] is not None else "angle" if match[2] is not None else "macro"
    return Include(match[match.lastindex or 0], form, every)


def join_continued_lines(text: str) -> str:
    """Join each line that ends with a backslash and its next line; add empty lines to keep line numbers."""
    return _CONTINUED_LINES.sub(
        lambda match: match[0].replace("\\\n", "") + "\n" * match[0].count("\n"), text
    )


def line_of_include(include: Include, text: str) -> int | None:
    """Return the line number of an include in *text*; None if the include is made by macros."""
    match = re.search(rf'^[ \t]*#[^\n]*["<]{re.escape(include.name)}[">]', text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else None


class ScanCache:
    """A cache of the includes and macros in the files of a build, so that no file is scanned twice.

    *known* returns the includes and macros that an earlier build found in a file with a given digest, or None
    if no earlier build scanned the file.
    """

    def __init__(self, known: Callable[[str], Scan | None] = lambda _digest: None) -> None:
        self.used: dict[str, Scan] = {}  # the scans that this build used, by digest
        self._known = known
        self._files: dict[str, tuple[str, Scan]] = {}
        self._texts: dict[str, Scan] = {}

    def of_file(self, path: str, tree: ProjectTree) -> tuple[str, Scan]:
        """Return the digest of a header, and its includes and macros."""
        if path not in self._files:
            data = disk.read_file(path, tree)
            content = file_digest(data)
            text = functools.partial(_decode, data)
            self._files[path] = (content, self._scan(content, text))
        return self._files[path]

    def of_digest(self, content: str) -> Scan | None:
        """Return the includes and macros of a file that was scanned before.

        *content* is the digest of the file's content. Return None if no file with this digest was scanned
        before.
        """
        if content not in self.used and (known := self._known(content)) is not None:
            self.used[content] = known
        return self.used.get(content)

    def of_text(self, text: str) -> Scan:
        """Return the includes and macros of a source's *text*."""
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
