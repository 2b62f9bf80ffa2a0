"""Read from a compiler's result its arch, the CUDA that it needs, and whether it is for a debugger.

The name of a file may be wrong, so this reads its bytes: PTX, LTO-IR, or a cubin that NVRTC, nvJitLink,
ptxas, nvlink or tileiras of any CUDA 12 or 13 made. Pure.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable

from . import elf
from .objects import LTO_MAGIC
from .ptx import read_directives

# By the ABI in the header: where the flags have the number of the arch, and which flag is set for `a` code.
# CUDA 12 writes ABI 7, and 8 for sm_100 and newer. CUDA 13 writes ABI 8, and does not set a flag for `a`
# code.
_ARCH_FLAGS = {7: (0, 1 << 11), 8: (8, 1 << 3)}

_TOOL_NOTES = ".note.nv.tkinfo"  # the command lines of the tools that made a cubin, and their releases
_ARCH_OPTION = re.compile(rb"(?<![^\0 ])-arch[ =]sm_([0-9]{2,4})([af]?)(?=[\0 ])")
_TOOL_RELEASE = re.compile(rb"\brelease ([0-9]{1,3})\.[0-9]")
_FIRST_NEW_LAYOUT = 100  # the first arch for which CUDA 12 wrote the layout of CUDA 13
_DEBUG_SECTION = ".nv_debug_info_reg_sass"  # only -G makes it; .debug_… sections have line numbers too
_LTO_NUMBER, _LTO_EXACT = 1, 32  # attributes of LTO-IR

ArchAndSuffix = tuple[int, str]  # such as (90, "a")


def arch_of(data: bytes) -> str | None:
    """Return the arch that a result is for, such as `sm_100a`, or `compute_90` for PTX.

    A cubin that was linked from parts for several archs runs only on GPUs that run all parts, so its arch is
    the strictest of these. None if the layout is not known. ValueError if *data* is neither a cubin, nor PTX,
    nor LTO-IR.
    """
    if data.startswith(b"\x7fELF"):
        return _arch_of_cubin(data)
    if data.startswith(LTO_MAGIC):
        return _arch_of_lto(data)
    targets = read_directives(data.decode("utf-8", "replace")).targets
    if not targets:
        raise ValueError("is neither a cubin nor PTX")
    return f"compute_{_strictest(max(number for number, _suffix in targets), targets)}"


def differing_arch(data: bytes, arch: str) -> str | None:
    """Return the arch that a result is for, if it is not *arch*; ValueError as in `arch_of`."""
    real = arch_of(data)
    if data.startswith(LTO_MAGIC):
        arch = arch.removesuffix("f")  # LTO-IR does not have the suffix of families
    return None if real in (None, arch) else real


def oldest_toolkit(data: bytes) -> int:
    """Return the lowest major version of CUDA that runs a cubin; 0 if the cubin does not have it."""
    number, _flag = _arch_in_header(data)
    is_new = data[8] == 8 and number is not None and number < _FIRST_NEW_LAYOUT
    return max(
        [13 * is_new, *(int(major) for major in _TOOL_RELEASE.findall(elf.read_section(data, _TOOL_NOTES)))]
    )


def is_for_debugger(data: bytes) -> bool:
    """Return whether a result was compiled with -G, that is, not optimized; ValueError if it is damaged."""
    if data.startswith(b"\x7fELF"):
        return any(name == _DEBUG_SECTION for name, _size in elf.read_layout(data)[1])
    return read_directives(data.decode("utf-8", "replace")).debug


def _arch_of_cubin(data: bytes) -> str | None:
    number, is_exact = _arch_in_header(data)
    if number is None:
        return None
    found = _ARCH_OPTION.findall(elf.read_section(data, _TOOL_NOTES))
    parts = [(int(digits), suffix.decode()) for digits, suffix in found]
    return f"sm_{_strictest(number, [*parts, (number, 'a' * is_exact)])}"


def _arch_in_header(data: bytes) -> tuple[int | None, bool]:
    """Return the number of the arch in the header, and whether the code is only for this arch."""
    try:
        (flags,) = struct.unpack_from("<I", data, 48)
    except struct.error:
        raise ValueError("is a damaged cubin") from None
    if data[8] not in _ARCH_FLAGS:
        return None, False
    shift, exact = _ARCH_FLAGS[data[8]]
    return flags >> shift & 0xFF, bool(flags & exact)


def _arch_of_lto(data: bytes) -> str | None:
    """Return the arch of LTO-IR. Its header ends with a list of attributes and their values."""
    try:
        start, end = struct.unpack_from("<HxxH", data, 12)
        attributes = dict(struct.iter_unpack("<HH", data[start:end]))
    except struct.error:
        return None
    number, tenth = divmod(attributes.get(_LTO_NUMBER, 0), 10)
    return f"sm_{number}{'a' * (_LTO_EXACT in attributes)}" if number and not tenth else None


def _strictest(number: int, parts: Iterable[ArchAndSuffix]) -> str:
    """Return the strictest arch, without its kind, of code for *number* that was linked from *parts*."""
    known: Collection[ArchAndSuffix] = {*parts}
    for each, suffix in sorted(known):
        if suffix == "a":  # no other arch runs this code
            return f"{each}a"
    return f"{number}f" if (number, "f") in known else str(number)
