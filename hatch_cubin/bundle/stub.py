"""Write the type stub of a bundle: the loader's functions, with the names of the kernels and modules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

MOST_NAMES = 2000  # a stub with more names than this would slow down type checkers and editors
MOST_IN_A_MESSAGE = 1000  # if the names have more characters in all, the messages of mypy become too long
MOST_SIGNATURES = 200  # a docstring with more signatures than this is not readable in an editor

# cuda.core has no type hints yet. Type checkers may also not find it, because it need not be installed.
_UNTYPED = "# type: ignore[attr-defined, import-not-found, import-untyped, unused-ignore]"

FILE = (
    # The lines that are the same in all stubs. `hatch run loader` makes them from the loader's source.
    "loader_stub.txt"
)
SIGNATURES = "{signatures}"  # the placeholder in docstrings for the signatures of all kernels
NAMING = "# functions that take names\n"  # the functions with kernel names as arguments follow this line

_START = """\
# Made by hatch-cubin, for type checkers and editors.
# pyright: reportRedeclaration=false, reportInvalidTypeVarUse=false
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, TypeVar, final

from cuda.core import Kernel as _Kernel  {untyped}
from cuda.core import ObjectCode as _ObjectCode  {untyped}
from cuda.core.utils import ProgramCacheResource as _Cache  {untyped}

_KernelName: TypeAlias = {kernels}
_ModuleName: TypeAlias = {modules}
_AnyName: TypeAlias = {names}

class _Device(Protocol):  # cuda.core's
    @property
    def compute_capability(self) -> tuple[int, int]: ...

class _Code(Protocol):  # cuda.core's ObjectCode
    @property
    def code(self) -> bytes | bytearray | str: ...

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
    """Return the type stub for a bundle with these kernels and modules.

    *modules* are the names of the modules, with and without the macros of variants. Editors show the
    *signatures*, such as `saxpy(float, const float *)`, when the user points at the name of a function.
    """
    kernels, modules = set(kernels), set(modules)
    spelled = {each for name in kernels for each in (name, name.replace(", ", ","))}
    named = {"kernels": kernels, "modules": modules, "names": spelled | modules}
    aliases = {alias: _literal(each) for alias, each in named.items()}
    is_long = max(map(len, aliases.values())) > MOST_IN_A_MESSAGE
    start = _START.format(untyped=_UNTYPED, **aliases)
    of_all = (Path(__file__).parent / FILE).read_text("utf-8").replace(SIGNATURES, _listed({*signatures}))
    plain, _, naming = of_all.partition(NAMING)
    return f"{start}{plain}{_functions(naming, many=is_long)}".encode()


def _functions(naming: str, *, many: bool) -> str:
    """Return the declarations of the loader's functions that accept the name of a kernel or module.

    If a program uses a wrong name, mypy prints all kernels and modules; *many* is true if this list would be
    too long. If *many* is true, the result also contains separate declarations that only mypy reads, so that
    mypy's messages stay short.
    """
    if not many:
        return naming
    for_mypy = naming
    for before, after in _FOR_MYPY:
        for_mypy = for_mypy.replace(before, after)
    both = {"for_mypy": for_mypy, "functions": naming}
    return _MANY.format(**{name: textwrap.indent(code, "    ").rstrip() for name, code in both.items()})


def _listed(signatures: set[str]) -> str:
    """Return a Markdown list of the signatures, for a docstring that editors show."""
    if not signatures or len(signatures) > MOST_SIGNATURES:
        return ""
    lines = (ascii(each)[1:-1].replace('"', '\\"') for each in sorted(signatures))
    return "\n".join(["", "", *(f"    {line}" for line in ("```", *lines, "```")), "    "])


def _literal(names: set[str]) -> str:
    if not names or len(names) > MOST_NAMES:
        return "str"
    listed = "".join(f"\n    {name!a}," for name in sorted(names))
    return f"Literal[{listed}\n]"
