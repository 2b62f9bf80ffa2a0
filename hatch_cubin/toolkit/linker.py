"""Link modules of several sources: the inputs, and the options of nvJitLink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ToolchainError, problem
from ..planning.unit_plan import Module, Unit
from .toolkit import LINKER_FIELDS, Toolkit

# The meaning of NVRTC's option `use_fast_math` for the linker.
_FAST_MATH: Mapping[str, bool] = {"ftz": True, "prec_div": False, "prec_sqrt": False, "fma": True}
_SWITCH = re.compile(rb"^(-(?:ftz|prec-div|prec-sqrt|fma)=)(true|false)$")  # as cuda.core writes them
_DIGITS = {b"true": b"1", b"false": b"0"}  # the linker does not accept words with LTO


class Input(NamedTuple):
    """One input of a link: an object, a PTX text, or a compiled file."""

    name: str  # the same in every folder
    kind: str  # a kind of `cubin/objects.py`, or "lto" and "cubin" for objects
    digest: str  # of its bytes, or of all inputs of an object
    unit: Unit | None = None  # the unit, if it is an object
    text: bytes = b""  # the PTX text of a source
    path: Path | None = None  # the path of a file
    wheel: tuple[str, str] | None = None  # a distribution that has the file, with its version

    @property
    def is_own(self) -> bool:
        """Whether it is a file of the project, and not a source."""
        return self.path is not None and self.wheel is None


def refuse_older(toolkit: Toolkit) -> None:
    """Raise ToolchainError if nvJitLink is older than NVRTC: it cannot read NVRTC's LTO-IR."""
    linker = tuple(map(int, toolkit.nvjitlink.split(".")[:2]))
    if linker < toolkit.version:
        what = f"nvJitLink {toolkit.nvjitlink} cannot link LTO-IR of NVRTC {toolkit.nvrtc}, which is newer"
        release = ".".join(map(str, toolkit.version))
        hint = f'install an nvJitLink of the same release; to ask for both: toolkit = "{release}"'
        raise ToolchainError(problem("nvjitlink-too-old", what, hint=hint))


def link_options(unit: Unit) -> tuple[bytes, ...]:
    """Return the options of a unit's link."""
    from cuda.core import LinkerOptions

    link = unit.module.link
    assert link is not None
    fields: dict[str, Any] = {"link_time_optimization": True} if link.mode == "lto" else {}
    fields |= options_of_code(unit.module)
    options = LinkerOptions(arch=str(unit.arch.real), **fields).as_bytes("nvjitlink")
    return tuple(_SWITCH.sub(lambda match: match[1] + _DIGITS[match[2]], each) for each in options)


def options_of_code(module: Module) -> dict[str, Any]:
    """Return the options of a module that change the linker's code."""
    fast = _FAST_MATH if module.options.get("use_fast_math") else {}
    own = {name: value for name, value in module.options.items() if name in LINKER_FIELDS}
    return {**fast, **own}
