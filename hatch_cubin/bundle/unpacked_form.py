"""Turn a packed bundle into an unpacked bundle, with a file for each module and arch. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..planning.unit_plan import file_stem
from .layout import PACKED, RAW, free_stem
from .manifest import Manifest, ManifestEntry, ManifestModule, split_manifest

_OF_SPLIT_HEADER, _OF_SPLIT_ENTRY = ("companions", "wheel_variant"), ("absent", "companion")
_NOT_OF_HEADER = ("blocks", *_OF_SPLIT_HEADER)
_NOT_OF_ENTRY = ("block", "offset", *_OF_SPLIT_ENTRY)

Codes = Mapping[tuple[str, str], bytes]  # The compiled code for each module and arch.


def files_without_packing(data: bytes, manifest: Manifest, codes: Codes) -> dict[str, bytes]:
    """Return the manifest and the compiled files that a bundle would have if it were not packed or split.

    All files have the same bytes as the files of a build without the setting `pack`.
    """
    parts = split_manifest(data)
    files: dict[str, bytes] = {}
    stored, taken = dict[str, str](), set[str]()
    named: dict[str, dict[str, str]] = {}  # The file name for each module and arch.
    for module in manifest.modules:  # The modules are sorted by name, as in a build.
        stem = free_stem(file_stem(module.base, _macros(module)), module.name, taken)
        named[module.name] = {
            entry.arch: stored.setdefault(entry.sha256, stem + _suffix(entry)) for entry in module.entries
        }
        files |= {name: codes[module.name, arch] for arch, name in named[module.name].items()}
    written = parts.write(
        {**_without(_NOT_OF_HEADER, parts.header), "format": RAW},
        lambda module, entry: {**_without(_NOT_OF_ENTRY, entry), "file": named[module][entry["arch"]]},
    )
    return {"manifest.json": written, **files}


def manifest_before_split(data: bytes) -> bytes:
    """Return the manifest that a bundle had before `hatch-cubin split` divided it."""
    parts = split_manifest(data)
    header = _without(_OF_SPLIT_HEADER, parts.header)
    return parts.write(
        {**header, "format": PACKED if "blocks" in header else RAW},
        lambda _module, entry: _without(_OF_SPLIT_ENTRY, entry),
    )


def _without(names: Collection[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _suffix(entry: ManifestEntry) -> str:
    return f".{entry.arch}.{'ptx' if entry.is_ptx else 'cubin'}"


def _macros(module: ManifestModule) -> list[tuple[str, str]]:
    """Return a variant's macros in the same order as in the name of the variant."""
    rest, left, found = module.name[len(module.base) + 1 : -1], dict(module.variant), list[tuple[str, str]]()
    while (macro := rest.partition("=")[0]) in left:
        found.append((macro, left.pop(macro)))
        rest = rest[len("=".join(found[-1])) + 1 :]
    return [*found, *left.items()]
