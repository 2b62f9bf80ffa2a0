"""Give a packed bundle the form that it has without packs: a file for each result. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .._plan import file_stem
from .layout import PACKED, RAW, free_stem
from .manifest import Entry, Manifest, Module, module_line, write_manifest

_OF_SPLIT_HEADER, _OF_SPLIT_ENTRY = ("companions", "wheel_variant"), ("absent", "companion")
_NOT_OF_HEADER = ("blocks", "check", "kernels", "modules", *_OF_SPLIT_HEADER)
_NOT_OF_ENTRY = ("block", "offset", *_OF_SPLIT_ENTRY)

Codes = Mapping[tuple[str, str], bytes]  # by module and arch


def raw(data: bytes, manifest: Manifest, codes: Codes) -> dict[str, bytes]:
    """Return the files of results, and the manifest that describes them, of one that was packed or split.

    They are, to the byte, those of a build that does not pack.
    """
    fields = json.loads(data)
    header = {key: value for key, value in fields.items() if key not in _NOT_OF_HEADER}
    files: dict[str, bytes] = {}
    lines, stored, taken = [], dict[str, str](), set[str]()
    for module in manifest.modules:  # sorted by name, as in a build
        line = {key: value for key, value in fields["modules"][module.name].items() if key != "check"}
        stem = free_stem(file_stem(module.base, _macros(module)), module.name, taken)
        named = {
            entry.arch: stored.setdefault(entry.sha256, stem + _suffix(entry)) for entry in module.entries
        }
        files |= {name: codes[module.name, arch] for arch, name in named.items()}
        line["entries"] = [
            {key: value for key, value in entry.items() if key not in _NOT_OF_ENTRY}
            | {"file": named[entry["arch"]]}
            for entry in line["entries"]
        ]
        lines.append(module_line(module.name, line))
    pieces = write_manifest({**header, "format": RAW}, fields["kernels"], lines)
    return {"manifest.json": b"".join(pieces), **files}


def joined(data: bytes) -> bytes:
    """Return the manifest of a bundle that was split, as it was before."""
    fields = json.loads(data)
    header = {
        key: value
        for key, value in fields.items()
        if key not in ("check", "kernels", "modules", *_OF_SPLIT_HEADER)
    }
    header["format"] = PACKED if "blocks" in header else RAW
    lines = []
    for name, module in fields["modules"].items():
        line = {key: value for key, value in module.items() if key != "check"}
        line["entries"] = [
            {key: value for key, value in entry.items() if key not in _OF_SPLIT_ENTRY}
            for entry in line["entries"]
        ]
        lines.append(module_line(name, line))
    return b"".join(write_manifest(header, fields["kernels"], lines))


def _suffix(entry: Entry) -> str:
    return f".{entry.arch}.{'ptx' if entry.is_ptx else 'cubin'}"


def _macros(module: Module) -> list[tuple[str, str]]:
    """Return a variant's macros in the order of its name: the manifest has them in that of the alphabet."""
    rest, left, found = module.name[len(module.base) + 1 : -1], dict(module.variant), list[tuple[str, str]]()
    while (macro := rest.partition("=")[0]) in left:
        found.append((macro, left.pop(macro)))
        rest = rest[len("=".join(found[-1])) + 1 :]
    return [*found, *left.items()]
