"""How modules are linked of several sources: what goes into their keys, and the options of nvJitLink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._digest import digest
from .._plan import Module, Unit
from ..errors import Problem, ToolchainError
from .toolkit import DATA_MODEL, LINKER_FIELDS, OTHER_MACHINE, Keys, Toolkit

_SCHEMA = "hatch-cubin link 2"
# What NVRTC's option stands for where code is made when it is linked.
_FAST_MATH: Mapping[str, bool] = {"ftz": True, "prec_div": False, "prec_sqrt": False, "fma": True}
_SWITCH = re.compile(rb"^(-(?:ftz|prec-div|prec-sqrt|fma)=)(true|false)$")  # as cuda.core writes them
_DIGITS = {b"true": b"1", b"false": b"0"}  # for the linker, which takes no words with LTO


class Input(NamedTuple):
    """One thing that a module is linked of: an object, a PTX text, or a file of others."""

    name: str  # the same in every folder
    kind: str  # as `cubin/objects.py` tells them, or "lto" and "cubin" for objects
    digest: str  # of its bytes, or of all that an object is made of
    unit: Unit | None = None  # an object
    text: bytes = b""  # of a source
    path: Path | None = None  # where a file is
    wheel: tuple[str, str] | None = None  # a distribution that has the file, with its version

    @property
    def is_own(self) -> bool:
        """Whether it is a file of the project that is no source."""
        return self.path is not None and self.wheel is None


def refuse_older(toolkit: Toolkit) -> None:
    """Raise ToolchainError where nvJitLink is older than NVRTC: it cannot read the LTO-IR of that."""
    linker = tuple(map(int, toolkit.nvjitlink.split(".")[:2]))
    if linker < toolkit.version:
        what = f"nvJitLink {toolkit.nvjitlink} cannot link LTO-IR of NVRTC {toolkit.nvrtc}, which is newer"
        hint = 'install an nvJitLink of the same release; to ask for both: toolkit = "…"'
        raise ToolchainError(Problem(what, hint=hint))


def link_inputs(unit: Unit, toolkit: Toolkit, inputs: Sequence[Input]) -> dict[str, Any]:
    """Return what the key of a linked unit is made of, under names that people know."""
    module = unit.module
    assert module.link is not None
    return {
        "schema": _SCHEMA,
        "source": digest(["link", module.base]),  # the same whatever the module is linked of
        "path": module.base,
        "arch": str(unit.arch),
        "compiler": f"{toolkit.nvjitlink} {OTHER_MACHINE}".rstrip(),
        "data_model": DATA_MODEL,
        "define": [f"{name}={value}" for name, value in module.variant],
        "options": {name: _plain(value) for name, value in _of_code(module).items()},
        "instantiate": list(module.instantiate),
        "implicit": [],
        "headers": {},
        "search": [],
        "trees": [],
        "builds": {},
        "cuda_core": toolkit.core,
        "mode": module.link.mode,
        "linked": [f"{each.digest} {each.kind} {each.name}" for each in inputs],
    }


def link_keys(unit: Unit, toolkit: Toolkit, inputs: Sequence[Input]) -> Keys:
    """Return the keys of a linked unit: of what its inputs are made of, in their order, and of the linker."""
    whole = link_inputs(unit, toolkit, inputs)
    parts = [_SCHEMA, whole["arch"], whole["compiler"], DATA_MODEL, whole["mode"]]
    parts += [*whole["linked"], "names", *whole["instantiate"], "options"]
    parts += [option.decode() for option in link_options(unit)]
    return Keys(bytes.fromhex(digest(parts)), None)


def link_options(unit: Unit) -> tuple[bytes, ...]:
    """Return the options of a unit's link."""
    from cuda.core import LinkerOptions

    link = unit.module.link
    assert link is not None
    fields = {"link_time_optimization": True} if link.mode == "lto" else {}
    options = LinkerOptions(arch=str(unit.arch.real), **fields, **_of_code(unit.module)).as_bytes("nvjitlink")
    return tuple(_SWITCH.sub(lambda match: match[1] + _DIGITS[match[2]], each) for each in options)


def _of_code(module: Module) -> dict[str, Any]:
    """Return those of a module's options that decide how code is made."""
    fast = _FAST_MATH if module.options.get("use_fast_math") else {}
    own = {name: value for name, value in module.options.items() if name in LINKER_FIELDS}
    return {**fast, **own}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
