"""Find kernel declarations in sources and headers, and example arguments for kernel templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ...errors import Location
from ...project.source import without_comments

GAP = "…"  # The mark in an example for a template argument that hatch-cubin cannot guess.

_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"')
_TOKEN = re.compile(
    r"\bnamespace\b(?P<space>[\w:\s]*)\{|(?P<template>\btemplate\s*<)|"
    r"(?P<kernel>\b__(?P<tile>tile_)?global__\b)|(?P<mark>[;{}])"
)
_NAME = re.compile(r"(\w+)\s*\(")
_EXTERN = re.compile(r"\bextern\s+template\b([^;]*);")
_TYPE = re.compile(r"(?:typename|class)\b\s*(\.\.\.)?\s*\w*")
_NUMBER = re.compile(
    r"(?:const |unsigned |signed |int ?|short ?|long ?|char ?)+|unsigned|(?:std::)?(?:size_t|u?int\d+_t)"
)
# Matches operators that work only on integers: the remainder, and bit operators.
_OF_INTEGERS = re.compile(r"%|\^|(?:<<|>>|[&|])=")
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}


class TemplateParameter(NamedTuple):
    """One parameter of a template. *type* is "" for a parameter such as `class T`, and `int` for `int N`."""

    type: str
    name: str
    is_pack: bool = False
    has_default: bool = False


class Kernel(NamedTuple):
    """A kernel in a file of the project: its qualified name, its `template <…>` line, and its location."""

    name: str
    template: str
    where: Location
    parameters: tuple[TemplateParameter, ...] = ()
    code: str = ""  # The text of the kernel's declaration, with the body if there is one.
    is_tile: bool = False

    @property
    def base(self) -> str:
        """The kernel's name without namespaces."""
        return self.name.rpartition("::")[2]

    @property
    def example(self) -> str:
        """The name of the kernel template, with an example argument for each parameter."""
        needed = [*self.parameters]
        while needed and (needed[-1].has_default or (needed[-1].is_pack and needed[:-1])):
            needed.pop()
        return f"{self.name}<{', '.join(map(self._argument, needed))}>"

    def _argument(self, parameter: TemplateParameter) -> str:
        if parameter.type:
            is_number = _NUMBER.fullmatch(parameter.type)
            return "4" if is_number else "true" if parameter.type == "bool" else GAP
        name = parameter.name
        arguments = re.findall(rf"\b{name}\b[\s&]*(\w+)\s*[,)]", self.code)
        # The hint shows no example if the kernel uses a member of the type, or calls objects of the type.
        uses = [
            rf"\b{name}\s*(?:::|(?:\(\s*\)|\{{\s*\}})\s*\()",
            *(rf"\b{each}\s*[.(]" for each in arguments),
        ]
        if name in {each.type for each in self.parameters} or any(re.search(use, self.code) for use in uses):
            return GAP
        return "int" if _OF_INTEGERS.search(self.code) else "float"


def declared(texts: Mapping[str, str]) -> tuple[Kernel, ...]:
    """Return the kernels that files declare. *texts* maps the path of each file to its text."""
    return tuple(kernel for path, text in texts.items() for kernel in _Scan(path, text).kernels)


def examples(kernels: Sequence[Kernel]) -> list[str]:
    """Return an example instantiation for each kernel that is a template."""
    return [*dict.fromkeys(kernel.example for kernel in kernels if kernel.parameters)]


def without_extern_templates(text: str) -> str:
    """Return a text without comments, and without `extern template` declarations."""
    return _EXTERN.sub("", without_comments(text))


def about_extern_template(names: Collection[str], texts: Mapping[str, str]) -> str | None:
    """Return a hint if an `extern template` declares a kernel in *names* (names without namespaces)."""
    for path, text in texts.items():
        code = without_comments(text)
        for match in _EXTERN.finditer(code):
            if not {*names}.isdisjoint(re.findall(r"\w+", match[1])):
                where = Location(path, code.count("\n", 0, match.start()) + 1)
                return f"'extern template' ({where}) only declares the instantiation: remove 'extern'"
    return None


class _Scan:
    """Searches the text of a file for kernels, and records the namespaces around each kernel."""

    def __init__(self, path: str, text: str) -> None:
        self.kernels: list[Kernel] = []
        code = _QUOTED.sub(_blank, _DIRECTIVE.sub(_blank, without_comments(text)))
        self._path, self._code = path, code
        around: list[str] = []
        head: str | None = None  # The parameters in the last `template <…>` before the kernel.
        at = 0
        while match := _TOKEN.search(code, at):
            at = match.end()
            if match["template"]:
                at = _end_of(code, at, "<")
                head = code[match.end() : at - 1]
            elif match["kernel"]:  # `template <…>` may come before or after __global__
                self._take_kernel(match, "::".join(filter(None, around)), head)
            else:
                head = None
                if match["mark"] == "}":
                    around[-1:] = []
                elif match["mark"] != ";":
                    around.append((match["space"] or "").strip())

    def _take_kernel(self, match: re.Match[str], scope: str, head: str | None) -> None:
        # `template <>` begins a specialization, which is compiled even if `instantiate` does not list it.
        found = None if head == "" else _kernel(self._code, match.end())
        if found is not None:
            name, end = found
            template = "" if head is None else f"template <{' '.join(head.split())}>"
            where = Location(self._path, self._code.count("\n", 0, end) + 1)
            body = self._code[match.start() : _end_of_body(self._code, end)]
            whole = "::".join(filter(None, (scope, name)))
            parameters = tuple(map(_parameter, _parts(head or "")))
            self.kernels.append(Kernel(whole, template, where, parameters, body, is_tile=bool(match["tile"])))


def _kernel(code: str, at: int) -> tuple[str, int] | None:
    """Return the name of the kernel that is declared after the position *at*, and where the name ends.

    Before the kernel's name, there may be attributes and macros with parentheses.
    """
    stop = re.compile(r"[;{}]").search(code, at)
    limit = stop.start() if stop else len(code)
    while (match := _NAME.search(code, at, limit)) is not None:
        at = _end_of(code, match.end(), "(")
        after = code[at : at + 200].lstrip()
        if after[:1] in {"{", ";", ""} or after.startswith(("requires", "noexcept")):
            return match[1], match.end(1)
    return None


def _end_of_body(code: str, at: int) -> int:
    found = re.compile(r"[;{]").search(code, at)
    if found is None:
        return len(code)
    return _end_of(code, found.end(), "{") if found[0] == "{" else found.end()


def _end_of(code: str, at: int, opened: str) -> int:
    """Return the position after the closing bracket; the opening bracket *opened* is directly before *at*.

    If the opening bracket is never closed, return the end of the text.
    """
    pending = [_CLOSES[opened]]
    for index in range(at, len(code)):
        char = code[index]
        # Inside parentheses, < and > compare numbers.
        if char in "([{" or (char == "<" and pending[-1] == ">"):
            pending.append(_CLOSES[char])
        elif char == pending[-1]:
            pending.pop()
            if not pending:
                return index + 1
    return len(code)


def _parts(text: str) -> list[str]:
    """Split a text at its commas, except at commas inside brackets."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] in _CLOSES:
            at = _end_of(text, at + 1, text[at])
            continue
        if text[at] == ",":
            found.append(text[start:at])
            start = at + 1
        at += 1
    return [part.strip() for part in (*found, text[start:]) if part.strip()]


def _parameter(text: str) -> TemplateParameter:
    """Parse one parameter of a template declaration.

    If the syntax is not known, the whole text becomes the type.
    """
    written = text if re.search(r"[<(]", text) else text.partition("=")[0]
    plain = " ".join(written.replace("...", " ").split())
    match = re.search(r"\w+$", plain)
    name = match[0] if match else ""
    has_default, is_pack = "=" in text, "..." in written
    if _TYPE.fullmatch(written.strip()):
        return TemplateParameter("", name, is_pack, has_default)
    return TemplateParameter(plain.removesuffix(name).strip() or plain, name, is_pack, has_default)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
