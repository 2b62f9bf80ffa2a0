"""Read a cubin, which is an ELF file: its kernels, their resources, and whether the cubin can be loaded."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_ET_EXEC = 2
_SYMTAB = 2
# The types of ELF sections that have a size in memory but no bytes in the file. The type 8 is NOBITS. The
# other types are NVIDIA's types for uninitialised global, local, shared and reserved shared memory.
_SIZED_BUT_EMPTY = frozenset({8, 0x70000007, 0x70000009, 0x7000000A, 0x70000015})
_OBJECT, _FUNC = 1, 2
_COMMON, _CUDA_OBJECT = 5, 13
_LINKED_KINDS = frozenset({0, _OBJECT, _FUNC, _COMMON, _CUDA_OBJECT})
_GLOBAL = 1  # The binding of a global symbol in ELF (0 is local, 2 is weak).
_RESERVED, _COMMON_SECTION = 0xFF00, 0xFFF2
# the prefixes of two tables for indirect calls, which every object file contains
_INDIRECT_CALL_TABLES = ("__UDT", "__UFT")
_TOOLKIT_PREFIX = "."  # the first character of symbols that belong to the CUDA toolkit itself
_DEVICE_RUNTIME = "_cuda_device_runtime_cu_"  # A text in the symbols of all internal kernels of libcudadevrt.
_ENTRY_POINT = 0x10  # The bit of the field st_other that marks a kernel.
_MANAGED_BIT, _SPACES = (
    0x04,
    {0x20: "__device__", 0x40: "__shared__", 0x80: "__constant__"},
)  # The bits of the field st_other that name the memory space of a variable.

# The position of the target's number in the flags of the ELF header, by ABI version. CUDA 12 writes ABI 7,
# CUDA 13 writes ABI 8.
_TARGET_SHIFTS = {7: 0, 8: 8}

# the types of the ELF sections with attributes of kernels and with prototypes
_CUDA_INFO, _PROTOTYPES = 0x70000000, 0x70000002
# EIFMT_SVAL: the value comes after the attribute's header. In all other formats, the header contains the
# value.
_SIZED_FORMAT = 4
_FRAME_SIZE, _REGCOUNT, _API_VERSION, _ANNOTATIONS = 0x11, 0x2F, 0x37, 0x55
_PARAMETER, _LARGE_PARAMETER, _PARAMETERS_END = 0x17, 0x45, 0x19
# EIFMT_BVAL and EIFMT_HVAL: the attribute's header contains a value of one or two bytes in place of a size.
_BYTE_FORMAT, _HALF_FORMAT = 2, 3
_LIMIT_NAMES = {
    0x05: "max_threads",
    0x10: "required_threads",
    0x1B: "max_registers",
    0x3D: "cluster",
    0x3F: "max_cluster",
    0x4C: "barriers",
}
# tileiras adds a kernel with this name if the Tile IR has no kernel
PLACEHOLDER_OF_TILEIRAS = "__$dummy_kernel"
_TILE_SYMBOL = b"\0___NV_TILE_LAUNCH_META_DATA___\0"  # tileiras defines this symbol in each cubin
_ANY_REGISTERS = (0xFF,)
# An instruction takes 16 bytes. The instruction EXIT without a condition begins with these bytes.
_INSTRUCTION, _EXIT = 16, b"\x4d\x79"
_SPILL_OR_REFILL = 1  # The kind of annotation for an instruction that spills or restores a register.
# Compilers write annotations about spilled registers since this API version (CUDA 12.9).
_FIRST_ANNOTATING = 129
# the exceptions that reading damaged bytes can raise
_UNREADABLE = (struct.error, LookupError, OverflowError, ValueError)


@dataclass(frozen=True, slots=True)
class Cubin:
    """The facts about a cubin: the symbols of its kernels, whether the driver can load it, and its target.

    If *loadable* is false, the cubin contains relocatable code, which has to be linked before the driver can
    load it.
    """

    kernels: tuple[str, ...]
    loadable: bool
    target: int | None = None  # The number of the arch, such as 90 for sm_90a. None if it is not known.


class KernelUse(NamedTuple):
    """The resources of a kernel, and the offset and size of each parameter (None if they are unknown)."""

    uses: dict[str, int]
    parameters: tuple[tuple[int, int], ...] | None


class SymbolShape(NamedTuple):
    """Facts about a symbol that must be the same in all inputs of a link. 0 and "" mean unknown."""

    # The kind of the symbol: "function", "kernel", or for a variable a keyword such as "__shared__".
    kind: str = ""
    size: int = 0  # The size of a variable in bytes. It is 0 for a function.
    # The sizes of a function's result and parameters, in the notation of NVIDIA's linkers.
    prototype: str = ""


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int

    @property
    def is_in_file(self) -> bool:
        return self.kind not in _SIZED_BUT_EMPTY


class _Symbol(NamedTuple):
    number: int
    name_at: int
    binding: int
    kind: int
    other: int
    section: int
    value: int
    size: int

    @property
    def is_common(self) -> bool:
        return self.kind == _COMMON or self.section == _COMMON_SECTION

    @property
    def is_kernel(self) -> bool:
        return self.kind == _FUNC and bool(self.other & _ENTRY_POINT) and bool(self.section)


def read_cubin(data: bytes) -> Cubin:
    """Return the facts about a cubin; ValueError if *data* is not a 64-bit ELF file or is damaged."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("is not a cubin")
    with _refusing("is a damaged cubin"):
        (kind,), (flags,) = struct.unpack_from("<H", data, 16), struct.unpack_from("<I", data, 48)
        kernels = [name for name, _index, _section in _kernels(data, _sections(data))]
    shift = _TARGET_SHIFTS.get(data[8])
    target = None if shift is None else flags >> shift & 0xFF
    return Cubin(tuple(sorted(kernels)), kind == _ET_EXEC, target)


@contextlib.contextmanager
def _refusing(complaint: str) -> Iterator[None]:
    """If code in the `with` block fails on damaged bytes, raise ValueError with the text *complaint*."""
    try:
        yield
    except _UNREADABLE as exc:
        raise ValueError(complaint) from exc


def read_kernels(data: bytes) -> dict[str, KernelUse]:
    """Return a mapping from the symbol of each kernel of a cubin to the kernel's resources and parameters.

    Raise ValueError if the cubin is damaged.

    A kernel uses registers for each thread, bytes of static shared memory for each block, and bytes of stack
    for each thread. If the compiler has written the number of instructions that spill or refill a register
    into the cubin, the result contains this number.
    """
    kernels = {}
    with _refusing("is a cubin whose attributes cannot be read"):
        sections = _sections(data)
        attributes = [
            (section.info, attribute, value)
            for section in sections
            if section.kind == _CUDA_INFO
            for attribute, value in _attributes(data[section.offset : section.offset + section.size])
        ]
        registers, stacks = (
            _values_by_symbol(attributes, _REGCOUNT),
            _values_by_symbol(attributes, _FRAME_SIZE),
        )
        shared = {each.info: each.size for each in sections if each.name.startswith(".nv.shared.")}
        spills = {
            code: _count_spills(value) for code, attribute, value in attributes if attribute == _ANNOTATIONS
        }
        without_annotations = {
            code
            for code, attribute, value in attributes
            if attribute == _API_VERSION and int.from_bytes(value, "little") < _FIRST_ANNOTATING
        }
        by_section: dict[int, list[tuple[int, bytes]]] = {}
        for code, attribute, value in attributes:
            if attribute in (_PARAMETER, _LARGE_PARAMETER, _PARAMETERS_END):
                by_section.setdefault(code, []).append((attribute, value))
        for name, symbol, code in _kernels(data, sections):
            stack = stacks.get(symbol, 0)
            uses = {"registers": registers[symbol], "shared": shared.get(code, 0), "stack": stack}
            # A kernel without a stack cannot spill registers. The number of spills of such a kernel is 0,
            # even without annotations.
            if code in spills or not stack or code not in without_annotations:
                uses["spills"] = spills.get(code, 0)
            kernels[name] = KernelUse(uses, _parameters(by_section.get(code, ())))
    return kernels


def has_tile_kernels(data: bytes) -> bool:
    """Return whether the kernels of a cubin are tile kernels."""
    return data.startswith(b"\x7fELF") and _TILE_SYMBOL in data


def read_limits(data: bytes) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return a mapping from each kernel's symbol to its limits for a launch, such as the number of threads.

    The limits of threads and of clusters consist of three numbers, one for each dimension. Raise ValueError
    if the cubin's attributes cannot be read.
    """
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    with _refusing("is a cubin whose attributes cannot be read"):
        sections = _sections(data)
        by_section: dict[int, dict[str, tuple[int, ...]]] = {}
        for section in sections:
            if section.kind == _CUDA_INFO and section.info:
                for attribute, value in _attributes(data[section.offset : section.offset + section.size]):
                    if attribute in _LIMIT_NAMES:
                        by_section.setdefault(section.info, {})[_LIMIT_NAMES[attribute]] = _integers(value)
        for name, _symbol, code in _kernels(data, sections):
            limits = by_section.get(code, {})
            if limits.get("max_registers") == _ANY_REGISTERS:
                del limits["max_registers"]
            found[name] = limits
    return found


def symbol_number(data: bytes, kernel: str) -> int:
    """Return the number of a kernel in the symbol table, by which nvdisasm selects the kernel.

    Raise ValueError if the cubin does not have the kernel.
    """
    with _refusing("is a damaged cubin"):
        found = {name: number for name, number, _section in _kernels(data, _sections(data))}
    if kernel not in found:
        raise ValueError(f"does not have the kernel {kernel}")
    return found[kernel]


def read_resources(data: bytes) -> dict[str, dict[str, int]]:
    """Return a mapping from the symbol of each kernel of a cubin to its resources, such as registers."""
    return {symbol: kernel.uses for symbol, kernel in read_kernels(data).items()}


def read_symbol_order(data: bytes) -> tuple[tuple[str, bool], ...]:
    """Return a cubin's symbols twice: in the order of the symbol table, then in the order of the sections.

    Each item is the name of a symbol, and whether the symbol is a function but not a kernel. If a cubin
    contains only kernels, the result is empty, because a precompiled header does not change the order of
    kernels. Raise ValueError if the symbols cannot be read.
    """
    with _refusing("is a damaged cubin"):
        symbols = [
            (_string_at(data, symbol.name_at), symbol)
            for symbol in _symbols(data, _sections(data))
            if symbol.kind in {_FUNC, _OBJECT}
        ]
    listed = [(name, symbol) for name, symbol in symbols if not name.startswith(_TOOLKIT_PREFIX)]
    if all(symbol.is_kernel for _name, symbol in listed):
        return ()
    lying = sorted(listed, key=lambda pair: (pair[1].section, pair[1].value))
    return tuple((name, symbol.kind == _FUNC and not symbol.is_kernel) for name, symbol in [*listed, *lying])


def read_kernel_code(data: bytes) -> bytes:
    """Return the joined bytes of those sections of a cubin that contain a kernel's code or attributes.

    Raise ValueError if the cubin's sections cannot be read.
    """
    with _refusing("is a damaged cubin"):
        sections = _sections(data)
        endings = tuple(f".{name}" for name, _index, _section in _kernels(data, sections))
    return b"".join(_section_bytes(data, each) for each in sections if each.name.endswith(endings))


def empty_kernels(data: bytes) -> set[str]:
    """Return the symbols of the kernels whose code only sets the stack pointer and then ends.

    Raise ValueError if the cubin's sections cannot be read.
    """
    with _refusing("is a damaged cubin"):
        sections = _sections(data)
        return {
            name
            for name, _number, code in _kernels(data, sections)
            if _section_bytes(data, sections[code])[_INSTRUCTION:][:2] == _EXIT
        }


def read_layout(data: bytes) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the names of a cubin's symbols, and the name and size of each section stored in the file.

    Raise ValueError if the cubin is damaged.
    """
    with _refusing("is a damaged cubin"):
        sections = _sections(data)
        names = [_string_at(data, symbol.name_at) for symbol in _symbols(data, sections)]
    return names, [(each.name, each.size) for each in sections if each.is_in_file]


def read_sections(data: bytes) -> list[tuple[str, int, bytes]]:
    """Return the name, size and bytes of each section of a cubin; ValueError if the cubin is damaged."""
    with _refusing("is a damaged cubin"):
        return [(each.name, each.size, _section_bytes(data, each)) for each in _sections(data)]


def read_section(data: bytes, name: str) -> bytes:
    """Return the joined bytes of a cubin's sections called *name*; ValueError if the cubin is damaged."""
    with _refusing("is a damaged cubin"):
        return b"".join(_section_bytes(data, each) for each in _sections(data) if each.name == name)


def _section_bytes(data: bytes, section: _Section) -> bytes:
    return data[section.offset : section.offset + section.size] if section.is_in_file else b""


def read_symbols(data: bytes) -> tuple[list[str], list[str], list[str], list[str], dict[str, SymbolShape]]:
    """Return the symbols of a relocatable cubin: strong, weak and needed symbols, and device functions.

    Only one input of a link may define a given strong symbol, but several inputs may define the same weak
    symbol. A needed symbol has to be defined in another input. The device functions are those strong symbols
    that are functions but not kernels. Raise ValueError if the symbols cannot be read, or if a symbol is
    outside of all sections.
    """
    strong, weak, needed, functions = list[str](), list[str](), list[str](), list[str]()
    shapes = dict[str, SymbolShape]()
    with _refusing("is a damaged cubin"):
        sections = _sections(data)
        prototypes = _prototypes(data, sections)
        for name, symbol in _shared_symbols(data, sections):
            is_strong = symbol.binding == _GLOBAL and not symbol.is_common
            if symbol.section or symbol.is_common:
                (strong if is_strong else weak).append(name)
            elif is_strong:
                needed.append(name)
            if symbol.section and is_strong and symbol.kind == _FUNC and not symbol.is_kernel:
                functions.append(name)
            shapes[name] = _shape_of(symbol, prototypes.get(symbol.number, ""))
    return strong, weak, needed, functions, shapes


def _shape_of(symbol: _Symbol, prototype: str) -> SymbolShape:
    if symbol.kind == _FUNC:
        return SymbolShape("kernel" if symbol.other & _ENTRY_POINT else "function", 0, prototype)
    space = next((keyword for bit, keyword in _SPACES.items() if symbol.other & bit), "")
    # A common symbol gets the largest size of all inputs of the linker, so the sizes may differ.
    size = 0 if symbol.is_common else symbol.size
    return SymbolShape("__managed__" if symbol.other & _MANAGED_BIT else space, size)


def _prototypes(data: bytes, sections: Sequence[_Section]) -> dict[int, str]:
    """Return the prototype of each function. Functions are identified by their number in the symbol table."""
    found = dict[int, str]()
    for table in sections:
        if table.kind == _PROTOTYPES:
            texts_at = sections[sections[table.link].link].offset  # The names in the symbol table.
            pairs = struct.iter_unpack("<II", data[table.offset : table.offset + table.size])
            found |= {number: _string_at(data, texts_at + at) for number, at in pairs}
    return found


def _shared_symbols(data: bytes, sections: Sequence[_Section]) -> Iterator[tuple[str, _Symbol]]:
    """Yield the symbols that linkers resolve between inputs.

    Local symbols and symbols of the toolkit are left out.
    """
    if any(each.is_in_file and each.offset + each.size > len(data) for each in sections):
        raise ValueError("a section extends beyond the end of the file")
    for symbol in _symbols(data, sections):
        name = _string_at(data, symbol.name_at)
        if (
            symbol.kind not in _LINKED_KINDS
            or not symbol.binding
            or name.startswith((_TOOLKIT_PREFIX, *_INDIRECT_CALL_TABLES))
        ):
            continue
        if _RESERVED > symbol.section >= len(sections):
            raise ValueError("a symbol is outside of all sections")
        yield name, symbol


# cached: a build reads each cubin twice, for its kernels and for its arch
@functools.lru_cache(maxsize=1)
def _sections(data: bytes) -> tuple[_Section, ...]:
    (at,) = struct.unpack_from("<Q", data, 40)
    entry_size, count, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + index * entry_size) for index in range(count)]
    texts_at = rows[names][4]
    return tuple(
        _Section(_string_at(data, texts_at + name), kind, offset, size, link, info)
        for name, kind, _flags, _address, offset, size, link, info, _alignment, _entry in rows
    )


def _kernels(data: bytes, sections: Sequence[_Section]) -> Iterator[tuple[str, int, int]]:
    """Yield each kernel's symbol, the number of the symbol, and the number of the section with the code.

    The internal kernels of CUDA's device runtime (libcudadevrt), which programs do not launch, are left out.
    """
    for symbol in _symbols(data, sections):
        if symbol.is_kernel and _DEVICE_RUNTIME not in (name := _string_at(data, symbol.name_at)):
            yield name, symbol.number, symbol.section


def _symbols(data: bytes, sections: Sequence[_Section]) -> Iterator[_Symbol]:
    for table in sections:
        if table.kind != _SYMTAB:
            continue
        names_at = sections[table.link].offset
        for number, at in enumerate(range(table.offset, table.offset + table.size, 24)):
            name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", data, at)
            yield _Symbol(number, names_at + name, info >> 4, info & 0xF, other, section, value, size)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED_FORMAT:
            yield attribute, data[at : at + size]
            at += size
        elif attribute == _PARAMETERS_END or (
            attribute in _LIMIT_NAMES and form in (_BYTE_FORMAT, _HALF_FORMAT)
        ):
            yield attribute, size.to_bytes(2, "little")[: 1 if form == _BYTE_FORMAT else 2]


def _integers(value: bytes) -> tuple[int, ...]:
    """Parse an attribute's value: an integer of one or two bytes, or several integers of four bytes."""
    return tuple(int.from_bytes(value[at : at + 4], "little") for at in range(0, len(value), 4))


def _parameters(attributes: Iterable[tuple[int, bytes]]) -> tuple[tuple[int, int], ...] | None:
    """Return the offset and size of each parameter of a kernel, in order; None if the sizes do not add up."""
    found, end = {}, 0
    for attribute, value in attributes:
        if attribute == _PARAMETERS_END:
            end = int.from_bytes(value, "little")
        elif len(value) == 12:
            _index, number, offset, size, rest = struct.unpack("<IHHHH", value)
            if attribute == _PARAMETER:
                # In the attribute for small parameters, the size of a parameter has only 14 bits.
                size = (rest << 16 | size) >> 18
            found[number] = (offset, size)
    parameters = tuple(found[number] for number in sorted(found))
    adds_up = [*sorted(found)] == [*range(len(found))] and max(map(sum, parameters), default=0) == end
    return parameters if adds_up else None


def _values_by_symbol(attributes: list[tuple[int, int, bytes]], attribute_wanted: int) -> dict[int, int]:
    pairs = [
        struct.unpack("<II", value) for _code, attribute, value in attributes if attribute == attribute_wanted
    ]
    return dict(pairs)


def _count_spills(annotations: bytes) -> int:
    kinds = [kind for kind, _offset in struct.iter_unpack("<II", annotations)]
    if set(kinds) - {_SPILL_OR_REFILL}:
        raise ValueError("the cubin has an annotation of an unknown kind")
    return len(kinds)


def _string_at(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
