"""Say what a compile gave a unit: the result that can be loaded, or what is wrong with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .._plan import Module, Unit
from ..bundle import runtime
from ..cache.entries import Compiled
from ..cubin import elf, names, objects
from ..errors import Location
from ..keys.jobs import request_of
from ..sources.source import ptx_entries
from . import diagnostics, executor
from .diagnostics import Diagnostic

_OPTION = re.compile(r"\bfor (?:option )?--([a-z][a-z-]*)")


def outcome_of(
    unit: Unit, result: executor.Result, found: Sequence[Diagnostic]
) -> Compiled | list[Diagnostic]:
    """Return the result and the names of its kernels if it can be loaded, or else what is wrong with it."""
    source = unit.module.source
    if not result.ok:
        errors = [_at_its_option(each, unit.module) for each in found if each.kind == "error"]
        return errors or [_unreadable(result.log, source.path)]
    if lost := diagnostics.redefined(found, dict(unit.module.variant)):
        return lost
    try:
        if (wrong := misfit(unit, result)) is None:
            return _compiled(unit, result)
    except ValueError as exc:
        wrong = f"the compiler's result {exc}"
    return [Diagnostic("error", Location(source.path), wrong)]


def misfit(unit: Unit, result: executor.Result) -> str | None:
    """Say how a result that its compiler calls good is not that of *unit*, whoever made it; None if it is.

    ValueError if the result is damaged.
    """
    if unit.module.part_of:
        objects.kind_of(result.output)
    else:
        cubin = elf.read_cubin(result.output)
        if not cubin.kernels:
            return diagnostics.NO_KERNEL
        if not cubin.loadable:
            return "the result is relocatable and cannot be loaded"
    made = _compiled(unit, result)
    symbols = () if unit.arch.is_ptx or unit.module.part_of else cubin.kernels
    wrong = request_of(unit).refusal(made.kernels, symbols, made.data, is_object=bool(unit.module.part_of))
    return None if wrong is None else f"the compiler's result {wrong}"


def _compiled(unit: Unit, result: executor.Result) -> Compiled:
    """Return a result with the names of its kernels, none of which was compared with anything."""
    symbols = {runtime.normal_name(spelled): symbol for spelled, symbol in result.symbols.items()}
    if unit.module.part_of:
        return Compiled(result.output, symbols)
    code = code_of(unit, result)
    kernels = ptx_entries(code.decode("utf-8", "replace")) if unit.arch.is_ptx else elf.read_cubin(code).kernels
    return Compiled(code, names.spelled_names(kernels, symbols))


def code_of(unit: Unit, result: executor.Result) -> bytes:
    """Return what a unit is of a compile: its cubin or its PTX; a PTX source is its own."""
    if not unit.arch.is_ptx:
        return result.output
    return unit.module.source.text.encode() if unit.module.source.is_ptx else result.ptx


def _at_its_option(error: Diagnostic, module: Module) -> Diagnostic:
    """Give an error about an option the place of that option: it stands in the table and in no source."""
    option = _OPTION.search(error.text)
    where = module.written.get(option[1].replace("-", "_")) if option else None
    return error if where is None else replace(error, where=where)


def _unreadable(log: str, path: str) -> Diagnostic:
    lines = log.strip().splitlines() or ["the compiler failed and said nothing"]
    return Diagnostic("error", Location(path), lines[0], tuple(lines[1:20]))
