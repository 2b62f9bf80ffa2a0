"""Turn the output of a compile into a result that can be loaded, or into a list of errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .. import loader
from ..cache.entries import Compiled
from ..cubin import elf, kernel_names, objects
from ..errors import Location
from ..keys.jobs import request_of
from ..planning.unit_plan import Module, Unit
from ..project.source import ptx_entries
from ..project.tile_kernels import kernel_kinds
from . import diagnostics, executor
from .diagnostics import Diagnostic, failure

_OPTION = re.compile(r"\bfor (?:option )?--([a-z][a-z-]*)")


def outcome_of(
    unit: Unit, result: executor.Result, found: Sequence[Diagnostic]
) -> Compiled | list[Diagnostic]:
    """Return a unit's compiled code and the names of its kernels, or the unit's errors."""
    source = unit.module.source
    if not result.ok:
        errors = [_at_its_option(each, unit.module) for each in found if each.kind == "error"]
        return errors or [_unreadable(result.log, source.path)]
    if lost := diagnostics.redefined(found, dict(unit.module.variant)) or _left_out(unit.module, result):
        return lost
    where = Location(source.path)
    if (wrong := why_wrong(unit, result)) is not None:
        return [failure("wrong-compiler-result", wrong, where)]
    cubin = None if unit.module.part_of else elf.read_cubin(result.output)
    if cubin is not None and not cubin.loadable:
        return [
            failure("result-not-loadable", "the compiled code is relocatable, and cannot be loaded", where)
        ]
    if cubin is not None and not {*cubin.kernels} - {elf.PLACEHOLDER_OF_TILEIRAS}:
        return [failure("source-without-kernels", diagnostics.NO_KERNEL, where)]
    return _compiled(unit, result)


def _left_out(module: Module, result: executor.Result) -> list[Diagnostic]:
    """Return an error if a source with tile kernels includes a header with kernels that are not tile kernels.

    A source that itself defines only tile kernels is compiled once, as tile code, so the wheel would not
    contain the header's other kernels. The function returns no error if the source itself also defines a
    kernel that is not a tile kernel, because this source is compiled a second time, which adds all kernels
    that are not tile kernels.
    """
    if not module.is_tile or kernel_kinds(module.source).other:
        return []
    others = map(kernel_names.demangle, ptx_entries(result.ptx.decode("utf-8", "replace"))[:1])
    where, hint = Location(module.source.path), "include the header in a source without tile code"
    return [
        failure(
            "kernel-beside-tile-kernels",
            f"the source has only tile kernels, so the wheel would not contain {name!r}, "
            "a kernel without tile code in a header",
            where,
            hint,
        )
        for name in others
    ]


def why_wrong(unit: Unit, result: executor.Result) -> str | None:
    """Return why a result cannot be the compiled code of *unit*; None if it can be.

    The function does not check whether the result contains a kernel and can be loaded, because that depends
    on the source and not on the compiler.
    """
    is_object = bool(unit.module.part_of)
    try:
        if is_object:
            objects.kind_of(result.output)
        made = _compiled(unit, result)
        symbols = () if unit.arch.is_ptx or is_object else made.kernels.values()
        wrong = request_of(unit).mismatch(made.kernels, [*symbols], made.data, is_object=is_object)
    except ValueError as exc:
        wrong = str(exc)
    return f"the compiler's result {wrong}" if wrong else None


def _compiled(unit: Unit, result: executor.Result) -> Compiled:
    """Return the compiled code of a unit and the names of its kernels."""
    symbols = {loader.normal_name(spelled): symbol for spelled, symbol in result.symbols.items()}
    if unit.module.part_of:
        return Compiled(result.output, symbols)
    code, kernels = code_of(unit, result), elf.read_cubin(result.output).kernels
    if unit.arch.is_ptx:
        kernels = ptx_entries(code.decode("utf-8", "replace"))
    return Compiled(code, kernel_names.kernels_by_name(kernels, symbols))


def code_of(unit: Unit, result: executor.Result) -> bytes:
    """Return the code of a unit from a compile's output: the cubin or the PTX."""
    if not unit.arch.is_ptx:
        return result.output
    return unit.module.source.text.encode() if unit.module.source.is_ptx else result.ptx


def _at_its_option(error: Diagnostic, module: Module) -> Diagnostic:
    """Set the location of an error about a compiler option to the option's line in pyproject.toml."""
    option = _OPTION.search(error.text)
    where = module.setting_lines.get(option[1].replace("-", "_")) if option else None
    return error if where is None else replace(error, where=where)


def _unreadable(log: str, path: str) -> Diagnostic:
    lines = log.strip().splitlines() or ["the compiler failed without a message"]
    return Diagnostic("error", Location(path), lines[0], tuple(lines[1:20]))
