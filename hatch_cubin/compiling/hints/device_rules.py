"""Hints about features that C++ for the device does not have, and their replacements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

# Patterns for the compiler's message, with the types of arguments below it, and the hints.
_RULES = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (
            r"device code does not support exception handling",
            "leave try, catch and throw out: a kernel writes an error into memory, or ends with __trap()",
        ),
        (
            r"dynamic initialization is not supported for an? __\w+__ variable",
            "give it a constant value, as a constexpr constructor has, or set it in a kernel",
        ),
        (
            r"initializer not allowed for __shared__ variable",
            "declare it without a value, and let a thread set it before a __syncthreads()",
        ),
        (
            r"A __global__ function or function template cannot be a member",
            "move it out of the class: kernels can be in a namespace",
        ),
        (
            r"a __global__ function must have a void return type",
            "write void, and give it a pointer that it writes its result to",
        ),
        (
            r"(?s)overloaded function \"atomic(?:Max|Min)\".*\((?:float|double) \*",
            "CUDA has it for integers: for other types, write a loop with atomicCAS",
        ),
        (
            r"(?s)overloaded function \"atomicAdd\".*\(long long \*",
            "CUDA has it for unsigned long long, which gives the same bits: cast the pointer and the value",
        ),
        (
            r"(?s)no operator \"\[\]\".*\[ const uint3 \]|no suitable conversion .* from \"const uint3\"",
            "threadIdx and blockIdx have three parts: write threadIdx.x",
        ),
        (
            r"(?s)expression must have a constant value.*\b__shared__\b[^=;\n]*\[",
            "write extern __shared__ and [] without a size, and give its bytes where the kernel is launched",
        ),
        (
            r"(?s)expression must have a constant value.*[;{\n]\s*(?!case\b|return\b)(?:[\w:<>]+ +)+\w+\s*\[",
            "an array has a fixed size: write a number, a macro, or a parameter of a template",
        ),
    )
)
_LATER = re.compile(r"\b(?:is|are) a C\+\+(20|23) feature")
_NEEDED = re.compile(r"requires (?:at least )?C\+\+ ?(\d\d)\b")
_OF_CXX20 = re.compile(r"(?:requires|concept|consteval|constinit|co_await|co_yield)\b")
_OF_C = re.compile(r'may not have extern "C" linkage|linkage specification is not allowed')
_NO_TOKEN = re.compile(r"unrecognized token|expected a file name")
_UNFINISHED = re.compile(r'expected a ";"|linkage specification is not allowed|"template" is not allowed')
_TYPE = re.compile(r"\b(struct|class|union|enum)\b[^;{}()]*\Z")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
# A list such as {1, 2, may go on below an include; a macro's call may be a whole declaration.
_IS_FINISHED = re.compile(r"[;}{,:]\Z|^[ \t]*[A-Z][A-Z0-9_]*[ \t]*(?:\(.*\))?\Z", re.MULTILINE)
_OF_SYNTAX = re.compile(r"expected|not allowed|not permitted|illegal|invalid|storage class")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')


def standards(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a header that needs a later C++, instead of the errors that follow."""
    for each in found:
        if each.hint is None and "#error" in each.text and (match := _NEEDED.search(each.text)):
            hint = f"this sets C++{match[1]}:{failed.pasted('options', {'std': f'c++{match[1]}'})}"
            return replace(each, hint=hint).followed_by(len(found) - 1), []
    return None


def broken(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report the first error about a feature that device code does not have."""
    for each in found:
        if each.is_own and each.hint is None and (hint := _about(each, failed)) is not None:
            others = [other for other in found if other is not each]
            return replace(each, hint=hint), others
    return None


def _about(error: Diagnostic, failed: FailedCompile) -> str | None:
    said = "\n".join((error.text, *error.context[:1]))
    if match := _LATER.search(error.text):
        return f"C++{match[1]} has it:{failed.pasted('options', {'std': f'c++{match[1]}'})}"
    code, mark = (*error.context[:2], "", "")[:2]
    is_later = str(failed.module.options.get("std", ""))[-2:] in {"20", "23"}
    if not is_later and mark.strip() == "^" and _OF_CXX20.match(code, mark.index("^")):
        return f"C++20 has it:{failed.pasted('options', {'std': 'c++20'})}"
    if _OF_C.search(error.text) and "template" in "".join(error.context[:1]):
        return "a template cannot be extern \"C\": leave that out, and name its arguments in 'instantiate'"
    return next((hint for pattern, hint in _RULES if pattern.search(said)), None)


def characters(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a non-ASCII character outside of quotes and comments, without the errors that follow."""
    for each in found:
        if each.where is None or not each.is_own or not _NO_TOKEN.search(each.text):
            continue
        lines = without_comments(failed.text_of(each.where.path)).splitlines()
        line = _QUOTED.sub("", "".join(lines[(each.where.line or 1) - 1 :][:1]))
        strange = next((char for char in line if not char.isascii()), None)
        if strange is not None:
            others = [other for other in found if other.where != each.where]
            hint = f"{_named(strange)} stands here: outside of quotes and comments, code has ASCII alone"
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def unfinished(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a struct or similar type without its semicolon, instead of the error in the line below."""
    for each in found:
        if each.is_own and each.where is not None and _UNFINISHED.fullmatch(each.text):
            text = without_comments(failed.text_of(each.where.path))
            before = "".join(text.splitlines(keepends=True)[: (each.where.line or 1) - 1]).rstrip()
            if (kind := _kind_of_last_block(before)) is not None:
                place = Location(each.where.path, before.count("\n") + 1)
                others = [other for other in found if other.where != each.where]
                told = replace(each, hint=f"write ; behind the }} of the {kind} ({place})")
                return told.followed_by(len(found) - len(others) - 1), others
    return None


def unfinished_header(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a header whose last declaration has no semicolon, instead of the error below its include."""
    for header in failed.headers:
        text = _DIRECTIVE.sub(_blank, without_comments(failed.text_of(header))).rstrip()
        way = failed.include_chains.get(header, ())
        if not text or not way or (_IS_FINISHED.search(text) and _kind_of_last_block(text) is None):
            continue
        include, last = way[-1].where, Location(header, text.count("\n") + 1)
        below = _first_below(include, failed)
        failing = (each for each in found if each.where in {below, last})
        first = next((each for each in failing if _OF_SYNTAX.search(each.text)), None)
        if first is not None:
            hint = f"write ; at the end of {last}, whose last declaration is not finished"
            return replace(first, hint=hint).followed_by(len(found) - 1), []
    return None


def _first_below(include: Location, failed: FailedCompile) -> Location | None:
    """Return the location of the first code after an include."""
    text = _DIRECTIVE.sub(_blank, without_comments(failed.text_of(include.path)))
    lines = enumerate(text.splitlines(), start=1)
    found = (number for number, line in lines if number > (include.line or 0) and line.strip())
    number = next(found, None)
    return None if number is None else Location(include.path, number)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _kind_of_last_block(text: str) -> str | None:
    """Return the keyword of the type definition at the end of a text; None if it ends differently."""
    depth = 0
    for at in range(len(text) - 1, -1, -1) if text.endswith("}") else ():
        depth += {"}": 1, "{": -1}.get(text[at], 0)
        if depth == 0:
            match = _TYPE.search(text[:at])
            return match[1] if match else None
    return None


def _named(char: str) -> str:
    import unicodedata  # lazy: few compiles fail so

    shown = f"{char!r} " if char.isprintable() else ""
    return f"{shown}U+{ord(char):04X} ({unicodedata.name(char, 'without a name').lower()})"
