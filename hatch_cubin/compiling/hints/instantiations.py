"""Hints about wrong entries of `instantiate`; each hint shows the entry's line in pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...config.toml_lines import source_table
from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import Diagnostic
from .failed_compile import FailedCompile
from .kernel_declarations import Kernel, about_extern_template, declared, examples
from .undefined_names import undefined

_ENTRY = re.compile(r"\s*#pragma nv_mangled_name (.*)")
_FOR_THE_DEVICE = re.compile(r"cannot form address of a non-__global__")
_UNKNOWN = re.compile(r'identifier "(\w+)" is undefined|has no member "(\w+)"')
_INSTANTIATED = re.compile(r'detected during instantiation of "void ([\w:]+)[(<]')
_FOLLOWS = re.compile("Error in parsing name expression")
_MOST = 5  # The most templates that a hint lists.
_CLASS = re.compile(r"\b(?:class|struct)\s+(\w+)")
_WORD = re.compile(r"\w+")


def entry_of(error: Diagnostic) -> str | None:
    """Return the entry of `instantiate` that an error is about; None if the error is about the source."""
    matches = filter(None, map(_ENTRY.match, error.context))
    return next((match[1].strip() for match in matches), None)


def wrong_entries(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    """Return one error for each wrong entry of `instantiate`.

    If the source itself has errors, errors about entries for its kernels are left out: an error in a kernel
    causes errors in all entries for this kernel.
    """
    first: dict[str, Diagnostic] = {}
    for each in found:
        if (entry := entry_of(each)) is not None:
            first.setdefault(entry, each)
    located = {entry: _located(entry, error, failed) for entry, error in first.items()}
    entries = _once_for_each_product(located, first, failed)
    if all(entry_of(each) is not None for each in found):
        return [*entries.values()]
    names = {kernel.base for kernel in _kernels(failed)}
    return [each for entry, each in entries.items() if each.hint or names.isdisjoint(_WORD.findall(entry))]


def _once_for_each_product(
    entries: Mapping[str, Diagnostic], first: Mapping[str, Diagnostic], failed: FailedCompile
) -> dict[str, Diagnostic]:
    """Return the errors without repetitions: a table in `instantiate` may cause the same error many times.

    An error is left out if another error about the same table has the same text or has caused it. *first*
    maps each instantiation to the compiler's own error. *entries* maps each instantiation to the error to
    report, which contains the instantiation's place in pyproject.toml and perhaps a hint.
    """
    kept: dict[str, Diagnostic] = {}
    told = set[tuple[Location | None, str | None]]()
    for entry, error in entries.items():
        if failed.is_of_product(entry):
            said, follows = first[entry].text, _FOLLOWS.search(first[entry].text)
            if {(error.where, said), (error.where, error.hint)} & told or (
                follows and (error.where, "") in told
            ):
                continue
            told |= {(error.where, text) for text in (said, error.hint, "") if text is not None}
        kept[entry] = error
    return kept


def with_entry(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Add the entry of `instantiate` to an error in a kernel template, if the template has only one entry."""
    names = (match[1] for line in error.context if (match := _INSTANTIATED.search(line)))
    entries = [each for name in names for each in failed.module.instantiate if _name_of(each) == name]
    where = failed.place_of_entry(entries[0]) if entries and {*entries} == {entries[0]} else None
    if where is None:
        return error
    context = (*error.context, f"    in the instantiation of {entries[0]!r} ({where})")
    return replace(error, context=context, hint=error.hint or _about_new_class(entries[0], failed))


def _about_new_class(entry: str, failed: FailedCompile) -> str | None:
    """Return a hint if an entry such as `scale<class T>` declares a class that is not defined."""
    if (match := _CLASS.search(entry)) is None:
        return None
    defined = re.compile(rf"\b(?:class|struct)\s+{match[1]}\b[^;()<>]*{{")
    if any(defined.search(failed.text_of(path)) for path in (failed.path, *failed.headers)):
        return None
    base = _name_of(entry).rpartition("::")[2]
    return next((_about_template(entry, each) for each in _kernels(failed) if each.base == base), None)


def _name_of(entry: str) -> str:
    return re.sub(r"\s", "", entry.partition("<")[0])


def _located(entry: str, error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    text = error.text.removeprefix("instantiate: ")
    hint = _about(entry, error, failed)
    where = failed.place_of_entry(entry) or error.where
    return replace(error, text=f"instantiate: {entry!r}: {text}", where=where, context=(), hint=hint)


def _about(entry: str, error: Diagnostic, failed: FailedCompile) -> str | None:
    if (told := undefined([error], failed)) is not None:
        return told[0].hint
    if _FOR_THE_DEVICE.search(error.text):
        return "only kernels need an entry: device functions are compiled with the kernels that call them"
    match = _UNKNOWN.search(error.text)
    unknown = (match[1] or match[2]) if match else ""
    kernels, words = _kernels(failed), _WORD.findall(entry)
    kernel = next((each for each in kernels if each.base in words), None)
    if unknown and (enumeration := _enumeration_of(unknown, failed)):
        right = re.sub(rf"\b{unknown}\b", f"{enumeration}::{unknown}", entry)
        return f'{unknown} is a value of the enumeration {enumeration}: write "{right}"'
    if kernel is None:
        return _about_unknown(entry, unknown, kernels, failed)
    # If the kernel is unknown, an `#if` may hide the kernel from the compiler.
    is_hidden = unknown in kernel.name.split("::") and _name_of(entry) == kernel.name
    return None if is_hidden else _about_template(entry, kernel)


def _enumeration_of(name: str, failed: FailedCompile) -> str | None:
    """Return the `enum class` of the source or its headers that has a value of this name."""
    scoped = re.compile(r"\benum\s+(?:class|struct)\s+(\w+)[^{};]*\{[^{}]*\b" + re.escape(name) + r"\b")
    texts = (without_comments(failed.text_of(path)) for path in (failed.path, *failed.headers))
    return next((match[1] for match in map(scoped.search, texts) if match), None)


def _about_template(entry: str, kernel: Kernel) -> str:
    if not kernel.template:
        return f"'{kernel.name}' ({kernel.where}) is not a template, so remove its entry"
    if "".join(kernel.example.split()) == "".join(entry.split()):
        return f"the kernel's template is '{kernel.template}' ({kernel.where})"
    return (
        f"the kernel's template is '{kernel.template}' ({kernel.where}): "
        f'write for example "{kernel.example}"'
    )


def _about_unknown(entry: str, unknown: str, kernels: Sequence[Kernel], failed: FailedCompile) -> str | None:
    """Return a hint for an entry of `instantiate` that does not name a kernel of the source."""
    name = _name_of(entry).rpartition("::")[2]
    having = {
        path: written
        for path, text in failed.sources.items()
        if (written := failed.shared_entry(path, entry))
        and any(each.base == name for each in declared({path: text}))
    }
    if having:
        tables = "".join(
            source_table(failed.module.source_table_header, path, instantiate=[written])
            for path, written in having.items()
        )
        return (
            f"{failed.path} does not have a template {name!r}: "
            f"remove the entry from this table, and add:{tables}"
        )
    listed = ", ".join(map(repr, examples(kernels)[:_MOST])) if unknown == name else ""
    if not listed:
        return None
    return f"the templates of {failed.path}, each with an example of its arguments, are: {listed}"


def about_missing(failed: FailedCompile) -> str | None:
    """Return a hint if a kernel that `instantiate` lists is missing from the compiled code."""
    names = {_name_of(entry).rpartition("::")[2] for entry in failed.module.instantiate}
    texts = {path: failed.text_of(path) for path in (failed.path, *failed.headers)}
    if (hint := about_extern_template(names, texts)) is not None:
        return hint
    found = [kernel for kernel in _kernels(failed) if kernel.base in names]
    defined = {kernel.base for kernel in found if kernel.code.endswith("}")}
    only = next((kernel for kernel in found if kernel.base not in defined), None)
    if only is None and failed.module.has_tile_code:
        return (
            "hatch-cubin does not search headers and macros for tile kernels: "
            f"if the kernel is a tile kernel, declare it with __tile_global__ in {failed.path}"
        )
    return only and f"'{only.name}' ({only.where}) is only declared: define it, or include its definition"


def _kernels(failed: FailedCompile) -> tuple[Kernel, ...]:
    """Return the kernels in the source and its headers."""
    return declared({path: failed.text_of(path) for path in (failed.path, *failed.headers)})
