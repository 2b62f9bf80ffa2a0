"""Hints about files that are not sources, such as placeholders for a source, or templates of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...errors import Location
from ...project.source import LFS_HINT, is_lfs_pointer
from ..diagnostics import Diagnostic, Explanation, failure
from .failed_compile import FailedCompile

_CONFLICT = re.compile(r"(?:<{7}|\|{7}|={7}|>{7})(?:\s|$)")
_PLACEHOLDER = re.compile(
    r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}(?=\s*[\w*&(\]<])|<%.*?%>|(?<!\w)@[A-Za-z_]\w*@|\$\{\w[^}]*\}"
    r"|%\(\w+\)[a-z]|\binclude\s*[\"<][^\">\n]*?\{\w*\}"
)
# In quoted text, these are not placeholders.
_BARE_PLACEHOLDER = re.compile(
    r"(?<![\w$])\$[A-Za-z_]\w*|(?<=void )\{\w+\}(?=\s*\()|(?:^|(?<=[=(,<\[]))\s*%[sdifgxru]\b"
    r"|(?<=[=(,])\s*<<\w+>>|\{(?!default)[A-Za-z_]\w*(?:![rsa])?:(?!:)[^{}\s;]+\}|\[\s*\{\w+\}\s*\]"
    r"|(?<![\w>])\{\d+\}(?=\s*[*&\w])|\(\{\w+\}(?=\s*(?:[*&\w]|\)\s*[\w(]))"
)
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_ANNEX = re.compile(r"\s*[\w./\\-]*annex[/\\]objects[/\\]\S+\s*$")
_PAGE = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_DEFINED = re.compile(r"\s*#\s*define\s+(\w+)")
_A_TEMPLATE = "it looks like a template, which a script fills in (Python, Jinja, CMake)"
_BRACED = re.compile(r"\{[A-Za-z_]\w*(?:[.\[:!][^{}\s]*)?\}")
_IN_BRACES = re.compile(r"(?<![{$%])\{\w*\}(?!\})")
_DOUBLED = re.compile(r"\)\s*\{\{[^\S\n]*$.*?^\s*\}\}[^\S\n]*$", re.MULTILINE | re.DOTALL)
_DEFINES_BRACED = re.compile(r"\s*#\s*define\s+\w+\s+\{\w+\}\s*$")
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_PYTHON = re.compile(r"\s*(?:import [\w., ]+|from [\w.]+ import [\w*(][^;\n]*|#!.*python.*)$", re.MULTILINE)


def wrong_file(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a file that is not a source at all, instead of the compiler's errors in it."""
    for each in found:
        if each.is_own and each.where is not None and each.where.line is not None:
            text = failed.text_of(each.where.path)
            if (wrong := _what_is_wrong(text, each.where, failed)) is not None:
                return wrong, []
    return None


def _what_is_wrong(text: str, where: Location, failed: FailedCompile) -> Diagnostic | None:
    if is_lfs_pointer(text):
        return failure("not-a-source", "is no source", Location(where.path, 1), LFS_HINT)
    if (hint := _instead(text)) is not None:
        return failure("not-a-source", "is no source", Location(where.path, 1), hint)
    line = (text.splitlines() or [""])[: where.line][-1]
    if _CONFLICT.match(line):
        what = "has the marks of a merge that was not resolved"
        hint = "keep one side of it, and none of the marks"
        return failure("unresolved-merge", what, where, hint, (f"    {line}",))
    for number, each in [(where.line, line), *_definitions(text, line)]:
        bare = _QUOTED.sub('""', each)
        match = _PLACEHOLDER.search(each) or _BARE_PLACEHOLDER.search(bare) or _DEFINES_BRACED.match(each)
        if match is not None:
            return _template(match[0], Location(where.path, number), each, failed)
    if match := _DOUBLED.search(text):
        return _template_of_format(text, where.path, failed)
    return None


def perhaps_filled_in(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report an undeclared name in braces: perhaps a script should have replaced it."""
    for each in found:
        match = _UNDEFINED.match(each.text)
        if match is None or not each.is_own or each.hint is not None or each.where is None:
            continue
        lines = failed.text_of(each.where.path).splitlines()
        line = (lines or [""])[: each.where.line][-1]
        if any(
            f"{{{match[1]}}}" in shown
            for shown in (line, *(text for _, text in _definitions("\n".join(lines), line)))
        ):
            hint = f"if a script fills in {{{match[1]}}}: {_rendered(each.where.path, failed)}"
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _template_of_format(text: str, path: str, failed: FailedCompile) -> Diagnostic | None:
    """Return an error for a text with doubled braces, as in a template for Python's str.format."""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _BRACED.search(line.replace("{{", "").replace("}}", "")):
            return _template(match[0], Location(path, number), line, failed)
    return None


def _template(placeholder: str, where: Location, line: str, failed: FailedCompile) -> Diagnostic:
    inner = _IN_BRACES.search(placeholder)
    shown = inner[0] if inner else placeholder.strip()
    what = f"has a placeholder, {shown!r}: {_A_TEMPLATE}"
    hint = _rendered(where.path, failed)
    return failure("placeholder-in-source", what, where, hint, (f"    {line}",))


def _rendered(path: str, failed: FailedCompile) -> str:
    before = "render it before the build"
    return f"{before}, and leave it out: {failed.line('exclude', [path])}" if path == failed.path else before


def _instead(text: str) -> str | None:
    """Return a hint for a file that is not CUDA C++: a pointer of git-annex, Python, or a page of HTML."""
    if _ANNEX.match(text):
        return "it is a pointer of git-annex: git annex get brings the file"
    if _PYTHON.match(text):
        return "it is Python: a .cu file has CUDA C++ alone"
    if _PAGE.match(text):
        return "it is a page of HTML, as servers send it in place of a file: fetch it again"
    return None


def _definitions(text: str, line: str) -> list[tuple[int, str]]:
    """Return the lines, with their numbers, that define the macros in a line."""
    words = {*re.findall(r"\w+", line)}
    lines = enumerate(text.splitlines(), start=1)
    return [(number, each) for number, each in lines if (match := _DEFINED.match(each)) and match[1] in words]
