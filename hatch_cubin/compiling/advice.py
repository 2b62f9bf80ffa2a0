"""Explain the errors of a failed compile: report each cause once, with a location and a hint.

Each function in `_CAUSES` recognises one cause of errors. The first argument of a function in `_CAUSES`
contains the errors of one source, as `diagnostics.py` has parsed them from the compiler's log. The second
argument of a function in `_CAUSES` is a `FailedCompile`: the source, its headers, the settings in
pyproject.toml, and the version of CUDA. A function in `_CAUSES` that recognises its cause returns a pair: one
error with a hint, which replaces all errors with this cause, and a list of the errors with other causes. A
function that does not recognise its cause returns None.

To add a new hint, write a function for its cause in a module of `hints/`, and add the function to `_CAUSES`.
To add a hint to the compiler's own error, return `replace(error, hint="…")`. To replace the error by one with
a different text, return `diagnostics.failure(code, text, place, hint)`. To add a hint about an undefined
name, add a row to a table in `hints/undefined_names.py`; a new function is not needed.

`Bake._with_advice` in `bake.py` calls `advise` for each failed compile. `require` in `results.py` calls
`merge` in `diagnostics.py` so that equal errors become one error, and calls `hints/merge_pasteable.py` so
that users can paste the lines of several hints at once. The `CompileError` that `require` raises contains all
errors of the build; `errors.py` prints the errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..project.source import Source
from .call_options import place_of_options
from .diagnostics import NO_KERNEL, Diagnostic
from .hints import (
    conditions,
    follow_ups,
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

_MISSING = "not open source file"  # Part of the compiler's message about a missing header.
# How many lines to show before and after an error in a source that a script has produced.
_LINES_AROUND = 2
_FOLLOWS = "<error-"  # the compiler's name for a type or constant that it could not determine
# Matches a hint with a line for pyproject.toml that sets `define`, `options` or `variants`.
_SETS_OPTIONS = re.compile(r"(?<!write )\b(?:define|options|variants) = ")
# How many lines of an include chain to show: the last lines, which are about the project's own files.
_LONGEST_CHAIN = 5
# The functions that recognise causes of errors. They are called in this order until one function recognises a
# cause. The errors that have other causes are then passed to all functions again.
_CAUSES = (
    not_cuda.not_text,
    not_cuda.other_language,
    not_cuda.characters,
    not_cuda.tile_code,
    macros.in_built_in_header,
    macros.not_of_call,
    host_code.included_for_hosts,
    headers.missing,
    not_cuda.statements,
    headers.older_than_cuda,
    language.needs_of_source,
    macros.used_in_header,
    other_sources.unresolved,
    undefined_names.misspelled,
    undefined_names.unqualified,
    undefined_names.of_unknown_namespace,
    undefined_names.undefined,
    host_code.unannotated,
    host_code.variables,
    host_code.calls,
    undefined_names.not_given,
    macros.beside_error,
    follow_ups.of_unfinished_header,
    follow_ups.of_unknown_type,
)


def advise(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    """Return the errors of a failed compile with hints; merge errors that have the same cause."""
    of_source = _causes([each for each in found if instantiations.entry_of(each) is None])
    explained = (instantiations.with_entry(each, failed) for each in _explained(of_source, failed))
    told = [*explained, *instantiations.wrong_entries(found, failed)]
    told = [host_code.with_exclusion(each, failed) for each in told]
    if failed.module.front:
        told = [_without_lines_of_call(each, failed) for each in told]
    told = [_with_produced_lines(_with_include_chain(each, failed), failed) for each in told]
    return [_in_file(each, failed.module.source) for each in told]


def _causes(found: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """Leave out errors in other packages' headers if an error in the project probably caused them."""
    own = [each for each in found if each.is_own]
    rest = [each for each in found if each.is_own or _FOLLOWS not in "".join((each.text, *each.context))]
    return rest if own else found


def _in_file(error: Diagnostic, source: Source) -> Diagnostic:
    """If an error is in the text of a recorded call, return the error with its line in the call's file."""
    where = error.where
    if source.recorded is None or where is None or where.path != source.path or where.line is None:
        return error
    return replace(error, where=where._replace(line=source.line_in_file(where.line)))


def _without_lines_of_call(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Replace a hint that suggests options in pyproject.toml, which do not apply to a recorded call."""
    if error.hint is None or not _SETS_OPTIONS.search(error.hint):
        return error
    hint = (
        "correct the source text, or the options of the call that compiles the text: "
        "the call fails at run time too"
    )
    if (table_or_settings := place_of_options(failed.config, failed.module.source)) is not None:
        hint = (
            f"write all options of the library's call into {table_or_settings}; if all options are there, "
            "the call fails at run time too: correct the source text, or the options of the call"
        )
    return replace(error, hint=hint)


def _explained(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    for cause in _CAUSES:
        if (told := cause(found, failed)) is not None:
            first, others = told
            return [first, *_explained(others, failed)]
    return [_without_kernel(each, failed) for each in _first_of_each_header(found)]


def _first_of_each_header(found: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield all errors in files of the project, and the first error in each header outside the project."""
    outside = Counter(each.where.path for each in found if each.where is not None and not each.is_own)
    for each in found:
        number = 1 if each.where is None or each.is_own else outside.pop(each.where.path, 0)
        if number:
            yield each.followed_by(number - 1)


def _with_include_chain(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Add the chain of includes to an error that is in another package's header or about a missing header."""
    if error.where is None or (error.is_own and _MISSING not in error.text):
        return error
    shown = tuple(
        f"included from {step.where}" for step in reversed(failed.include_chains.get(error.where.path, ()))
    )
    cut = ("…",) if len(shown) > _LONGEST_CHAIN else ()
    chain = (*cut, *shown[-_LONGEST_CHAIN:])
    # Comparisons leave out the field `include_chain`, so that equal errors of several sources are merged.
    if error.is_own:
        return replace(error, include_chain=chain)
    return replace(error, context=(*error.context, *chain))


def _with_produced_lines(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """If a script produced the source, add the script's name and the source lines around the error."""
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
