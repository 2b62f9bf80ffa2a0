"""Read facts about a bundle from its files: compiled code, sizes, and the resources of each kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias, TypedDict

from ...bundle.kernel_parameters import signature
from ...bundle.manifest import Manifest, ManifestEntry, ManifestModule, NewerFormatError, read_manifest
from ...common.digest import file_digest
from ...common.natural_order import by_number
from ...common.sizes import cuda
from ...cubin.elf import has_tile_kernels, read_cubin, read_limits, read_resources
from ...cubin.kernel_names import demangle
from ...cubin.ptx import ptx_limits
from ...cubin.symbol_origins import bytes_by_part, digests_by_part
from ...errors import BundleError, Location, Problem, problem
from ...project.source import ptx_entries
from .bundles import Bundle, FileElsewhereError
from .compiled_code import packed_size, packed_size_of_file, read_results

KernelUsage = Mapping[str, Mapping[str, int]]  # The resources of each kernel, by symbol.
# A function that reads cubins which `cubin/elf.py` cannot read.
FallbackReader = Callable[[bytes], KernelUsage]

_LARGEST_SHOWN = 5
_TOOL_TITLES = {"nvrtc": "NVRTC", "nvjitlink": "nvJitLink", "cuda_core": "cuda-core"}
_KIND_TITLES = {"cubin": "every cubin", "ptx": "all PTX"}


class ParameterFacts(TypedDict):
    """A parameter of a kernel. *type* is None if the type is unknown."""

    offset: int
    size: int
    type: str | None


class KernelFacts(TypedDict):
    """A kernel in the compiled code for one arch.

    A resource such as *registers* is None if it is unknown. For PTX, all resources are unknown.

    If the manifest does not list the kernel's parameters, the signature is only the name, and *parameters* is
    empty.
    """

    name: str
    symbol: str
    registers: int | None
    shared: int | None
    stack: int | None
    spills: int | None
    signature: str
    tile: bool
    parameters: list[ParameterFacts]
    limits: Mapping[str, Sequence[int]]


class UnitFacts(TypedDict):
    """The compiled code of a module for one arch.

    *digests* contains the digest of the whole code, and of each part such as the relocations.
    """

    module: str
    source: str
    variant: Mapping[str, str]
    arch: str
    kind: str
    file: str
    offset: int | None
    bytes: int
    packed: int | None
    min_driver: int
    kernels: list[KernelFacts]
    digests: Mapping[str, str]
    problem: str | None


class SharedFacts(TypedDict):
    """Compiled code that several modules or archs have in common, and that is stored once."""

    file: str
    bytes: int
    units: list[str]


class TotalFacts(TypedDict):
    """Totals for a bundle: the number of its modules, kernels and files, and their size.

    Code that several modules share is counted only once.
    """

    modules: int
    units: int
    kernels: int
    files: int
    bytes: int
    packed: int | None
    shared: int


class BundleFacts(TypedDict):
    """All facts about a bundle."""

    place: str
    where: str
    format: int
    generator: str
    toolchain: Mapping[str, str | None]
    data_model: str
    skipped: bool
    wheel_variant: str | None
    min_driver: dict[str, int]
    totals: TotalFacts
    archs: dict[str, int]
    modules: dict[str, int]
    content: dict[str, int]
    packed: dict[str, dict[str, int | None]]
    largest: dict[str, int]
    shared: list[SharedFacts]
    units: list[UnitFacts]


class _ResultFacts(TypedDict):
    bytes: int
    packed: int | None
    usage: KernelUsage
    problem: str | None
    content: Mapping[str, int]
    digests: Mapping[str, str]
    limits: Mapping[str, Mapping[str, Sequence[int]]]  # The launch limits of each kernel, by symbol.
    tile: bool  # whether the kernels are tile kernels


_FilePosition: TypeAlias = "tuple[str, int | None]"


def survey(bundle: Bundle, fallback: FallbackReader | None = None) -> BundleFacts:
    """Return all facts about a bundle, or raise BundleError if its manifest cannot be read."""
    manifest = manifest_of(bundle).here
    found: dict[_FilePosition, _ResultFacts] = {}
    for _module, entry, data in read_results(bundle, manifest):
        if (entry.file, entry.offset) not in found:
            packed = packed_size(bundle, manifest, entry)
            found[entry.file, entry.offset] = _examine(data, entry, packed, fallback)
    units = [
        _unit(module, entry, found[entry.file, entry.offset])
        for module in sorted(manifest.modules, key=lambda module: by_number(module.name))
        for entry in sorted(module.entries, key=lambda entry: arch_order(entry.arch))
    ]
    by_arch = sorted(units, key=lambda unit: arch_order(unit["arch"]))
    shared = _shared_results(units)
    return {
        "place": bundle.place,
        "where": bundle.where,
        "format": manifest.format,
        "generator": " ".join(manifest.generator),
        "toolchain": manifest.toolchain,
        "data_model": manifest.data_model,
        "skipped": manifest.skipped,
        "wheel_variant": manifest.wheel_variant["label"] if manifest.wheel_variant else None,
        "min_driver": _min_drivers(units),
        "totals": {
            "modules": len(manifest.modules),
            "units": len(units),
            "kernels": len({kernel for kernel, _arch in kernels_by_arch(units)}),
            "files": len(manifest.files),
            "bytes": sum(each["bytes"] for each in found.values()),
            "packed": _sum_if_known(packed_size_of_file(bundle, manifest, name) for name in manifest.files),
            "shared": sum(each["bytes"] * (len(each["units"]) - 1) for each in shared),
        },
        "archs": {name: _total_bytes(own) for name, own in _group_by("arch", by_arch)},
        "modules": {name: _total_bytes(own) for name, own in _group_by("module", units)},
        "content": _content(found.values()),
        "packed": {
            "archs": {
                name: _sum_if_known(unit["packed"] for unit in own)
                for name, own in _group_by("arch", by_arch)
            },
            "modules": {
                name: _sum_if_known(unit["packed"] for unit in own)
                for name, own in _group_by("module", units)
            },
        },
        "largest": _largest(units),
        "shared": shared,
        "units": units,
    }


def kernels_by_arch(units: Iterable[UnitFacts]) -> dict[tuple[tuple[str, str], str], KernelFacts]:
    """Return the facts about each kernel. A key is the kernel's module and name, and an arch.

    The module is part of the key, because all variants of a source have kernels of the same name.
    """
    return {
        ((unit["module"], kernel["name"]), unit["arch"]): kernel
        for unit in units
        for kernel in unit["kernels"]
    }


def bundle_summary(facts: BundleFacts) -> list[str]:
    """Return lines about a bundle: the tools that made the bundle, and the driver that it needs."""
    tools = [
        f"{_TOOL_TITLES.get(name, name)} {version}" for name, version in facts["toolchain"].items() if version
    ]
    lines = [", ".join([f"built by {facts['generator']}", *tools, facts["data_model"]])]
    lines += [
        f"{_KIND_TITLES.get(kind, kind)} loads with driver {cuda(driver)} or later"
        for kind, driver in facts["min_driver"].items()
    ]
    if facts["wheel_variant"]:
        lines.append(
            f"this wheel is the variant {facts['wheel_variant']}: other variants have code for other GPUs"
        )
    if facts["skipped"]:
        lines.append("the bundle contains no kernels, because HATCH_CUBIN_SKIP was set in the build")
    return lines


def unreadable_units(facts: BundleFacts) -> Iterator[Problem]:
    """Yield an error for each compiled file that could not be read."""
    for unit in facts["units"]:
        if unit["problem"]:
            where = Location(f"{facts['where']}/{unit['file']}")
            yield problem("code-unreadable", unit["problem"], where)


def manifest_of(bundle: Bundle) -> Manifest:
    """Return a bundle's manifest, or raise BundleError if the manifest cannot be read."""
    try:
        return read_manifest(bundle.read("manifest.json"))
    except ValueError as exc:
        hint = (
            "a newer version of hatch-cubin built this wheel: upgrade hatch-cubin"
            if isinstance(exc, NewerFormatError)
            else None
        )
        raise BundleError(problem("manifest-unreadable", str(exc), bundle.at("manifest.json"), hint)) from exc


def unit_name(module: str, arch: str) -> str:
    """Return the name of the compiled code of a module for an arch, for messages."""
    return f"{module} for {arch}"


def _examine(
    data: bytes | BundleError, entry: ManifestEntry, packed: int | None, fallback: FallbackReader | None
) -> _ResultFacts:
    found: _ResultFacts = {
        "bytes": 0,
        "packed": packed,
        "usage": {},
        "problem": None,
        "content": {},
        "digests": {},
        "limits": {},
        "tile": False,
    }
    if isinstance(data, BundleError):
        what = data.problems[0].what
        # The list contains the kernels of a missing companion wheel, because the loader finds them after the
        # companion is installed.
        known = entry.kernels.values() if isinstance(data, FileElsewhereError) else ()
        return {**found, "usage": {symbol: {} for symbol in known}, "problem": what}
    whole = {"all": file_digest(data)}
    try:
        usage = _ptx_usage(data) if entry.is_ptx else _cubin_usage(data, fallback)
        content = {"PTX": len(data)} if entry.is_ptx else bytes_by_part(data)
        parts = {"text": whole["all"]} if entry.is_ptx else digests_by_part(data)
    except ValueError as exc:
        return {**found, "bytes": len(data), "digests": whole, "problem": str(exc)}
    return {
        **found,
        "bytes": len(data),
        "usage": usage,
        "content": content,
        "digests": {**whole, **parts},
        "limits": _limits(data, entry),
        "tile": has_tile_kernels(data),
    }


def _limits(data: bytes, entry: ManifestEntry) -> Mapping[str, Mapping[str, Sequence[int]]]:
    if entry.is_ptx:
        return ptx_limits(data.decode("utf-8", "replace"))
    try:
        return read_limits(data)
    except ValueError:  # If the launch limits cannot be read, the resources may still be readable.
        return {}


def _content(found: Iterable[_ResultFacts]) -> dict[str, int]:
    """Return the total size of each part of the cubins, such as debug information, the largest first."""
    sums: dict[str, int] = {}
    for result in found:
        for name, count in result["content"].items():
            sums[name] = sums.get(name, 0) + count
    return {name: sums[name] for name in sorted(sums, key=lambda name: (-sums[name], name))}


def _cubin_usage(data: bytes, fallback: FallbackReader | None) -> KernelUsage:
    kernels = read_cubin(data).kernels
    try:
        return read_resources(data)
    except ValueError:
        usage: KernelUsage = {}
    if fallback is not None:
        with contextlib.suppress(ValueError):
            usage = fallback(data)
    return {symbol: usage.get(symbol, {}) for symbol in kernels}


def _ptx_usage(data: bytes) -> KernelUsage:
    return {symbol: {} for symbol in ptx_entries(data.decode("utf-8", "replace"))}


def _unit(module: ManifestModule, entry: ManifestEntry, found: _ResultFacts) -> UnitFacts:
    names = {symbol: name for name, symbol in entry.kernels.items()}
    kernels = [
        _kernel(
            names.get(symbol, demangle(symbol)),
            symbol,
            uses,
            entry.parameters,
            found,
        )
        for symbol, uses in found["usage"].items()
    ]
    return {
        "module": module.name,
        "source": module.source,
        "variant": module.variant,
        "arch": entry.arch,
        "kind": entry.kind,
        "file": entry.file,
        "offset": entry.offset,
        "bytes": found["bytes"],
        "packed": found["packed"],
        "min_driver": entry.min_driver,
        "kernels": sorted(kernels, key=lambda kernel: (by_number(kernel["name"]), kernel["symbol"])),
        "digests": found["digests"],
        "problem": found["problem"],
    }


def _kernel(
    name: str,
    symbol: str,
    uses: Mapping[str, int],
    parameters: Mapping[str, Sequence[Sequence[Any]]],
    found: _ResultFacts,
) -> KernelFacts:
    known = parameters.get(name)
    return {
        "name": name,
        "symbol": symbol,
        "registers": uses.get("registers"),
        "shared": uses.get("shared"),
        "stack": uses.get("stack"),
        "spills": uses.get("spills"),
        "signature": name if known is None else signature(name, known),
        "tile": found["tile"],
        "parameters": [_parameter(*each) for each in known or ()],
        "limits": {what: [*value] for what, value in found["limits"].get(symbol, {}).items()},
    }


def _parameter(offset: int, size: int, spelled: str | None = None) -> ParameterFacts:
    return {"offset": offset, "size": size, "type": spelled}


def arch_order(arch: str) -> tuple[bool, int, str]:
    """Return a sort key for archs: by number, and PTX after machine code.

    *arch* can be any text, and need not be the name of a known arch.
    """
    digits = "".join(char for char in arch if char in "0123456789")
    return arch.startswith("compute_"), int(digits[:9] or 0), arch


def _group_by(
    field: Literal["arch", "module"], units: Iterable[UnitFacts]
) -> Iterator[tuple[str, Collection[UnitFacts]]]:
    """Group compiled code by module or by arch, and yield each group.

    Code that several units of a group share is listed only once in the group.
    """
    own: dict[str, dict[_FilePosition, UnitFacts]] = {}
    for unit in units:
        own.setdefault(unit[field], {})[_position(unit)] = unit
    yield from ((name, found.values()) for name, found in own.items())


def _total_bytes(units: Iterable[UnitFacts]) -> int:
    return sum(unit["bytes"] for unit in units)


def _position(unit: UnitFacts) -> _FilePosition:
    return unit["file"], unit["offset"]


def _largest(units: Sequence[UnitFacts]) -> dict[str, int]:
    """Return the sizes of the largest compiled files.

    Each key is a file name or, in a packed bundle, a module and an arch.
    """
    sizes: dict[str, int] = {}
    for place, unit in {_position(unit): unit for unit in reversed(units)}.items():
        sizes[place[0] if place[1] is None else unit_name(unit["module"], unit["arch"])] = unit["bytes"]
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    return {name: sizes[name] for name in names[:_LARGEST_SHOWN]}


def _min_drivers(units: Iterable[UnitFacts]) -> dict[str, int]:
    """Return the oldest driver that can load all cubins, and the oldest driver that can load all PTX."""
    drivers: dict[str, int] = {}
    for unit in units:
        drivers[unit["kind"]] = max(drivers.get(unit["kind"], 0), unit["min_driver"])
    return dict(sorted(drivers.items()))


def _shared_results(units: Iterable[UnitFacts]) -> list[SharedFacts]:
    by_place = sorted(units, key=lambda unit: (unit["file"], unit["offset"] or 0))
    groups = [[*group] for _position, group in groupby(by_place, key=_position)]
    return [
        {
            "file": group[0]["file"],
            "bytes": group[0]["bytes"],
            "units": [unit_name(unit["module"], unit["arch"]) for unit in group],
        }
        for group in groups
        if len(group) > 1
    ]


def _sum_if_known(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
