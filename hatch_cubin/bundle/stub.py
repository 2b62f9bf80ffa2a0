"""The type stub of a bundle: the loader's functions, with the names of the bundle's kernels and modules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

MOST_NAMES = 2000  # more of them slow type checkers and editors down
MOST_IN_A_MESSAGE = 1000  # characters of names that a type checker may show
MOST_SIGNATURES = 200  # more of them nobody reads in what an editor shows over a name

# cuda.core has no types yet, may not be installed, and makes its names when it is imported.
_UNTYPED = "# type: ignore[attr-defined, import-not-found, import-untyped, unused-ignore]"

# What an editor shows over the name of a function begins with this, as the loader's own docstring does.
_SHOWN = {
    "kernel": "Return a cuda.core `Kernel` for the current device, or for *device* (a number or a `Device`).",
    "check_arguments": "Raise a TypeError unless a kernel takes these arguments wherever it runs; for tests.",
}

_TEXT = """\
# Made by hatch-cubin, for type checkers and editors.
# pyright: reportRedeclaration=false, reportInvalidTypeVarUse=false
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, TypeVar, final

from cuda.core import Kernel as _Kernel  {untyped}
from cuda.core import ObjectCode as _ObjectCode  {untyped}
from cuda.core.utils import ProgramCacheResource as _Cache  {untyped}

__all__ = [
    "CubinDamagedError",
    "CubinError",
    "CubinNotFoundError",
    "CubinStaleWarning",
    "CubinUnavailableError",
    "Entry",
    "Loaded",
    "Parameter",
    "Preloaded",
    "archs",
    "cache",
    "check_arguments",
    "find",
    "is_available",
    "kernel",
    "module",
    "names",
    "preload",
    "read",
    "translated",
    "use",
]

_KernelName: TypeAlias = {kernels}
_ModuleName: TypeAlias = {modules}
_AnyName: TypeAlias = {names}

class CubinError(RuntimeError): ...
class CubinNotFoundError(CubinError, LookupError): ...
class CubinDamagedError(CubinError): ...
class CubinUnavailableError(CubinError): ...
class CubinStaleWarning(UserWarning): ...

@final
class Parameter:
    def __init__(self, offset: int, size: int, spelled: str | None = None) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def type(self) -> str | None: ...

@final
class Entry:
    def __init__(self, _comes_from_find: NoReturn, /) -> None: ...
    @property
    def module(self) -> _ModuleName: ...
    @property
    def source(self) -> str: ...
    @property
    def variant(self) -> Mapping[str, str]: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def toolchain(self) -> Mapping[str, Any]: ...
    @property
    def arch(self) -> str: ...
    @property
    def kind(self) -> Literal["cubin", "ptx"]: ...
    @property
    def file(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def block(self) -> str | None: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def min_driver(self) -> int: ...
    @property
    def kernels(self) -> Mapping[str, str]: ...
    @property
    def resources(self) -> Mapping[str, Mapping[str, int]]: ...
    @property
    def parameters(self) -> Mapping[str, tuple[Parameter, ...]]: ...
    @property
    def rule(self) -> str: ...
    @property
    def source_path(self) -> str | None: ...

@final
class Loaded:
    def __init__(self, _comes_from_preload: NoReturn, /) -> None: ...
    @property
    def device(self) -> int: ...
    @property
    def entry(self) -> Entry: ...
    @property
    def kernels(self) -> tuple[_KernelName, ...]: ...
    @property
    def seconds(self) -> float: ...

@final
class Preloaded:
    def __init__(self, _comes_from_preload: NoReturn, /) -> None: ...
    @property
    def loaded(self) -> tuple[Loaded, ...]: ...
    @property
    def missing(self) -> tuple[CubinNotFoundError, ...]: ...

class _Device(Protocol):  # cuda.core's
    @property
    def compute_capability(self) -> tuple[int, int]: ...

class _Code(Protocol):  # cuda.core's ObjectCode
    @property
    def code(self) -> bytes | bytearray | str: ...

@final
class _Layer:
    def close(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_raised: object) -> None: ...

def preload(
    *names: str,  # with * and ? in them, which no literal could tell
    device: int | _Device | Sequence[int | _Device] | None = None,
) -> Preloaded: ...
def names() -> tuple[_KernelName, ...]: ...
def archs() -> tuple[str, ...]: ...
def translated(
    *,
    cc: tuple[int, int] | None = None,
    driver: int | None = ...,
    device: int | _Device | None = None,
) -> tuple[Entry, ...]: ...
def cache(then: _Cache | None = None) -> _Cache: ...
def use(
    what: str | PathLike[str] | Mapping[str, bytes | bytearray | memoryview | _Code] | None = ...,
    *,
    strict: bool | None = None,
) -> _Layer: ...
"""

# The functions that take names. mypy writes every name of a literal into its messages, but not those of the
# bound of a type variable; editors complete the names of a literal alone.
_FUNCTIONS = """\
def kernel(
    name: _AnyName,
    *,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _Device | None = None,
    **macros: Any,
) -> _Kernel:
    {kernel}
def module(
    name: _AnyName,
    *,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _Device | None = None,
    **macros: Any,
) -> _ObjectCode: ...
def find(
    name: _AnyName,
    *,
    cc: tuple[int, int] | None = None,
    driver: int | None = ...,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _Device | None = None,
    **macros: Any,
) -> Entry: ...
def read(
    name: _AnyName,
    *,
    cc: tuple[int, int] | None = None,
    driver: int | None = ...,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    device: int | _Device | None = None,
    **macros: Any,
) -> bytes: ...
def check_arguments(
    name: _AnyName,
    *arguments: Any,
    module: _ModuleName | None = None,
    variant: Mapping[str, Any] | None = None,
    **macros: Any,
) -> None:
    {check_arguments}
def is_available(kernel: _AnyName | None = None, strict: bool | None = None) -> bool: ...
"""

_MANY = """\
MYPY: bool  # true for mypy alone
_ShippedName = TypeVar("_ShippedName", bound=_AnyName)
_ShippedModule = TypeVar("_ShippedModule", bound=_ModuleName | None)
_ShippedNameOrNone = TypeVar("_ShippedNameOrNone", bound=_AnyName | None)

if MYPY:
{for_mypy}
else:
{functions}
"""
_FOR_MYPY = (
    ("_AnyName | None = None", "_ShippedNameOrNone = ..."),
    ("_ModuleName | None = None", "_ShippedModule = ..."),
    ("_AnyName", "_ShippedName"),
)


def stub(kernels: Iterable[str], modules: Iterable[str], signatures: Iterable[str] = ()) -> bytes:
    """Return the stub for these kernels and modules; *modules* has the variants' common names as well.

    *signatures* are shown by editors over the name of a function: `saxpy(float, const float *)`.
    """
    kernels, modules = set(kernels), set(modules)
    spelled = {each for name in kernels for each in (name, name.replace(", ", ","))}
    named = {"kernels": kernels, "modules": modules, "names": spelled | modules}
    aliases = {alias: _literal(each) for alias, each in named.items()}
    listed = _listed({*signatures})
    shown = {function: f'"""{sentence}{listed}"""' for function, sentence in _SHOWN.items()}
    functions = _functions(many=max(map(len, aliases.values())) > MOST_IN_A_MESSAGE)
    return (_TEXT + functions).format(untyped=_UNTYPED, **aliases, **shown).encode()


def _functions(*, many: bool) -> str:
    """Return the functions that take names; if there are *many*, in a second form for mypy's messages."""
    if not many:
        return _FUNCTIONS
    for_mypy = _FUNCTIONS
    for before, after in _FOR_MYPY:
        for_mypy = for_mypy.replace(before, after)
    both = {"for_mypy": for_mypy, "functions": _FUNCTIONS}
    return _MANY.format(**{name: textwrap.indent(code, "    ").rstrip() for name, code in both.items()})


def _listed(signatures: set[str]) -> str:
    """Return what follows the sentence of a docstring, which an editor shows as it stands."""
    if not signatures or len(signatures) > MOST_SIGNATURES:
        return ""
    lines = (ascii(each)[1:-1].replace('"', '\\"') for each in sorted(signatures))
    return "\n".join(["", "", *(f"    {line}" for line in ("```", *lines, "```")), "    "])


def _literal(names: set[str]) -> str:
    if not names or len(names) > MOST_NAMES:
        return "str"
    listed = "".join(f"\n    {name!a}," for name in sorted(names))
    return f"Literal[{listed}\n]"
