"""Who may import whom: one table, which has a line for every module."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hatch_cubin

PACKAGE = Path(hatch_cubin.__file__).parent

# Module: the modules of the package that it may import.
ALLOWED: dict[str, str] = {
    "__init__": "",
    # What everything may use
    "_environment": "",
    "errors": "_environment",
    "_digest": "",
    "_files": "errors",
    "_home": "errors",
    "_history": "_digest _home",
    "runtime": "",
    "editable": "",
    "verbs/_sizes": "",
    # The configuration
    "_arch": "",
    "_options": "",
    "_reserved": "",
    "_toml": "errors",
    "_checks": "_arch _reserved",
    "_reader": "_checks _environment _options _toml errors",
    "_config": "_checks _options _reader _toml",
    "_requirements": "_config _environment _libraries",
    # The project and its plan
    "_sources": "_arch _digest _files errors",
    "_console": "",
    "_tables": "_toml errors",
    "verbs/_edit": "_toml",
    "_project": "_config _console _environment _home _sources errors",
    "_plan": "_arch _config _digest _options _sources errors",
    # The compiler, the headers, the keys
    "_worker": "",
    "_libraries": "_digest",
    "_proof": "_digest",
    "_scan": "_digest _files _sources",
    "_includes": "_digest _files _scan errors",
    "_cuda": "_digest _includes _libraries _plan _proof _sources _worker errors",
    "_headers": "__init__ _config _cuda _digest _home _includes _libraries _sources errors",
    "_recall": "_cuda _digest _home _libraries _project _proof _scan",
    "_jobs": (
        "_arch _cuda _digest _files _headers _includes _plan _project _proof _recall _scan _sources errors"
    ),
    # Results
    "_locks": "",
    "_housekeeping": "_locks _proof",
    "_cache": "_digest _elf _files _housekeeping _locks _proof",
    "_turns": "_cache",
    "_elf": "",
    "_names": "",
    "_paths": "_digest _includes",
    "_diagnostics": "_plan _sources errors",
    "_advice": "_diagnostics errors",
    "_cores": "",
    "_executor": "_worker errors",
    "_prelude": "_elf _jobs _plan",
    "_compile": (
        "_advice _arch _cache _cores _cuda _diagnostics _elf _executor _headers _jobs _names _paths _plan"
        " _prelude _project _sources _tasks _turns errors runtime"
    ),
    "_tasks": "_arch _cuda _executor _home _jobs _paths _prelude _project",
    "_report": "_compile _project",
    "verbs/_differences": "",
    "verbs/_lookup": "_cache verbs/_differences _jobs",
    "verbs/_explain": "_arch _config _plan _sources errors runtime",
    "_stub": "",
    "_manifest": "_digest runtime",
    "_bundle": ("_arch _cache _cuda _digest _locks _manifest _plan _sources _stub editable errors runtime"),
    "_sbom": "__init__ _cuda _headers _jobs _project",
    # What was built, looked at
    "verbs/_installed": "verbs/_sizes _sources errors",
    "verbs/_cuobjdump": "",
    "verbs/_survey": "_elf verbs/_installed _manifest _names _sources errors",
    "verbs/_page": "verbs/_sizes verbs/_survey",
    "verbs/_record": "verbs/_installed errors",
    "verbs/_verify": "_digest _elf verbs/_installed _manifest _sources _stub verbs/_survey errors runtime",
    # The whole, and the doors to it
    "_pipeline": (
        "_bundle _cache _compile _cuda _history _home _jobs _project _proof _recall _report _requirements"
        " _sbom errors"
    ),
    "verbs/_rebuild": "verbs/_installed _manifest _pipeline _project errors",
    "hooks": "_bundle _config _console _home _pipeline _project _requirements _sbom _sources _tables errors",
    "_setuptools": "_commands errors",
    "_commands": "_bundle _config _console _pipeline _project _requirements _sbom _sources _tables errors",
    "_open": (
        "_config _console _project _reader _requirements _setuptools _sources _tables _toml errors hooks"
    ),
    "verbs/__init__": "_arch _open _project verbs/_sizes errors",
    "verbs/bake": "_jobs _pipeline _report _sources errors verbs/__init__",
    "verbs/bundle": "_bundle _pipeline _project _sbom _sources errors verbs/__init__",
    "verbs/cache": (
        "_checks _config _digest _history _home _housekeeping _pipeline _tables errors verbs/__init__"
    ),
    "verbs/explain": "_arch _bundle verbs/_explain _jobs verbs/_lookup _pipeline errors verbs/__init__",
    "verbs/init": "_open _sources _tables _toml verbs/_edit errors verbs/__init__",
    "verbs/inspect": (
        "errors verbs/__init__ verbs/_cuobjdump verbs/_installed verbs/_page verbs/_sizes verbs/_survey"
    ),
    "verbs/plan": "_pipeline verbs/__init__",
    "verbs/verify": (
        "_project errors verbs/__init__ verbs/_installed verbs/_rebuild verbs/_record verbs/_survey"
        " verbs/_verify"
    ),
    "_completion": "errors",
    "_cli": "_completion errors",
    "__main__": "_cli",
}
THIRD_PARTIES: dict[str, str] = {
    "_cache": "cuda typing_extensions",
    "_cuda": "cuda",
    "_completion": "shtab",
    "_home": "platformdirs",
    "_locks": "typing_extensions",
    "_toml": "tomli",
    "_worker": "cuda",
    "_setuptools": "setuptools",
    "_commands": "setuptools",
    "hooks": "hatchling",
    "runtime": "cuda",
}
MODULES = sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))


def _tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported, the package's own modules with leading dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield "." * node.level + node.module
        elif isinstance(node, ast.ImportFrom):
            yield from ("." * node.level + alias.name for alias in node.names)


def _own(module: str) -> set[str]:
    """Return which modules of the package a module imports."""
    names = [name for name in _imports(_tree(module)) if name.startswith(".")]
    if module.startswith("verbs/"):
        names = [name[1:] if name.startswith("..") else _sibling(name[1:]) for name in names]
    return {name[1:] for name in names} & set(MODULES)  # everyone may know __version__


def _sibling(name: str) -> str:
    return f".verbs/{name}" if f"verbs/{name}" in MODULES else ".verbs/__init__"


def _third_parties(tree: ast.AST) -> set[str]:
    names = {name.partition(".")[0] for name in _imports(tree) if not name.startswith(".")}
    return names - sys.stdlib_module_names - {"tomllib"}  # which Python 3.10 lacks


def _at_import(tree: ast.Module) -> ast.Module:
    """Return what runs when a module is imported: no function's body, and nothing for type checkers."""

    class Trimmer(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            """Drop it."""

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    trimmed: ast.Module = Trimmer().visit(tree)
    return trimmed


def test_every_module_has_a_rule_and_every_rule_a_module() -> None:
    assert sorted(ALLOWED) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_rule_allows(module: str) -> None:
    assert _own(module) <= set(ALLOWED[module].split())


@pytest.mark.parametrize("module", MODULES)
def test_only_some_modules_know_other_peoples_packages(module: str) -> None:
    assert _third_parties(_tree(module)) == set(THIRD_PARTIES.get(module, "").split())


@pytest.mark.parametrize("module", MODULES)
def test_cuda_is_imported_inside_functions_only(module: str) -> None:
    assert _third_parties(_at_import(_tree(module))) <= {"hatchling", "platformdirs", "setuptools", "tomli"}


@pytest.mark.parametrize("module", MODULES)
def test_siblings_are_imported_by_relative_names(module: str) -> None:
    assert "hatch_cubin" not in _third_parties(_tree(module))
    above = "..." if module.startswith("verbs/") else ".."
    assert not any(name.startswith(above) for name in _imports(_tree(module)))


def test_no_import_leads_back() -> None:
    assert list(graphlib.TopologicalSorter({module: _own(module) for module in MODULES}).static_order())


def test_the_loader_imports_nothing_of_the_package_and_two_modules_when_it_is_imported() -> None:
    tree = _tree("runtime")
    assert not any(name.startswith(".") for name in _imports(tree))
    assert set(_imports(_at_import(tree))) == {"os", "sys"}


def test_the_worker_script_stands_alone() -> None:
    """It runs by its path, where no package is around it."""
    assert _own("_worker") == set()
