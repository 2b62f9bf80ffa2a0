"""Decide which variants a wheel has, and which compiled code each variant contains. The module does no I/O.

Each variant of a wheel is made for certain GPUs, and uv installs the variant that fits the GPUs of the
machine. A variant contains the code that the loader would choose from the complete wheel on the variant's
GPUs.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ... import loader
from ...bundle.manifest import NOT_OURS, Manifest, ManifestModule, canonical
from ...common.arch_names import number_of
from ...common.capabilities import NAMED

ModuleAndArch = tuple[str, str]
# Each arch of a module, with the driver version that its code needs.
ShippedArchs = tuple[tuple[str, int], ...]

VARIANT_JSON = "variant.json"  # The file that describes a wheel variant, in the metadata of the wheel.
NULL_LABEL = "null"  # The variant for machines that no other variant fits.
_LABEL = re.compile("null|sm[0-9]{2,4}")
_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
_NAMESPACE, _FEATURE = "nvidia", "sm_arch"
_PROVIDER = {
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    "requires": ["nvidia-variant-provider>=0.0.1,<1.0.0"],
}
_COMMON = {
    "$schema": _SCHEMA,
    "default-priorities": {"namespace": [_NAMESPACE]},
    "providers": {_NAMESPACE: _PROVIDER},
}


def variants(manifest: Manifest) -> dict[str, frozenset[ModuleAndArch]]:
    """Return the compiled code of each variant, by label.

    A variant such as `sm90` exists for each compute capability for which the wheel contains machine code.
    """
    numbers = _capabilities_of_code(manifest)
    most = max((number for number, _is_ptx in _arch_numbers(manifest)), default=0)
    # For all compute capabilities above `top`, the loader chooses the same code as for `top`.
    top = most // 10 * 10 + 20
    gpus: dict[str, list[int]] = {NULL_LABEL: [], **{label_of(number): [] for number in numbers}}
    for cc in range(top):
        gpus[label_of(installed_capability(cc, numbers))].append(cc)
    # cached: most modules are compiled for the same archs
    known: dict[tuple[str, ShippedArchs], set[str]] = {}
    found: dict[str, set[ModuleAndArch]] = {name: set() for name in gpus}
    for module in manifest.modules:
        for name, shipped in itertools.product(gpus, _choices(module)):
            if (name, shipped) not in known:
                known[name, shipped] = {arch for cc in gpus[name] for arch in _chosen(cc, shipped)}
            found[name] |= {(module.name, arch) for arch in known[name, shipped]}
    # A null variant without code is not written, so that machines that need it install the complete wheel.
    return {name: frozenset(units) for name, units in found.items() if units or name != NULL_LABEL}


def capabilities_of(manifest: Manifest, capabilities: Iterable[int]) -> list[int]:
    """Return those *capabilities* for which an installer chooses the wheel (or variant) of *manifest*."""
    if manifest.wheel_variant is None:
        return [*capabilities]
    numbers, name = _capabilities_of_code(manifest), manifest.wheel_variant["label"]
    return [cc for cc in capabilities if label_of(installed_capability(cc, numbers)) == name]


def stranded_gpus(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield each GPU for which uv would install a variant that does not contain any kernel for the GPU.

    Tegra GPUs are not considered, because most wheels do not contain code for them.
    """
    numbers = _capabilities_of_code(manifest)
    shapes = {shipped for module in manifest.modules for shipped in _choices(module)}
    for cc in NAMED:
        number = installed_capability(cc, numbers)
        if number is None or loader.select(cc, None, [(f"sm_{number}", 0)]) is None:
            continue
        if not any(loader.select(cc, None, shipped) for shipped in shapes):
            yield label_of(number), cc


def installed_capability(cc: int, numbers: Collection[int]) -> int | None:
    """Return the capability whose variant uv installs for a GPU.

    The result is the highest capability with the same major number that is not above the GPU's capability
    *cc*.
    """
    return max((number for number in numbers if number // 10 == cc // 10 and number <= cc), default=None)


def label_of(number: int | None) -> str:
    """Return the label of the variant for a capability."""
    return NULL_LABEL if number is None else f"sm{number}"


def describe_variants(labels: Iterable[str]) -> bytes:
    """Return the JSON description of wheel variants for installers.

    In a variant, the file variant.json contains only the label of this variant. A file such as
    mypkg-1.0-variants.json, beside the wheels, contains the labels of all variants.
    """
    return f"{canonical({**_COMMON, 'variants': {name: _properties(name) for name in labels}})}\n".encode()


def read_labels(data: bytes) -> list[str]:
    """Return the labels in a JSON description of variants; ValueError if another program wrote the JSON."""
    try:
        labels = [*json.loads(data)["variants"]]
        if describe_variants(labels) != data or not all(map(_LABEL.fullmatch, labels)):
            raise ValueError
    except NOT_OURS as exc:
        raise ValueError("was not written by hatch-cubin") from exc
    return labels


def files_with(manifest: Manifest, units: Collection[ModuleAndArch]) -> set[str]:
    """Return the names of the files with the compiled code of *units*.

    A unit is the compiled code of a module for one arch.
    """
    return {
        entry.file
        for module in manifest.modules
        for entry in module.entries
        if (module.name, entry.arch) in units
    }


def _properties(name: str) -> Mapping[str, Any]:
    return {} if name == NULL_LABEL else {_NAMESPACE: {_FEATURE: [f"{name.removeprefix('sm')}_real"]}}


def _capabilities_of_code(manifest: Manifest) -> list[int]:
    """Return the compute capabilities for which a wheel contains machine code."""
    return sorted({number for number, is_ptx in _arch_numbers(manifest) if not is_ptx})


def _arch_numbers(manifest: Manifest) -> set[tuple[int, bool]]:
    """Return the number of each arch, and whether the arch is PTX."""
    entries = (entry for module in manifest.modules for entry in module.entries)
    return {(number, entry.is_ptx) for entry in entries if (number := number_of(entry.arch)) is not None}


def _choices(module: ManifestModule) -> set[ShippedArchs]:
    """Return each set of archs from which the loader may have to choose one arch.

    The result contains one set with all archs of the module, and one set for each kernel, with the archs
    whose code contains the kernel.
    """
    entries = [entry for entry in module.entries if number_of(entry.arch) is not None]
    kernels = {kernel for entry in entries for kernel in entry.kernels}
    asked = [entries, *([entry for entry in entries if kernel in entry.kernels] for kernel in kernels)]
    return {tuple((entry.arch, entry.min_driver) for entry in own) for own in asked}


def _chosen(cc: int, shipped: ShippedArchs) -> set[str]:
    """Return each arch that the loader may choose for capability *cc*: the choice depends on the driver."""
    chosen = (loader.select(cc, driver, shipped) for driver in {driver for _arch, driver in shipped})
    return {found[0] for found in chosen if found is not None}
