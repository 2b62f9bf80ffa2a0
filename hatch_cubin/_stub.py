"""The bundle's type stub: what the loader has, with the names that this bundle has."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMES = 2000  # more of them slow type checkers and editors down

_TEXT = """\
# Made by hatch-cubin, for type checkers and editors.
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, TypeAlias

import cuda.core as _core  # type: ignore[import-untyped, import-not-found, unused-ignore]
import cuda.core.utils as _utils  # type: ignore[import-untyped, import-not-found, unused-ignore]

__all__ = [
    "CubinDamagedError",
    "CubinError",
    "CubinNotFoundError",
    "CubinStaleWarning",
    "CubinUnavailableError",
    "Entry",
    "archs",
    "cache",
    "find",
    "is_available",
    "kernel",
    "module",
    "names",
    "read",
    "use",
]

_AnyName: TypeAlias = {names}
_ModuleName: TypeAlias = {modules}

class CubinError(RuntimeError): ...
class CubinNotFoundError(CubinError, LookupError): ...
class CubinDamagedError(CubinError): ...
class CubinUnavailableError(CubinError): ...
class CubinStaleWarning(UserWarning): ...

class Entry:
    module: str
    source: str
    variant: dict[str, str]
    options: dict[str, Any]
    toolchain: dict[str, Any]
    arch: str
    kind: str
    file: str
    path: str
    size: int
    sha256: str
    min_driver: int
    kernels: dict[str, str]
    resources: dict[str, dict[str, int]]
    rule: str
    @property
    def source_path(self) -> str | None: ...

class _Layer:
    def close(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_raised: object) -> None: ...

def kernel(
    name: _AnyName,
    *,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _core.Device | None = None,
    **macros: Any,
) -> _core.Kernel: ...
def module(
    name: _AnyName,
    *,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _core.Device | None = None,
    **macros: Any,
) -> _core.ObjectCode: ...
def find(
    name: _AnyName,
    *,
    cc: tuple[int, int] | None = None,
    driver: int | None = ...,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _core.Device | None = None,
    **macros: Any,
) -> Entry: ...
def read(
    name: _AnyName,
    *,
    cc: tuple[int, int] | None = None,
    driver: int | None = ...,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _core.Device | None = None,
    **macros: Any,
) -> bytes: ...
def names() -> tuple[str, ...]: ...
def archs() -> tuple[str, ...]: ...
def is_available() -> bool: ...
def cache(then: _utils.ProgramCacheResource | None = None) -> _utils.ProgramCacheResource: ...
def use(what: str | PathLike[str] | Mapping[_AnyName, bytes | _core.ObjectCode] | None) -> _Layer: ...
"""


def stub(kernels: Iterable[str], modules: Iterable[str]) -> bytes:
    """Return the stub for these kernels and modules, a variant's module also by its source's name."""
    kernels, modules = set(kernels), set(modules)
    spelled = {each for name in kernels for each in (name, name.replace(", ", ","))}
    named = _literal(modules)
    return _TEXT.format(names=_literal(spelled | modules), modules=named).encode()


def _literal(names: set[str]) -> str:
    if not names or len(names) > MOST_NAMES:
        return "str"
    listed = "".join(f"\n    {name!a}," for name in sorted(names))
    return f"Literal[{listed}\n]"
