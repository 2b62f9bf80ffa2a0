"""Measure the parts of a cubin (code, relocations, symbols of each library), or make digests of them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

from .elf import read_layout, read_sections

_LIBRARIES = {
    "cub": "CUB",
    "cuda": "libcu++",
    "cute": "CuTe",
    "cutlass": "CUTLASS",
    "thrust": "Thrust",
    "cooperative_groups": "cooperative groups",
}
_OTHER_ORIGIN = "the rest"
_SYMBOL_ENTRY_SIZE = 24  # The number of bytes for each symbol in the symbol table, without its name.
_SYMBOL_TABLES = (".symtab", ".strtab")
_DEBUG = "debug information"
_PART_OF_SECTION = {".text": "code", ".rel": "relocations", ".debug": _DEBUG, ".nv_debug": _DEBUG}
_DIGESTED_PART_OF_SECTION = {
    ".text": "code",
    ".rel": "code",
    ".nv.constant": "constants",
    ".nv.global": "globals",
    ".nv.shared": "shared",
    ".nv.info": "attributes",
}
_OTHER_PART = "rest"  # the name of the part for notes, symbols and debug information
_MANGLING_PREFIX = re.compile(r"_Z(?:T[VTIS]|GV)?(?:N[rVK]*)?")
_LENGTH = re.compile(r"[0-9]{1,6}")
# prefixes of namespaces that compilers add around file-local symbols
_FILE_LOCAL_SCOPES = ("_INTERNAL_", "_GLOBAL__N")


def bytes_by_part(data: bytes) -> Mapping[str, int]:
    """Return the size of each part of a cubin in bytes; ValueError if the cubin is damaged."""
    names, sections = read_layout(data)
    found: Counter[str] = Counter()
    for name in names:
        found[f"symbol tables of {origin_of(name)}"] += (
            _SYMBOL_ENTRY_SIZE + len(name.encode("utf-8", "replace")) + 1
        )
    for name, size in sections:
        if name not in _SYMBOL_TABLES:
            kind = next((kind for start, kind in _PART_OF_SECTION.items() if name.startswith(start)), "other")
            found[kind] += size
    found["other"] += max(0, len(data) - sum(found.values()))
    return {name: count for name, count in found.items() if count}


def digests_by_part(data: bytes) -> dict[str, str]:
    """Return a digest of each part of a cubin, so that a caller sees in which parts two cubins differ.

    Raise ValueError if the cubin is damaged.
    """
    hashers = {part: hashlib.sha256() for part in (*_DIGESTED_PART_OF_SECTION.values(), _OTHER_PART)}
    for name, size, inside in read_sections(data):
        plain = name.replace(".nv.merc", "", 1)
        part = next(
            (part for start, part in _DIGESTED_PART_OF_SECTION.items() if plain.startswith(start)),
            _OTHER_PART,
        )
        part = _OTHER_PART if "debug" in name or name in _SYMBOL_TABLES else part
        hashers[part].update(f"{name} {size}\n".encode("utf-8", "replace") + inside)
    return {part: hasher.hexdigest()[:16] for part, hasher in hashers.items()}


def origin_of(symbol: str) -> str:
    """Return the library that a symbol belongs to, by its outermost namespace: 'CUB' for `cub::…`."""
    start = _MANGLING_PREFIX.match(symbol)
    at = len(symbol) if start is None else start.end()
    while (length := _LENGTH.match(symbol, at)) is not None:
        scope = symbol[length.end() : length.end() + int(length[0])]
        if not scope.startswith(_FILE_LOCAL_SCOPES):
            return _LIBRARIES.get(scope, _OTHER_ORIGIN)
        at = length.end() + int(length[0])
    return _OTHER_ORIGIN
