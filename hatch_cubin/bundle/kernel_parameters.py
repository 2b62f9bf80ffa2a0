"""Find the offset, size and type of each parameter of the kernels in compiled files. Does no I/O.

Offsets and sizes are read from the compiled files. The types of parameters come from the symbol of the
kernel. If the symbol does not contain types (`extern "C"`), the declaration of the kernel in its source is
used. A type is left out if it does not fit the size of the parameter in the compiled file.
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

TypesInSources: TypeAlias = (
    # A function that returns, for a module, the parameter types of the kernels in its source.
    "Callable[[], Mapping[str, ParameterTypes]]"
)
Parameter: TypeAlias = "list[int | str]"  # A parameter's offset and size, and its type if the type is known.

_POINTER = frozenset({8})
_LONG = frozenset({4, 8})  # `long` has 4 bytes on Windows, and 8 bytes on Linux
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


def describe_kernels(unit: Unit, compiled: Compiled, declared: TypesInSources) -> str:
    """Return JSON: a dict of resources by the kernel's symbol, and a dict of parameters by the kernel's name.

    If the cache has the JSON of an earlier build for the compiled file, this JSON is returned, and no file is
    read.
    """
    if compiled.recalled:
        return compiled.kernel_uses_json
    kernels = json.loads(compiled.kernel_uses_json)
    places: Mapping[str, Any] = {symbol: found for symbol, (_uses, found) in kernels.items()}
    if unit.arch.is_ptx:
        from ..cubin.ptx import ptx_parameters  # lazy import: not needed if the cache contains the result

        places = ptx_parameters(compiled.data.decode())
    takes = {
        kernel: with_types(places[symbol], _types(symbol, declared))
        for kernel, symbol in compiled.kernels.items()
        if places.get(symbol) is not None
    }
    return json.dumps([{symbol: uses for symbol, (uses, _found) in kernels.items()}, takes])


def manifest_parameters(
    units: Sequence[tuple[Unit, Compiled]], declared: TypesInSources
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return fields of a module in the manifest: parameters of kernels, and resources for each arch."""
    known = [json.loads(describe_kernels(*each, declared)) for each in units]
    common: dict[str, list[Parameter]] = {}
    for _uses, takes in known:
        common = {**takes, **common}
    added: list[dict[str, Any]] = []
    for (uses, takes), (_unit, compiled) in zip(known, units, strict=True):
        as_common = {kernel: common[kernel] for kernel in compiled.kernels if kernel in common}
        differing = {} if takes == as_common else {"parameters": takes}
        added.append(({"resources": uses} if uses else {}) | differing)
    return {"parameters": common} if common else {}, added


def _types(symbol: str, declared: TypesInSources) -> ParameterTypes | None:
    # lazy import: not needed if the cache contains the result
    from ..cubin.symbol_types import parameter_types

    return parameter_types(symbol) if symbol.startswith("_Z") else declared().get(symbol)


def with_types(places: Iterable[Sequence[int]], types: ParameterTypes | None) -> list[Parameter]:
    """Add *types* to the parameters of a kernel, if each type fits the size of its parameter."""
    listed = [*places]
    if types is None or len(types) != len(listed) or not all(map(_fits, types, listed)):
        return [[*place] for place in listed]
    return [[*place, each] if each else [*place] for place, each in zip(listed, types, strict=True)]


def _fits(type_: str | None, place: Sequence[int]) -> bool:
    if type_ is None:
        return True
    sizes = _POINTER if type_.endswith("*") else _SIZES.get(_WITHOUT_STD.sub("", type_))
    return sizes is None or place[1] in sizes


def module_signatures(module: Mapping[str, Any]) -> set[str]:
    """Return the signatures of all kernels of a module, from the module's line in the manifest."""
    homes = (module, *module["entries"])
    return {signature(*each) for home in homes for each in home.get("parameters", {}).items()}


def signature(kernel: str, parameters: Iterable[Sequence[Any]]) -> str:
    """Return the signature of a kernel, such as `saxpy(float, const float *)`.

    A parameter without a known type is shown by its size.
    """
    # The loader's messages show the parameters of a kernel in the same form.
    shown = (each[2] if len(each) > 2 else f"{each[1]} bytes" for each in parameters)
    return f"{kernel}({', '.join(map(str, shown))})"
