"""About entries of `instantiate`: each at its line of the table, with the kernel that it may mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from ...sources.source import without_comments
from ...table.checks import guess
from ..diagnostics import Diagnostic
from .kernels import Declared, Kernel, declared
from .names import undefined
from .setting import Setting

_ENTRY = re.compile(r"\s*#pragma nv_mangled_name (.*)")
_FOR_THE_DEVICE = re.compile(r"cannot form address of a non-__global__")
_UNKNOWN = re.compile(r'identifier "(\w+)" is undefined|has no member "(\w+)"')
_DECLARED = re.compile(
    r"\b(?:struct|class|enum|union|using|typename|typedef[^;{}]*)\s+([A-Za-z_]\w*)\s*[:={;<]"
)
_WORD = re.compile(r"\w+")
_BUILTIN = ("float", "double", "int", "unsigned", "char", "short", "long", "bool", "half", "true", "false")


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
    names = {kernel.base for kernel in _declared(setting).kernels}
    return [each for entry, each in entries.items() if each.hint or names.isdisjoint(_WORD.findall(entry))]


def _located(entry: str, error: Diagnostic, setting: Setting) -> Diagnostic:
    text = error.text.removeprefix("instantiate: ")
    hint = _about(entry, error, setting)
    where = setting.place_of_entry(entry) or error.where
    return replace(error, text=f"instantiate: {entry!r}: {text}", where=where, context=(), hint=hint)


def _about(entry: str, error: Diagnostic, setting: Setting) -> str | None:
    if (told := undefined([error], setting)) is not None:
        return told[0].hint
    found = _declared(setting)
    base = re.split(r"[<(;]", entry)[0].strip()
    rest = re.search(r"[(;][^<>]*$", entry)
    arguments = entry[len(base) : rest.start() if rest else None].strip()
    if match := _UNKNOWN.search(error.text):
        unknown = match[1] or match[2]
        if unknown in _WORD.findall(base):
            return _another_kernel(base, arguments, found.kernels)
        return _another_type(unknown, entry, setting)
    if _FOR_THE_DEVICE.search(error.text):
        return _about_function(base, found, setting)
    if rest:
        return f"write its name and its template's arguments alone: {base}{arguments or '<…>'}"
    mine = [each for each in found.kernels if f"::{each.name}".endswith(f"::{base.removeprefix('::')}")]
    return _about_template(entry, mine[0], found) if mine else None


def _about_function(name: str, found: Declared, setting: Setting) -> str:
    """Return what to do about an entry that names a function for the device."""
    what = f"'{name}' is no kernel, and is compiled with the kernels that call it: drop the entry"
    return (
        what
        if found.kernels
        else f"{what}; a file without kernels: {setting.line('exclude', [setting.path])}"
    )


def _about_template(entry: str, kernel: Kernel, found: Declared) -> str:
    if kernel.template:
        what = f"its template is '{kernel.template}' ({kernel.where})"
        example = found.example(kernel)
        return what if "".join(example.split()) == "".join(entry.split()) else f'{what}, as in "{example}"'
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


def _declared(setting: Setting) -> Declared:
    """Return what the source and its headers declare."""
    return declared({path: setting.text_of(path) for path in (setting.path, *setting.headers)})


def _texts(setting: Setting) -> dict[str, str]:
    return {path: without_comments(setting.text_of(path)) for path in (setting.path, *setting.headers)}
