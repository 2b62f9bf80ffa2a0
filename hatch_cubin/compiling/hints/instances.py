"""About entries of `instantiate`: each at its line of the table, with the kernel that it may mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...errors import Location
from ...sources.source import without_comments
from ...table.checks import guess
from ..diagnostics import Diagnostic
from .names import undefined
from .setting import Setting

_ENTRY = re.compile(r"\s*#pragma nv_mangled_name (.*)")
_UNKNOWN = re.compile(r'identifier "(\w+)" is undefined|has no member "(\w+)"')
_PIECE = re.compile(
    r"\bnamespace\s+(?P<space>[\w:]+)\s*\{|(?P<brace>[{}])"
    r"|(?P<template>\btemplate\s*<[^{};()]*>\s*)?__global__\b(?P<between>[^{};]*?)"
    r"\b(?!__\w+__\s*\()(?P<kernel>[A-Za-z_]\w*)\s*\("
)
_DECLARED = re.compile(
    r"\b(?:struct|class|enum|union|using|typename|typedef[^;{}]*)\s+([A-Za-z_]\w*)\s*[:={;<]"
)
_WORD = re.compile(r"\w+")
_BUILTIN = ("float", "double", "int", "unsigned", "char", "short", "long", "bool", "half", "true", "false")


class Kernel(NamedTuple):
    """A kernel that a file of the project has: its whole name, its template's head, and its place."""

    name: str
    template: str
    where: Location

    @property
    def base(self) -> str:
        """Its name without those of namespaces."""
        return self.name.rpartition("::")[2]


def entry_of(error: Diagnostic) -> str | None:
    """Return the entry of `instantiate` that an error is about; None where it is about the source."""
    matches = filter(None, map(_ENTRY.match, error.context))
    return next((match[1].strip() for match in matches), None)


def told(found: Sequence[Diagnostic], setting: Setting) -> list[Diagnostic]:
    """Return one error for each entry that is wrong.

    Where the source has errors too, what is wrong with a kernel that it has may only follow from them.
    """
    first: dict[str, Diagnostic] = {}
    for each in found:
        if (entry := entry_of(each)) is not None:
            first.setdefault(entry, each)
    entries = {entry: _located(entry, error, setting) for entry, error in first.items()}
    if all(entry_of(each) is not None for each in found):
        return [*entries.values()]
    names = {kernel.base for kernel in _kernels(setting)}
    return [each for entry, each in entries.items() if each.hint or names.isdisjoint(_WORD.findall(entry))]


def _located(entry: str, error: Diagnostic, setting: Setting) -> Diagnostic:
    text = error.text.removeprefix("instantiate: ")
    hint = _about(entry, error, setting)
    where = setting.place_of_entry(entry) or error.where
    return replace(error, text=f"instantiate: {entry!r}: {text}", where=where, context=(), hint=hint)


def _about(entry: str, error: Diagnostic, setting: Setting) -> str | None:
    if (told := undefined([error], setting)) is not None:
        return told[0].hint
    kernels = [*_kernels(setting)]
    base = re.split(r"[<(;]", entry)[0].strip()
    rest = re.search(r"[(;][^<>]*$", entry)
    arguments = entry[len(base) : rest.start() if rest else None].strip()
    if match := _UNKNOWN.search(error.text):
        unknown = match[1] or match[2]
        if unknown in _WORD.findall(base):
            return _another_kernel(base, arguments, kernels)
        return _another_type(unknown, entry, setting)
    if rest:
        return f"write its name and its template's arguments alone: {base}{arguments or '<…>'}"
    mine = [each for each in kernels if f"::{each.name}".endswith(f"::{base.removeprefix('::')}")]
    return _about_template(mine[0]) if mine else None


def _about_template(kernel: Kernel) -> str:
    if kernel.template:
        return f"its template is '{kernel.template}' ({kernel.where})"
    return f"'{kernel.name}' is no template ({kernel.where}), and needs no entry"


def _another_type(unknown: str, entry: str, setting: Setting) -> str | None:
    types = [*_BUILTIN, *(each for text in _texts(setting).values() for each in _DECLARED.findall(text))]
    close = difflib.get_close_matches(unknown, types, n=1) or [unknown]
    meant = re.sub(rf"\b{unknown}\b", close[0], entry)
    return None if meant == entry else f"did you mean {meant!r}?"


def _another_kernel(base: str, arguments: str, kernels: Sequence[Kernel]) -> str | None:
    """Return the guess for an entry whose kernel is unknown: the same name elsewhere, or one like it."""
    last = base.rpartition("::")[2]
    same = [each.name for each in kernels if each.base == last]
    close = same or difflib.get_close_matches(base, [each.name for each in kernels], n=1)
    close = close or [each.name for each in kernels if guess(last, [each.base])]
    return f"did you mean '{close[0]}{arguments}'?" if close and close[0] != base else None


def _texts(setting: Setting) -> dict[str, str]:
    return {path: without_comments(setting.text_of(path)) for path in (setting.path, *setting.headers)}


def _kernels(setting: Setting) -> Iterator[Kernel]:
    """Yield the kernels that the source and its headers have."""
    for path, text in _texts(setting).items():
        around: list[str] = []
        for match in _PIECE.finditer(text):
            if match["kernel"]:
                name = "::".join((*filter(None, around), match["kernel"]))
                line = text.count("\n", 0, match.end()) + 1
                yield Kernel(name, " ".join((match["template"] or "").split()), Location(path, line))
            elif match["brace"] == "}":
                around[-1:] = []
            else:
                around.append(match["space"] or "")
