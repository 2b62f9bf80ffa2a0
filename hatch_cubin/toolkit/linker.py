"""Inputs and nvJitLink options for linking modules that consist of several sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ToolchainError, problem
from ..planning.unit_plan import Module, Unit
from .toolkit import LINKER_FIELDS, Toolkit

# The linker options that have the effect of NVRTC's option `use_fast_math`.
_FAST_MATH: Mapping[str, bool] = {"ftz": True, "prec_div": False, "prec_sqrt": False, "fma": True}
# the form in which cuda.core writes these linker options
_SWITCH = re.compile(rb"^(-(?:ftz|prec-div|prec-sqrt|fma)=)(true|false)$")
# With LTO, the linker accepts only digits as values of these options.
_DIGITS = {b"true": b"1", b"false": b"0"}


class Input(NamedTuple):
    """An input of a link: a compiled source (object file), a PTX source, or a file that `link` lists."""

    name: str  # the input's name, which does not depend on the build's folder
    kind: str  # The kind of the input, as `cubin/objects.py` returns it; "lto" or "cubin" for an object file.
    # The digest of the input's bytes. For an object file: the digest of everything that it is compiled from.
    digest: str
    unit: Unit | None = None  # the unit (a module for one arch) that an object file was compiled from
    text: bytes = b""  # the text of a PTX source
    path: Path | None = None  # The path of an input that was compiled before the build.
    # The name and version of the distribution package that contains the input's file.
    wheel: tuple[str, str] | None = None

    @property
    def is_own(self) -> bool:
        """Whether this input of the linker is an already compiled file of the project, such as a library."""
        return self.path is not None and self.wheel is None


def refuse_older(toolkit: Toolkit) -> None:
    """Raise ToolchainError if nvJitLink is older than NVRTC, and so cannot read LTO-IR from NVRTC."""
    linker = tuple(map(int, toolkit.nvjitlink.split(".")[:2]))
    if linker < toolkit.version:
        what = f"nvJitLink {toolkit.nvjitlink} cannot link LTO-IR from the newer NVRTC {toolkit.nvrtc}"
        release = ".".join(map(str, toolkit.version))
        hint = (
            f"install the nvJitLink of CUDA {release}; "
            f'to use CUDA {release} for NVRTC and nvJitLink, write toolkit = "{release}"'
        )
        raise ToolchainError(problem("nvjitlink-too-old", what, hint=hint))


def link_options(unit: Unit) -> tuple[bytes, ...]:
    """Return the options of nvJitLink for linking *unit*."""
    from cuda.core import LinkerOptions

    link = unit.module.link
    assert link is not None
    fields: dict[str, Any] = {"link_time_optimization": True} if link.mode == "lto" else {}
    fields |= options_of_code(unit.module)
    options = LinkerOptions(arch=str(unit.arch.real), **fields).as_bytes("nvjitlink")
    return tuple(_SWITCH.sub(lambda match: match[1] + _DIGITS[match[2]], each) for each in options)


def options_of_code(module: Module) -> dict[str, Any]:
    """Return the options of a module that change the machine code that the linker generates."""
    fast = _FAST_MATH if module.options.get("use_fast_math") else {}
    own = {name: value for name, value in module.options.items() if name in LINKER_FIELDS}
    return {**fast, **own}
