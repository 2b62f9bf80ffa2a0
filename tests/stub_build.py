"""Make the part that is the same in all stubs from the loader's source: `hatch run loader` writes it."""

from __future__ import annotations

import ast
import copy
import json
import re

from hatch_cubin import loader
from hatch_cubin.bundle import loader_files, stub

# These functions have the signatures of all kernels in their docstrings, which editors show.
_WITH_SIGNATURES = ("kernel", "check_arguments")
_MADE_BY = {"Entry": "find", "Loaded": "preload", "Preloaded": "preload"}  # users cannot make these
_FILES = (loader_files.CORE, "_debugging.py", "_loading.py")  # of the loader: where public names are defined


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


def stub_parts() -> str:
    """Return what all stubs have: the list of public names, the classes, the functions."""
    parts, plain, naming = [f"__all__ = {json.dumps(loader.__all__, indent=4)}\n\n"], list[str](), list[str]()
    for node in _public().values():
        if isinstance(node, ast.ClassDef):
            parts.append(_class(node))
        elif isinstance(node, ast.FunctionDef):
            shown = (ast.get_docstring(node) or "").splitlines()[0]
            body = f'\n    """{shown}{stub.SIGNATURES}"""' if node.name in _WITH_SIGNATURES else " ..."
            text = f"{_signature(node)}{body}\n"
            (naming if "_AnyName" in text else plain).append(text)
    return "".join([*parts, *plain, stub.NAMING, *naming])


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
