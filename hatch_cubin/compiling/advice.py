"""Explain a failed compile: report each cause once, with its place and a hint how to fix it.

Each function in `_CAUSES` recognises one cause. The function gets the errors of a source, which
`diagnostics.py` has parsed from the compiler's log, and the `FailedCompile`: the source, its headers, the
table and the version of CUDA. If the function recognises its cause, it returns one error with a hint for the
user, and the list of the errors that the cause does not explain. Otherwise the function returns None.

A new hint is such a function in a module of `hints/`: add the function to `_CAUSES`. The function returns
either the compiler's own error with a hint, `replace(error, hint="…")`, or an error in hatch-cubin's words,
`diagnostics.failure(code, text, place, hint)`. A hint about an undefined name needs only a row in a table of
`hints/undefined_names.py`.

The errors then go to the user in these steps: `Bake._with_advice` in `bake.py` calls `advise`. `require` in
`results.py` raises one `CompileError` for all units, after `merge` in `diagnostics.py` has merged equal
errors and `hints/merge_pasteable.py` has merged the lines to paste. `errors.py` prints the `CompileError`.
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

_MISSING = "not open source file"  # part of the compiler's message about a missing header
_LINES_AROUND = 2  # lines of a produced text before and after the line of an error
# how many lines of an include chain are shown; the last lines are in the project's own files
_LONGEST_CHAIN = 5
# The functions that recognize causes, in the order in which they are tried. The first function that
# recognizes a cause returns one error for it, and the errors that the cause does not explain. Then the search
# starts again with these errors.
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
    """Return the errors of a failed compile with hints; errors with the same cause are merged."""
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
    """Add the chain of includes to an error in a header outside the project, or about a missing header."""
    if error.where is None or (error.is_own and _MISSING not in error.text):
        return error
    shown = tuple(
        f"included from {step.where}" for step in reversed(failed.include_chains.get(error.where.path, ()))
    )
    cut = ("…",) if len(shown) > _LONGEST_CHAIN else ()
    chain = (*cut, *shown[-_LONGEST_CHAIN:])
    if error.is_own:  # kept in a field that comparisons ignore, so that all sources share one message
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
    if error.code == "wrong-compiler-result":
        return replace(error, hint=instantiations.about_missing(failed))
    is_empty = error.text == NO_KERNEL
    return replace(error, otherwise=conditions.about_no_kernel(failed)) if is_empty else error
