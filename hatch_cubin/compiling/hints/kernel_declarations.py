"""The kernels that texts declare, with example arguments for kernel templates. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import Location
from ...project.source import without_comments

GAP = "…"  # an argument that only the author of the template knows

_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"')
_HEAD_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:\\\r?\n|[^\n])*__global__.*)$", re.MULTILINE
)
_CONCEPT = re.compile(r"\bconcept\s+(\w+)")
_TOKEN = re.compile(
    r"\bnamespace\b(?P<space>[\w:\s]*)\{"
    r"|\benum\b(?:\s+(?:class|struct))?\s+(?P<enum>\w+)[^;{}()]*\{\s*(?P<first>\w+)"
    r"|\b(?:struct|class|union)\s+(?:\w+\s*\([^()]*\)\s*)?(?P<type>\w+)[^;{}()=]*\{"
    r"|(?P<template>\btemplate\s*<)|(?P<kernel>\b__global__\b)"
    r"|\b__device__\b(?P<result>[^;{}()=]*?)(?P<function>\b\w+)\s*\((?P<accepts>[^(){};]*)\)\s*\{"
    r"|(?P<mark>[;{}])"
)
_NAME = re.compile(r"(\w+)\s*\(")
_TYPE = re.compile(r"(?:typename|class)\b\s*(\.\.\.)?\s*\w*")
_FUNCTION = re.compile(r"(.*?)\(\s*(?:\*|&)\s*\w*\s*\)\s*\((.*)\)", re.DOTALL)
_INTEGRAL = re.compile(r"\b(?:is_)?(?:un)?signed(?:_v|_integral)?\s*<|\b(?:is_)?integral(?:_v)?\b")
_SPECIFIERS = re.compile(r"\b__\w+__\b|\b(?:static|inline|constexpr)\b")
# Operations that only integers have: remainders, and operations on bits.
_OF_INTEGERS = re.compile(r"%|\^|(?:<<|>>|[&|])=")
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}
# An example value for each type, by the type's name or its last character.
_OF_TYPES = {"bool": "true", "float": "1.0f", "double": "1.0", "*": "nullptr", "&": GAP}
_INDEX = re.compile(r"(?:I|Idx|Index|Int|Offset|Size|Count)(?:T|_t|Type|[A-Z_]|$)")
_FEW = re.compile(r"n?_?dims?|.*(?:rank|axis|order|unroll)", re.IGNORECASE)
_MANY = re.compile(r"(?:block|thread|warp|tile|size|width|dim|bits)", re.IGNORECASE)


class TemplateParameter(NamedTuple):
    """One parameter of a template, as the source has it."""

    kind: str  # "type", "value" or "template"
    type: str  # the type of a value; the parameters of a template
    name: str
    is_pack: bool = False
    has_default: bool = False


class Kernel(NamedTuple):
    """A kernel in a file of the project: its qualified name, its template's head, and its location."""

    name: str
    template: str
    where: Location
    parameters: tuple[TemplateParameter, ...] = ()
    code: str = ""  # its declaration, with its body if it has one

    @property
    def base(self) -> str:
        """The kernel's name without namespaces."""
        return self.name.rpartition("::")[2]


class _Type(NamedTuple):
    """A type in a file of the project: a class with its body, or an enumeration with its first member."""

    name: str
    body: str = ""
    first: str = ""
    arity: int = 0  # the number of parameters of a class template


class _Function(NamedTuple):
    """A device function: its name, the type of its result, and the types of its parameters."""

    name: str
    result: str
    accepts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations in the project's files from which an example can be made."""

    kernels: tuple[Kernel, ...]
    types: tuple[_Type, ...]
    functions: tuple[_Function, ...]

    def example(self, kernel: Kernel) -> str:
        """Return a kernel template with an example argument of the right kind for each parameter."""
        needed = [*kernel.parameters]
        while needed and (needed[-1].has_default or (needed[-1].is_pack and needed[:-1])):
            needed.pop()
        return f"{kernel.name}<{', '.join(self._argument(each, kernel) for each in needed)}>"

    def _argument(self, parameter: TemplateParameter, kernel: Kernel) -> str:
        if parameter.kind == "type":
            return self._type(parameter, kernel)
        if parameter.kind == "template":
            arity = len(parts(parameter.type))
            return next((each.name for each in self.types if each.arity == arity), GAP)
        return self._value(parameter)

    def _type(self, parameter: TemplateParameter, kernel: Kernel) -> str:
        """Return a type: one of the project's with the members that the kernel uses, or a type of number."""
        members = {*re.findall(rf"\b{parameter.name}\s*::\s*(?:template\s+)?(\w+)", kernel.code)}
        arguments = re.findall(rf"\b{parameter.name}\b[\s&]*(\w+)\s*[,)]", kernel.code)
        calls = [
            rf"\b{parameter.name}\s*(?:\(\s*\)|\{{\s*\}})\s*\(",
            *(rf"\b{name}\s*\(" for name in arguments),
        ]
        if any(re.search(each, kernel.code) for each in calls):
            members.add("operator")
        members |= {member for name in arguments for member in re.findall(rf"\b{name}\.(\w+)", kernel.code)}
        if members:
            having = (each for each in self.types if each.body and not each.arity)
            return next((each.name for each in having if members <= {*re.findall(r"\w+", each.body)}), GAP)
        of_values = (each.type for each in kernel.parameters if each.kind == "value")
        of_integers = _INTEGRAL.search(f"{kernel.template} {kernel.code}") or _OF_INTEGERS.search(kernel.code)
        if of_integers or parameter.name in of_values or _INDEX.match(parameter.name):
            return "int"
        return "float"

    def _value(self, parameter: TemplateParameter) -> str:
        written = re.sub(r"\b(?:const|volatile|typename)\b", "", parameter.type).strip()
        if function := _FUNCTION.fullmatch(written):
            return self._function(function[1], function[2])
        plain = written.rpartition("::")[2]
        if (known := _OF_TYPES.get(written[-1:]) or _OF_TYPES.get(plain)) is not None:
            return known
        declared = next((each for each in self.types if f"::{each.name}".endswith(f"::{plain}")), None)
        if declared is not None:
            return f"{declared.name}::{declared.first}" if declared.first else f"{declared.name}{{}}"
        return "2" if _FEW.fullmatch(parameter.name) else "32" if _MANY.search(parameter.name) else "4"

    def _function(self, result: str, accepts: str) -> str:
        wanted = (result.strip(), *map(_without_name, parts(accepts)))
        same = (each for each in self.functions if (each.result, *each.accepts) == wanted)
        return next((each.name for each in same), "nullptr")


def declared(texts: Mapping[str, str]) -> Declared:
    """Return the declarations in *texts*, a mapping by path."""
    bare = {path: without_comments(text) for path, text in texts.items()}
    macros = {match[1]: match[2] for text in bare.values() for match in _HEAD_MACRO.finditer(text)}
    concepts = {name for text in bare.values() for name in _CONCEPT.findall(text)}
    scans = []
    for path, text in bare.items():
        code = _QUOTED.sub(_blank, _DIRECTIVE.sub(_blank, text))
        if macros:
            code = re.sub(rf"\b(?:{'|'.join(macros)})\b", lambda match: _on_one_line(macros[match[0]]), code)
        scans.append(_Scan(path, code, concepts))
    return Declared(
        tuple(each for scan in scans for each in scan.kernels),
        tuple(each for scan in scans for each in scan.types),
        tuple(each for scan in scans for each in scan.functions),
    )


class _Scan:
    """One pass through a text, which collects its declarations with the names of the scopes around them."""

    def __init__(self, path: str, code: str, concepts: set[str]) -> None:
        self.kernels: list[Kernel] = []
        self.types: list[_Type] = []
        self.functions: list[_Function] = []
        self._path, self._code, self._concepts = path, code, concepts
        self._around: list[str] = []
        self._head: str | None = None  # parameters of the template that is being declared
        takes: Mapping[str | None, Callable[[re.Match[str]], None]] = {
            "kernel": self._take_kernel,
            "first": self._take_enum,
            "type": self._take_type,
            "accepts": self._take_function,
            "space": self._take_scope,
            "mark": self._take_mark,
        }
        at = 0
        while match := _TOKEN.search(code, at):
            at = match.end()
            if match["template"]:
                at = end_of(code, at, "<")
                self._head = code[match.end() : at - 1]
            else:
                takes[match.lastgroup](match)
                if not match["kernel"]:  # its head may come before or after __global__
                    self._head = None

    def _whole(self, name: str) -> str:
        return "::".join((*filter(None, self._around), name))

    def _parameters(self) -> tuple[TemplateParameter, ...]:
        return tuple(_parameter(each, self._concepts) for each in parts(self._head or ""))

    def _take_kernel(self, match: re.Match[str]) -> None:
        # A head without parameters is a specialization, and is compiled even if it is not instantiated.
        found = None if self._head == "" else _kernel(self._code, match.end())
        if found is not None:
            name, end = found
            template = "" if self._head is None else f"template <{' '.join(self._head.split())}>"
            where = Location(self._path, self._code.count("\n", 0, end) + 1)
            body = self._code[match.start() : _end_of_body(self._code, end)]
            self.kernels.append(Kernel(self._whole(name), template, where, self._parameters(), body))

    def _take_enum(self, match: re.Match[str]) -> None:
        self.types.append(_Type(self._whole(match["enum"]), first=match["first"]))
        self._around.append("")

    def _take_type(self, match: re.Match[str]) -> None:
        body = self._code[match.end() : end_of(self._code, match.end(), "{")]
        self.types.append(_Type(self._whole(match["type"]), body, arity=len(self._parameters())))
        self._around.append(match["type"])

    def _take_function(self, match: re.Match[str]) -> None:
        if self._head is None:
            accepts = tuple(map(_without_name, parts(match["accepts"])))
            result = _SPECIFIERS.sub("", match["result"]).strip()
            self.functions.append(_Function(self._whole(match["function"]), result, accepts))
        self._around.append("")

    def _take_scope(self, match: re.Match[str]) -> None:
        self._around.append(match["space"].strip())

    def _take_mark(self, match: re.Match[str]) -> None:
        if match["mark"] == "{":
            self._around.append("")
        elif match["mark"] == "}":
            self._around[-1:] = []


def _kernel(code: str, at: int) -> tuple[str, int] | None:
    """Return the name of the kernel that is declared after *at*, and the position where the name ends.

    A name with parentheses that comes before the kernel's name is an attribute or a macro.
    """
    stop = re.compile(r"[;{}]").search(code, at)
    limit = stop.start() if stop else len(code)
    while (match := _NAME.search(code, at, limit)) is not None:
        at = end_of(code, match.end(), "(")
        after = code[at : at + 200].lstrip()
        if after[:1] in {"{", ";", ""} or after.startswith(("requires", "noexcept")):
            return match[1], match.end(1)
    return None


def _end_of_body(code: str, at: int) -> int:
    found = re.compile(r"[;{]").search(code, at)
    if found is None:
        return len(code)
    return end_of(code, found.end(), "{") if found[0] == "{" else found.end()


def end_of(code: str, at: int, opened: str) -> int:
    """Return the position after the bracket that closes the one before *at*; the text's end if none does."""
    pending = [_CLOSES[opened]]
    for index in range(at, len(code)):
        char = code[index]
        # Between parentheses, < and > are comparisons.
        if char in "([{" or (char == "<" and pending[-1] == ">"):
            pending.append(_CLOSES[char])
        elif char == pending[-1]:
            pending.pop()
            if not pending:
                return index + 1
    return len(code)


def parts(text: str) -> list[str]:
    """Return the parts of a text between commas, except commas inside brackets."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] in _CLOSES:
            at = end_of(text, at + 1, text[at])
            continue
        if text[at] == ",":
            found.append(text[start:at])
            start = at + 1
        at += 1
    return [part.strip() for part in (*found, text[start:]) if part.strip()]


def _parameter(text: str, concepts: set[str]) -> TemplateParameter:
    written, has_default = _without_default(text)
    if match := re.match(r"template\s*<", written):
        end = end_of(written, match.end(), "<")
        return TemplateParameter(
            "template", written[match.end() : end - 1], _last_word(written), has_default=has_default
        )
    is_pack = "..." in written
    written = " ".join(written.replace("...", " ").split())
    name = _last_word(written)
    constraint = written.removesuffix(name).strip().partition("<")[0].rpartition("::")[2]
    if _TYPE.fullmatch(written) or constraint in concepts or constraint in {"integral", "floating_point"}:
        return TemplateParameter("type", constraint, name, is_pack, has_default)
    function = re.search(r"\(\s*[*&]\s*(\w*)\s*\)", written)
    if function:
        return TemplateParameter("value", written, function[1], is_pack, has_default)
    type_ = written.removesuffix(name).strip()
    # A type of one word, without a name.
    return TemplateParameter("value", type_ or name, name if type_ else "", is_pack, has_default)


def _without_default(text: str) -> tuple[str, bool]:
    at = 0
    while at < len(text):
        if text[at] in _CLOSES:
            at = end_of(text, at + 1, text[at])
            continue
        if text[at] == "=":
            return text[:at].strip(), True
        at += 1
    return text.strip(), False


def _without_name(text: str) -> str:
    """Return a function parameter's type, without the parameter's name."""
    return (
        re.sub(r"(?<=[\s*&])\w+$", "", text.strip()).strip()
        if re.search(r"[\s*&]\w+$", text)
        else text.strip()
    )


def _last_word(text: str) -> str:
    match = re.search(r"\w+$", text)
    return match[0] if match else ""


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _on_one_line(text: str) -> str:
    return re.sub(r"\\\r?\n", " ", text)


def examples(found: Declared, kernels: Sequence[Kernel]) -> list[str]:
    """Return an example for each kernel that is a template."""
    return [*dict.fromkeys(found.example(kernel) for kernel in kernels if kernel.parameters)]
