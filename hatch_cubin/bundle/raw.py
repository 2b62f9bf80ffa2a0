"""Give a packed bundle the form that it has without packs: a file for each result. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .._plan import file_stem
from .layout import RAW, free_stem
from .manifest import Entry, Manifest, Module, module_line, write_manifest

_NOT_OF_HEADER = ("blocks", "check", "kernels", "modules")

Codes = Mapping[tuple[str, str], bytes]  # by module and arch


def raw(data: bytes, manifest: Manifest, codes: Codes) -> dict[str, bytes]:
    """Return the files of results, and the manifest that describes them, of one that was packed.

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
            {key: value for key, value in entry.items() if key not in ("block", "offset")}
            | {"file": named[entry["arch"]]}
            for entry in line["entries"]
        ]
        lines.append(module_line(module.name, line))
    pieces = write_manifest({**header, "format": RAW}, fields["kernels"], lines)
    return {"manifest.json": b"".join(pieces), **files}


def _suffix(entry: Entry) -> str:
    return f".{entry.arch}.{'ptx' if entry.is_ptx else 'cubin'}"


def _macros(module: Module) -> list[tuple[str, str]]:
    """Return a variant's macros in the order of its name: the manifest has them in that of the alphabet."""
    rest, left, found = module.name[len(module.base) + 1 : -1], dict(module.variant), list[tuple[str, str]]()
    while (macro := rest.partition("=")[0]) in left:
        found.append((macro, left.pop(macro)))
        rest = rest[len("=".join(found[-1])) + 1 :]
    return [*found, *left.items()]
