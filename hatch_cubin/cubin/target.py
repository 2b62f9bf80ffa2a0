"""Find out a compiled file's arch and CUDA version, and whether it was compiled for a debugger (-G).

The name of a file may be wrong, so this module reads the bytes of the file. This module supports files that
NVRTC, nvJitLink, ptxas, nvlink and tileiras of CUDA 12 and 13 write: PTX, LTO-IR and cubins.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable

from . import elf
from .objects import LTO_MAGIC
from .ptx import read_directives

# For each ABI version in the ELF header: the position of the arch's number in the header's flags, and the
# flag for arch-specific code (`sm_90a`). CUDA 12 writes ABI 7, and ABI 8 for sm_100 and newer. CUDA 13 writes
# ABI 8, and does not set the flag for arch-specific code.
_ARCH_FLAGS = {7: (0, 1 << 11), 8: (8, 1 << 3)}

# the section with the command lines and releases of the tools that made a cubin
_TOOL_NOTES = ".note.nv.tkinfo"
_ARCH_OPTION = re.compile(rb"(?<![^\0 ])-arch[ =]sm_([0-9]{2,4})([af]?)(?=[\0 ])")
_TOOL_RELEASE = re.compile(rb"\brelease ([0-9]{1,3})\.[0-9]")
_FIRST_NEW_LAYOUT = 100  # For sm_100 and newer archs, CUDA 12 writes cubins in the layout of CUDA 13.
# The section exists only if the code was compiled with -G. Sections .debug_… also exist in code that has only
# line numbers.
_DEBUG_SECTION = ".nv_debug_info_reg_sass"
# The numbers of two attributes of LTO-IR: the arch's number, and a flag for code of one arch, such as sm_90a.
_LTO_NUMBER, _LTO_EXACT = 1, 32

ArchAndSuffix = tuple[int, str]  # such as (90, "a")


def arch_of(data: bytes) -> str | None:
    """Return the arch that *data* was compiled for, such as `sm_100a`, or `compute_90` for PTX.

    A cubin that was linked from parts for several archs runs only on GPUs that can run all parts, so its arch
    is the strictest of these archs. The result is None if the layout of the cubin is not known. Raise
    ValueError if *data* is not a cubin, PTX or LTO-IR.
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
    """Return the arch that *data* was compiled for; None if this arch is *arch*.

    Raise ValueError if *data* is not a cubin, PTX or LTO-IR.
    """
    real = arch_of(data)
    if data.startswith(LTO_MAGIC):
        arch = arch.removesuffix("f")  # LTO-IR does not store the suffix `f` of an arch.
    return None if real in (None, arch) else real


def oldest_toolkit(data: bytes) -> int:
    """Return the lowest major version of CUDA that can load a cubin; 0 if the version is unknown."""
    number, _flag = _arch_in_header(data)
    is_new = data[8] == 8 and number is not None and number < _FIRST_NEW_LAYOUT
    return max(
        [13 * is_new, *(int(major) for major in _TOOL_RELEASE.findall(elf.read_section(data, _TOOL_NOTES)))]
    )


def is_for_debugger(data: bytes) -> bool:
    """Return whether *data* was compiled with -G, that is, unoptimized; ValueError if *data* is damaged."""
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
    """Return the number of the arch in a cubin's header, and whether the code is specific to this arch."""
    try:
        (flags,) = struct.unpack_from("<I", data, 48)
    except struct.error:
        raise ValueError("is a damaged cubin") from None
    if data[8] not in _ARCH_FLAGS:
        return None, False
    shift, exact = _ARCH_FLAGS[data[8]]
    return flags >> shift & 0xFF, bool(flags & exact)


def _arch_of_lto(data: bytes) -> str | None:
    """Return the arch of LTO-IR from the list of attributes at the end of the LTO-IR's header."""
    try:
        start, end = struct.unpack_from("<HxxH", data, 12)
        attributes = dict(struct.iter_unpack("<HH", data[start:end]))
    except struct.error:
        return None
    number, tenth = divmod(attributes.get(_LTO_NUMBER, 0), 10)
    return f"sm_{number}{'a' * (_LTO_EXACT in attributes)}" if number and not tenth else None


def _strictest(number: int, parts: Iterable[ArchAndSuffix]) -> str:
    """Return the arch of code that was linked from code for several archs (*parts*).

    *number* is the number in the name of the arch, such as 90 in sm_90a.
    """
    known: Collection[ArchAndSuffix] = {*parts}
    for each, suffix in sorted(known):
        if suffix == "a":  # code for an arch with the suffix `a` does not run on any other arch
            return f"{each}a"
    return f"{number}f" if (number, "f") in known else str(number)
