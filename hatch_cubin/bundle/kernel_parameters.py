"""Tell which parameters the kernels of compiled files have: where each is, how large, of which type. Pure.

Where they are and how large they are stands in the files themselves. The types are those of a kernel's symbol
or, if it has none, those that the texts of the compile prove, if these fit what stands in the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cache.entries import Compiled
from ..planning.unit_plan import Unit

if TYPE_CHECKING:
    from ..project.declared_kernels import ParameterTypes

Declared: TypeAlias = "Callable[[], Mapping[str, ParameterTypes]]"  # what a module's texts say, by symbol
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


def described(unit: Unit, compiled: Compiled, declared: Declared) -> str:
    """Return what a unit's kernels use, by symbol, and take, by name, in JSON.

    A result that an earlier build knew comes with it: no file and no source need be read again.
    """
    if compiled.recalled:
        return compiled.kernel_uses_json
    kernels = json.loads(compiled.kernel_uses_json)
    places: Mapping[str, Any] = {symbol: found for symbol, (_uses, found) in kernels.items()}
    if unit.arch.is_ptx:
        from ..cubin.ptx import ptx_parameters  # lazy: an earlier build knows most results

        places = ptx_parameters(compiled.data.decode())
    takes = {
        kernel: typed(places[symbol], _types(symbol, declared))
        for kernel, symbol in compiled.kernels.items()
        if places.get(symbol) is not None
    }
    return json.dumps([{symbol: uses for symbol, (uses, _found) in kernels.items()}, takes])


def of_units(
    units: Sequence[tuple[Unit, Compiled]], declared: Declared
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the manifest says of kernels: what a module's take, and what each of its units adds."""
    known = [json.loads(described(*each, declared)) for each in units]
    common: dict[str, list[Parameter]] = {}
    for _uses, takes in known:
        common = {**takes, **common}
    added: list[dict[str, Any]] = []
    for (uses, takes), (_unit, compiled) in zip(known, units, strict=True):
        as_common = {kernel: common[kernel] for kernel in compiled.kernels if kernel in common}
        differing = {} if takes == as_common else {"parameters": takes}
        added.append(({"resources": uses} if uses else {}) | differing)
    return {"parameters": common} if common else {}, added


def _types(symbol: str, declared: Declared) -> ParameterTypes | None:
    from ..cubin.symbol_types import parameter_types  # lazy: an earlier build knows most results

    return parameter_types(symbol) if symbol.startswith("_Z") else declared().get(symbol)


def typed(places: Iterable[Sequence[int]], types: ParameterTypes | None) -> list[Parameter]:
    """Return the parameters at these places, with the types that are known, if all of these fit."""
    listed = [*places]
    if types is None or len(types) != len(listed) or not all(map(_fits, types, listed)):
        return [[*place] for place in listed]
    return [[*place, each] if each else [*place] for place, each in zip(listed, types, strict=True)]


def _fits(type_: str | None, place: Sequence[int]) -> bool:
    if type_ is None:
        return True
    sizes = _POINTER if type_.endswith("*") else _SIZES.get(_WITHOUT_STD.sub("", type_))
    return sizes is None or place[1] in sizes


def told(module: Mapping[str, Any]) -> set[str]:
    """Return the signatures of all that a module's line in the manifest has."""
    homes = (module, *module["entries"])
    return {signature(*each) for home in homes for each in home.get("parameters", {}).items()}


def signature(kernel: str, parameters: Iterable[Sequence[Any]]) -> str:
    """Return `saxpy(float, const float *)`; a parameter without a type is told by its size."""
    shown = (each[2] if len(each) > 2 else f"{each[1]} bytes" for each in parameters)  # as the loader does
    return f"{kernel}({', '.join(map(str, shown))})"
