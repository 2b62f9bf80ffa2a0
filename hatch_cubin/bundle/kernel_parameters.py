"""Find the parameters of the kernels in compiled files: offset, size and type of each. Does no I/O.

Offsets and sizes are read from the compiled files. A type comes from the kernel's symbol name. If the symbol
name does not contain types, the type comes from the source texts, but only if the texts prove it and it fits
the offset and size in the compiled file.
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

Declared: TypeAlias = "Callable[[], Mapping[str, ParameterTypes]]"  # types shown by a module's texts
Parameter: TypeAlias = "list[int | str]"  # offset, size and, if it is known, type

_POINTER = frozenset({8})
_LONG = frozenset({4, 8})  # `long` has either size, depending on the platform that compiles
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
    """Return, as JSON, the resources that a unit's kernels use (by symbol) and their parameters (by name).

    If an earlier build already described the result, that description is returned and neither the compiled
    file nor the source is read again.
    """
    if compiled.recalled:
        return compiled.kernel_uses_json
    kernels = json.loads(compiled.kernel_uses_json)
    places: Mapping[str, Any] = {symbol: found for symbol, (_uses, found) in kernels.items()}
    if unit.arch.is_ptx:
        from ..cubin.ptx import ptx_parameters  # lazy: most results were described by an earlier build

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
    """Return the manifest's facts about kernels: a module's parameters, and the additions for each unit."""
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
    from ..cubin.symbol_types import parameter_types  # lazy: most results were described by an earlier build

    return parameter_types(symbol) if symbol.startswith("_Z") else declared().get(symbol)


def typed(places: Iterable[Sequence[int]], types: ParameterTypes | None) -> list[Parameter]:
    """Return the parameters at these places. Types are added only if every one of them fits its place."""
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
    """Return the signatures of all kernels in a module's line of the manifest."""
    homes = (module, *module["entries"])
    return {signature(*each) for home in homes for each in home.get("parameters", {}).items()}


def signature(kernel: str, parameters: Iterable[Sequence[Any]]) -> str:
    """Return for example `saxpy(float, const float *)`.

    A parameter without a known type is shown by its size.
    """
    shown = (each[2] if len(each) > 2 else f"{each[1]} bytes" for each in parameters)  # worded as in loader
    return f"{kernel}({', '.join(map(str, shown))})"
