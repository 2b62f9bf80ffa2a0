"""Advice on a failed compile: each cause is reported once, with its origin and the way to fix it.

Each function in `_CAUSES` recognises one cause. It gets the errors of a source, which `diagnostics.py` has
parsed from the compiler's log, and the `FailedCompile`: the source, its headers, the table and the version of
CUDA. If it recognises its cause, it returns one error with a hint for the user, and the list of the errors
that the cause does not explain. Otherwise it returns None.

A new hint is such a function in a module of `hints/`: add it to `_CAUSES`. It returns either the compiler's
own error with a hint, `replace(error, hint="…")`, or an error in hatch-cubin's words,
`diagnostics.failure(code, text, place, hint)`. A hint about an undefined name is only a row in a table of
`hints/undefined_names.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .diagnostics import NO_KERNEL, Diagnostic
from .hints import (
    conditions,
    headers,
    host_code,
    instantiations,
    language,
    macros,
    not_cuda,
    other_sources,
    undefined_names,
)
from .hints.failed_compile import FailedCompile

_MISSING = "not open source file"  # the words after "could" or "can"
_LINES_AROUND = 2  # lines of a produced text before and after the line of an error
_LONGEST_CHAIN = 5  # most lines of an include chain that are shown; the last ones are the project's own
# The first cause that matches reports one error and takes the errors that it explains; the search then starts
# again with the rest.
_CAUSES = (
    not_cuda.not_text,
    not_cuda.other_language,
    not_cuda.characters,
    not_cuda.tile_code,
    macros.in_built_in_header,
    host_code.included_for_hosts,
    headers.missing,
    headers.older_than_cuda,
    language.needs_of_source,
    macros.used_in_header,
    other_sources.unresolved,
    undefined_names.undefined,
    host_code.unannotated,
    host_code.variables,
    host_code.calls,
    undefined_names.not_given,
    macros.beside_error,
)


def advise(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    """Return the errors of a source that failed, with advice. Errors with the same cause are merged."""
    of_source = [each for each in found if instantiations.entry_of(each) is None]
    explained = (instantiations.with_entry(each, failed) for each in _explained(of_source, failed))
    told = [*explained, *instantiations.wrong_entries(found, failed)]
    return [_with_produced_lines(_with_include_chain(each, failed), failed) for each in told]


def _explained(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    for cause in _CAUSES:
        if (told := cause(found, failed)) is not None:
            first, others = told
            return [first, *_explained(others, failed)]
    return [_without_kernel(each, failed) for each in _first_of_each_header(found)]


def _first_of_each_header(found: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the errors; of several in one header outside the project, only the first, with their number."""
    outside = Counter(each.where.path for each in found if each.where is not None and not each.is_own)
    for each in found:
        number = 1 if each.where is None or each.is_own else outside.pop(each.where.path, 0)
        if number:
            yield each.followed_by(number - 1)


def _with_include_chain(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Add the include chain to an error in a header outside the project, or about a header that it misses."""
    if error.where is None or (error.is_own and _MISSING not in error.text):
        return error
    shown = tuple(
        f"included from {step.where}" for step in reversed(failed.include_chains.get(error.where.path, ()))
    )
    cut = ("…",) if len(shown) > _LONGEST_CHAIN else ()
    chain = (*cut, *shown[-_LONGEST_CHAIN:])
    if error.is_own:  # reported once for all sources
        return replace(error, include_chain=chain)
    return replace(error, context=(*error.context, *chain))


def _with_produced_lines(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Add the lines around an error in a source that is not on the disk, and the script that produced it."""
    source = failed.module.source
    if source.produced is None or error.where is None or error.where.path != source.path:
        return error
    line, lines = error.where.line or 1, source.text.splitlines()
    first = max(1, line - _LINES_AROUND)
    shown = (
        f"{number:5} | {text}".rstrip()
        for number, text in enumerate(lines[first - 1 : line + _LINES_AROUND], first)
    )
    by = f"produced by {source.produced.producer}" + (":" if error.where.line else "")
    return replace(error, context=(*error.context, by, *(shown if error.where.line else ())))


def _without_kernel(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    is_empty = error.text == NO_KERNEL
    return replace(error, otherwise=conditions.about_no_kernel(failed)) if is_empty else error
