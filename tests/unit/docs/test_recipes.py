"""The guide's recipes where there is no GPU: they are Python, and ask the loader for what it has."""

from __future__ import annotations

import ast
import re

import pytest

from hatch_cubin.bundle import runtime
from tests.recipes import GUIDE, RECIPES


def test_there_is_a_recipe_for_each_framework() -> None:
    assert list(RECIPES) == ["cupy", "torch", "numba.cuda", "ctypes"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_compiles_and_uses_what_the_loader_has(name: str) -> None:
    tree = ast.parse(RECIPES[name])
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cubins"
    }
    assert asked
    assert asked <= set(runtime.__all__)
    compile(tree, name, "exec")


@pytest.mark.parametrize("name", ["cupy", "ctypes"])
def test_without_cuda_core_only_what_needs_none_is_asked(name: str) -> None:
    assert set(re.findall(r"cubins\.(\w+)", RECIPES[name])) == {"find", "read"}
    assert "cuda.core" not in RECIPES[name]


def test_the_guide_names_what_the_loader_has() -> None:
    assert set(re.findall(r"cubins\.(\w+)\(", GUIDE)) <= set(runtime.__all__)
    assert set(re.findall(r"entry\.(\w+)", GUIDE)) <= {*runtime.Entry.__slots__, "source_path"}
