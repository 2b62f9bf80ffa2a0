"""Tell which parameters the kernels of compiled files have: where each is, how large, of which type. Pure.

Where they are and how large they are stands in the files themselves. The types are those of a kernel's symbol
or, where it has none, of the source's text, if these fit what stands in the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .._plan import Module, Unit
from ..cache.entries import Compiled
from ..cubin.ptx import ptx_parameters
from ..cubin.types import parameter_types
from ..sources.declared import declared_types
from . import runtime

Parameter: TypeAlias = "list[int | str]"  # offset, size and, where it is known, type

_POINTER = frozenset({8})
_LONG = frozenset({4, 8})  # by the platform that compiles
_SIZES: Mapping[str, frozenset[int]] = {
    name: frozenset({size})
    for size, names in {
        1: ("bool", "char", "signed char", "unsigned char", "int8_t", "uint8_t"),
        2: ("short", "unsigned short", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"),
        4: ("int", "unsigned int", "int32_t", "uint32_t", "float"),
        8: ("long long", "unsigned long long", "int64_t", "uint64_t", "size_t", "double"),
    }.items()
    for name in names
} | {"long": _LONG, "unsigned long": _LONG}
_WITHOUT_STD = re.compile(r"^(?:::)?(?:cuda::)?(?:std::)?")


def described(unit: Unit, compiled: Compiled) -> str:
    """Return what a unit's kernels use, by symbol, and take, by name, in JSON.

    A result that an earlier build knew comes with it: no file and no source need be read again.
    """
    if compiled.recalled:
        return compiled.described
    kernels = json.loads(compiled.described)
    places: Mapping[str, Any] = {symbol: found for symbol, (_uses, found) in kernels.items()}
    if unit.arch.is_ptx:
        places = ptx_parameters(compiled.data.decode())
    takes = {
        kernel: typed(places[symbol], _types(unit.module, symbol))
        for kernel, symbol in compiled.kernels.items()
        if places.get(symbol) is not None
    }
    return json.dumps([{symbol: uses for symbol, (uses, _found) in kernels.items()}, takes])


def of_units(units: Sequence[tuple[Unit, Compiled]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the manifest says of kernels: what a module's take, and what each of its units adds."""
    known = [json.loads(described(*each)) for each in units]
    common: dict[str, list[Parameter]] = {}
    for _uses, takes in known:
        common = {**takes, **common}
    added: list[dict[str, Any]] = []
    for (uses, takes), (_unit, compiled) in zip(known, units, strict=True):
        as_common = {kernel: common[kernel] for kernel in compiled.kernels if kernel in common}
        differing = {} if takes == as_common else {"parameters": takes}
        added.append(({"resources": uses} if uses else {}) | differing)
    return {"parameters": common} if common else {}, added


def _types(module: Module, symbol: str) -> Sequence[str] | None:
    if symbol.startswith("_Z"):
        return parameter_types(symbol)
    if module.source.is_ptx:
        return None
    texts = [each.source.text for each in module.link.objects] if module.link else [module.source.text]
    found = (declared_types(text, symbol, dict(module.macros)) for text in texts)
    return next((types for types in found if types is not None), None)


def typed(places: Iterable[Sequence[int]], types: Sequence[str] | None) -> list[Parameter]:
    """Return the parameters at these places, with their types if these fit."""
    listed = [*places]
    if types is None or len(types) != len(listed) or not all(map(_fits, types, listed)):
        return [[*place] for place in listed]
    return [[*place, each] for place, each in zip(listed, types, strict=True)]


def _fits(type_: str, place: Sequence[int]) -> bool:
    sizes = _POINTER if type_.endswith("*") else _SIZES.get(_WITHOUT_STD.sub("", type_))
    return sizes is None or place[1] in sizes


def told(module: Mapping[str, Any]) -> set[str]:
    """Return the signatures of all that a module's line in the manifest has."""
    homes = (module, *module["entries"])
    return {signature(*each) for home in homes for each in home.get("parameters", {}).items()}


def signature(kernel: str, parameters: Iterable[Sequence[Any]]) -> str:
    """Return `saxpy(float, const float *)`; a parameter without a type is told by its size."""
    return f"{kernel}({', '.join(str(runtime.Parameter(*each)) for each in parameters)})"
