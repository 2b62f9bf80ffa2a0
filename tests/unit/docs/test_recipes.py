"""The guide's recipes where there is no GPU: they are Python, and ask the loader for what it has."""

from __future__ import annotations

import ast
import ctypes
import functools
import importlib
import re
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from hatch_cubin import loader
from tests.guide_recipes import GUIDE, RECIPES
from tests.helpers import entry_fields, write_tree


def test_there_is_a_recipe_for_each_framework() -> None:
    assert list(RECIPES) == ["cupy", "torch", "jax", "numba.cuda", "ctypes"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_compiles_and_uses_what_the_loader_has(name: str) -> None:
    tree = ast.parse(RECIPES[name])
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cubins"
    }
    assert asked
    assert asked <= set(loader.__all__)
    compile(tree, name, "exec")


@pytest.mark.parametrize("name", ["cupy", "torch", "jax"])
def test_the_installed_framework_has_every_name_of_its_recipe(name: str) -> None:
    """`hatch run cupy:run` installs CuPy. The tests beside the stand-in run the recipe for JAX."""
    pytest.importorskip(name)
    tree = ast.parse(RECIPES[name])
    dotted = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    modules = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    names = {each for each in dotted if each.partition(".")[0] in modules and "(" not in each}
    assert names
    for each in names:
        module, *attributes = each.split(".")
        functools.reduce(getattr, attributes, importlib.import_module(module))


@pytest.mark.parametrize("name", ["cupy", "ctypes"])
def test_without_cuda_core_only_what_needs_none_is_asked(name: str) -> None:
    assert set(re.findall(r"cubins\.(\w+)", RECIPES[name])) == {"find", "read"}
    assert "cuda.core" not in RECIPES[name]


def test_a_package_with_the_recipe_for_ctypes_imports_where_there_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> NoReturn:
        raise OSError(f"{name}: cannot open shared object file")

    write_tree(
        tmp_path / "mypkg", {"__init__.py": "", "ops.py": RECIPES["ctypes"], "_cubins/__init__.py": ""}
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", absent)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        monkeypatch.delitem(sys.modules, name)
    ops = importlib.import_module("mypkg.ops")
    with pytest.raises(OSError, match="cannot open shared object file"):
        ops.saxpy(2.0, 0, 0, 1)


def test_the_guide_names_what_the_loader_has() -> None:
    assert set(re.findall(r"cubins\.(\w+)\(", GUIDE)) <= set(loader.__all__)
    assert set(re.findall(r"entry\.(\w+)", GUIDE)) <= entry_fields()
