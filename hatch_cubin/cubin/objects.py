"""Read the inputs of a link: the kind of each file, its symbols, and whether it is complete."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from . import elf
from .elf import SymbolShape

LTO_MAGIC = b"\xedCN\x7f"

_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_ARCHIVE_MAGIC = b"!<arch>\n"
_BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_EM_CUDA = 190  # e_machine
_LTO_HEADER_SIZE = 48
_LINKABLE_KINDS = "PTX, LTO-IR, a relocatable cubin, a fatbin or an archive"
_BITCODE_REFUSED = (
    "is NVVM bitcode, which nvJitLink cannot link: compile its source to LTO-IR with NVRTC or nvcc"
)

_PTX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_SYMBOL = re.compile(
    r"^[ \t]*\.(?P<how>visible|weak|extern|common)\s+(?P<what>[^;{=]*)", re.MULTILINE | re.DOTALL
)
_PTX_NAME = re.compile(
    r"(?:\.func\s*(?:\([^)]*\))?\s*|\.entry\s+|\.[\w]+\s+)([A-Za-z_$%][\w$]*)\s*(?:[(\[]|$)"
)


class LinkSymbols(NamedTuple):
    """The symbols that an input of a link defines and needs."""

    strong: Collection[str] = ()  # Only one input of the linker may define a strong symbol.
    weak: Collection[str] = ()  # Several inputs of the linker may define a weak symbol.
    needed: Collection[str] = ()  # The symbols that another input of the linker has to define.
    functions: Collection[str] = ()  # The strong symbols that are device functions.
    shapes: Mapping[str, SymbolShape] = {}  # empty for PTX


def kind_of(data: bytes) -> str:
    """Return the kind of an input of a link: ptx, lto, cubin, fatbin or library.

    Raise ValueError with the reason if *data* cannot be linked or is damaged. A linker does not check its
    inputs, and would read beyond the end of a damaged file.
    """
    if data.startswith(LTO_MAGIC):
        if len(data) < _LTO_HEADER_SIZE:
            raise ValueError("is damaged LTO-IR: the end is missing")
        return "lto"
    if data.startswith(b"\x7fELF"):
        _check_cubin(data)
        return "cubin"
    if data.startswith(_FATBIN_MAGIC):
        _check_fatbin(data)
        return "fatbin"
    if data.startswith(_ARCHIVE_MAGIC):
        _check_archive(data)
        return "library"
    if data.startswith(_BITCODE_MAGIC):
        raise ValueError(_BITCODE_REFUSED)
    if re.search(rb"^\s*\.version\s+\d", data, re.MULTILINE) and b"\0" not in data:
        return "ptx"
    raise ValueError(f"is not {_LINKABLE_KINDS}")


def _check_cubin(data: bytes) -> None:
    try:
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine != _EM_CUDA:
            raise ValueError("is an object file for the host, not a cubin")
        found = elf.read_cubin(data)
        elf.read_symbols(data)
    except struct.error as exc:
        raise ValueError("is a damaged cubin") from exc
    if found.loadable:
        raise ValueError("is a finished cubin: only relocatable cubins can be linked")


def _check_fatbin(data: bytes) -> None:
    """Check the sizes of all entries of a fatbin.

    Each entry of a fatbin begins with the sizes of its header and content.
    """
    try:
        header, size = struct.unpack_from("<HQ", data, 6)
        at, end = header, header + size
        if end != len(data):
            raise ValueError("is a damaged fatbin: the size in its header is not the size of the file")
        while at < end:
            length, payload = struct.unpack_from("<IQ", data, at + 4)
            if not length or at + length + payload > end:
                raise ValueError("is a damaged fatbin: an entry extends beyond the end of the file")
            at += length + payload
    except struct.error as exc:
        raise ValueError("is a damaged fatbin: the end is missing") from exc


def _check_archive(data: bytes) -> None:
    """Check the sizes of all members of an archive.

    Each member of an archive begins with a header of 60 characters.
    """
    at = len(_ARCHIVE_MAGIC)
    while at < len(data):
        head = data[at : at + 60]
        if len(head) < 60 or head[58:] != b"`\n" or not head[48:58].strip().isdigit():
            raise ValueError("is a damaged archive: the header of a member is missing")
        at += 60 + int(head[48:58])
        if at > len(data):
            raise ValueError("is a damaged archive: a member extends beyond the end of the file")
        at += at & 1


def symbols_of(kind: str, data: bytes) -> LinkSymbols | None:
    """Return the symbols of an input of a link; None if this kind of input does not show its symbols."""
    if kind == "cubin":
        return LinkSymbols(*elf.read_symbols(data))
    return ptx_symbols(data.decode("utf-8", "replace")) if kind == "ptx" else None


def ptx_symbols(text: str) -> LinkSymbols:
    """Return the symbols of a PTX text.

    A symbol that the text both declares and defines counts as defined.
    """
    found: dict[str, set[str]] = {"visible": set(), "weak": set(), "extern": set(), "common": set()}
    functions = set[str]()
    for match in _PTX_SYMBOL.finditer(_PTX_COMMENT.sub(" ", text)):
        what = re.sub(r"\.(?:align|attribute)\s*(?:\d+|\([^)]*\))", "", match["what"])
        if name := _PTX_NAME.search(what):
            found[match["how"]].add(name[1])
            if what.startswith(".func"):
                functions.add(name[1])
    weak = found["weak"] | found["common"]
    strong = found["visible"] - weak
    needed = found["extern"] - strong - weak
    return LinkSymbols(sorted(strong), sorted(weak), sorted(needed), sorted(strong & functions))


def shape_conflicts(
    inputs: Sequence[tuple[str, LinkSymbols]],
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each symbol that two inputs of a link declare in ways that nvlink does not accept.

    With each symbol, yield a dict: each key describes how inputs declare the symbol, such as "has 8 bytes",
    and the value contains the names of these inputs.
    """
    having: dict[str, list[tuple[str, SymbolShape]]] = {}
    for name, symbols in inputs:
        for symbol, shape in symbols.shapes.items():
            having.setdefault(symbol, []).append((name, shape))
    for symbol, shapes in having.items():
        for field, described in _DESCRIBE_FIELD.items():
            found: dict[str, list[str]] = {}
            for name, shape in shapes:
                if value := getattr(shape, field):
                    found.setdefault(described(value), []).append(name)
            if len(found) > 1:
                yield symbol, found
                break


def _describe_kind(keyword: str) -> str:
    return f"is a {keyword}" if keyword in {"function", "kernel"} else f"is {keyword}"


def _describe_size(size: int) -> str:
    return f"has {size} byte{'s' * (size != 1)}"


def _describe_prototype(text: str) -> str:
    """Describe the prototype of a function.

    For example, the prototype "#vib12" is described as "returns nothing and takes 4 bytes, a struct of 12
    bytes", because "v" means no value, "i" means 4 bytes, and "b12" means a struct.
    """
    sizes = [
        _SIZE_NAMES.get(each) or f"a struct of {each[1:]} bytes" for each in re.findall(r"[vil]|b\d+", text)
    ]
    return f"returns {sizes[0]} and takes {', '.join(sizes[1:]) or 'nothing'}" if sizes else f"is {text}"


# The letters for the types in a prototype. A type that is smaller than an int is passed as an int ("i").
_SIZE_NAMES = {"v": "nothing", "i": "4 bytes", "l": "8 bytes"}
_DESCRIBE_FIELD: Mapping[str, Callable[..., str]] = {
    "kind": _describe_kind,
    "size": _describe_size,
    "prototype": _describe_prototype,
}


def is_newer_lto(data: bytes, own: bytes) -> bool:
    """Return whether *data* (LTO-IR) has a newer format than the LTO-IR of this toolkit (*own*)."""
    return (data[5], data[7]) > (own[5], own[7])
