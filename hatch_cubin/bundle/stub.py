"""The type stub of a bundle: made from the loader's source, with the names of kernels and modules."""

from __future__ import annotations

import ast
import copy
import functools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator

from .. import loader
from . import loader_files

MOST_NAMES = 2000  # more of them slow type checkers and editors down
MOST_IN_A_MESSAGE = 1000  # characters of names that a type checker may show
MOST_SIGNATURES = 200  # more of them nobody reads in what an editor shows over a name

# cuda.core has no types yet, may not be installed, and makes its names when it is imported.
_UNTYPED = "# type: ignore[attr-defined, import-not-found, import-untyped, unused-ignore]"

# These functions have the signatures of all kernels in their docstrings, which editors show.
_WITH_SIGNATURES = ("kernel", "check_arguments")
_MADE_BY = {"Entry": "find", "Loaded": "preload", "Preloaded": "preload"}  # users cannot make these
_FILES = (
    loader_files.CORE,
    "_debugging.py",
    "_loading.py",
)  # of the loader: where public names are defined

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
    """Return the stub for these kernels and modules; *modules* has the variants' common names as well.

    Editors show *signatures* over the name of a function: `saxpy(float, const float *)`.
    """
    kernels, modules = set(kernels), set(modules)
    spelled = {each for name in kernels for each in (name, name.replace(", ", ","))}
    named = {"kernels": kernels, "modules": modules, "names": spelled | modules}
    aliases = {alias: _literal(each) for alias, each in named.items()}
    is_long = max(map(len, aliases.values())) > MOST_IN_A_MESSAGE
    parts = (
        _START.format(untyped=_UNTYPED, **aliases),
        *_definitions(),
        _functions(_listed({*signatures}), many=is_long),
    )
    return "".join(parts).encode()


@functools.cache
def _public() -> dict[str, ast.stmt]:
    """Return the definitions of the loader by name, in their order."""
    trees = (ast.parse(loader_files.read(name)) for name in _FILES)
    nodes = (
        node for tree in trees for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    )
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        found.setdefault(node.name, node)  # the core's own where another file has such a name as well
    return {name: node for name, node in found.items() if name in loader.__all__ or name == "_Used"}


def _definitions() -> Iterator[str]:
    """Yield what is the same in all stubs: the list of public names, and the classes."""
    yield f"__all__ = {json.dumps(loader.__all__, indent=4)}\n\n"
    for node in _public().values():
        if isinstance(node, ast.ClassDef):
            yield _class(node)


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join(base for base in map(ast.unparse, node.bases) if base[0] != "_")
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    if not methods:
        return f"class {node.name}({bases}): ...\n"
    lines = ["@final", f"class {node.name}:"]
    if node.name in _MADE_BY:
        lines += [f"    def __init__(self, _comes_from_{_MADE_BY[node.name]}: NoReturn, /) -> None: ..."]
    elif node.name in loader.__all__:
        lines += [f"    {_signature(methods['__init__'])} ..."]
    fields = {} if node.name == "_Used" else _fields(methods["__init__"])
    for name, each in methods.items():
        if name in ("__enter__", "__exit__") or name[0] != "_":
            is_property = any(isinstance(one, ast.Name) for one in each.decorator_list)
            fields |= {name: _type(each.returns)} if is_property else {}
            lines += [] if is_property else [f"    {_signature(each)} ..."]
    for name, kind in fields.items():
        lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
    return "\n".join([*lines, "", ""])


def _fields(init: ast.FunctionDef) -> dict[str, str]:
    """Return the public attributes that a class sets, with their types."""
    given = {each.arg: _type(each.annotation) for each in init.args.args[1:]}
    found = {}
    for node in ast.walk(init):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            found[node.target.attr] = _type(node.annotation)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found |= {
                target.attr: given[node.value.id]
                for target in node.targets
                if isinstance(target, ast.Attribute) and node.value.id in given
            }
    return {name: kind for name, kind in found.items() if name[0] != "_"}


def _signature(node: ast.FunctionDef) -> str:
    """Return the first line of a function. Its types have no quotes, and private defaults are left out."""

    class Plain(ast.NodeTransformer):
        def visit_arg(self, node: ast.arg) -> ast.arg:
            annotation = ast.Name(_type(node.annotation)) if node.annotation else None
            return ast.arg(node.arg, annotation)

        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(...) if node.id == "_UNSET" else node

    arguments = ast.unparse(Plain().visit(copy.deepcopy(node.args)))
    arguments = re.sub(r"=(None|\.\.\.)", r" = \1", arguments)
    return f"def {node.name}({arguments}) -> {_type(node.returns)}:"


def _type(annotation: ast.expr | None) -> str:
    """Return a type as it is written, without the quotes that keep it from being evaluated."""
    assert annotation is not None
    return (
        annotation.value
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
        else ast.unparse(annotation)
    )


def _functions(signatures: str, *, many: bool) -> str:
    """Return the functions; with *many* names, those that take names in a second form for mypy's messages."""
    plain, naming = list[str](), list[str]()
    for node in _public().values():
        if isinstance(node, ast.FunctionDef):
            shown = (ast.get_docstring(node) or "").splitlines()[0]
            body = f'\n    """{shown}{signatures}"""' if node.name in _WITH_SIGNATURES else " ..."
            text = f"{_signature(node)}{body}\n"
            (naming if "_AnyName" in text else plain).append(text)
    for_mypy = functions = "".join(naming)
    if not many:
        return "".join(plain) + functions
    for before, after in _FOR_MYPY:
        for_mypy = for_mypy.replace(before, after)
    both = {"for_mypy": for_mypy, "functions": functions}
    return "".join(plain) + _MANY.format(
        **{name: textwrap.indent(code, "    ").rstrip() for name, code in both.items()}
    )


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
