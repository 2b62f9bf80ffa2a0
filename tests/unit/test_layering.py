"""Who may use whom: a line for each room, and inside a room a line for each module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hatch_cubin

PACKAGE = Path(hatch_cubin.__file__).parent

# From the ground up. A room uses rooms that stand above its line, and no other: no arrow runs back.
ROOMS: dict[str, str] = {
    "ground": "",
    "loader": "",
    "cubin": "",
    "table": "ground",
    "sources": "ground table",
    "_plan": "ground table sources",
    "_linked": "ground table sources _plan",
    "cache": "ground cubin sources",
    "stores": "ground table sources cache",
    "toolkit": "ground table sources _plan",
    "keys": "ground cubin table sources _plan _linked cache toolkit",
    "bundle": "ground loader cubin sources _plan cache toolkit keys",
    "compiling": "ground loader cubin table sources _plan cache toolkit keys bundle",
    "_report": "ground sources _plan compiling",
    "_remote": "sources cache stores toolkit keys compiling",
    "_locking": "ground table sources _plan cache stores toolkit keys _remote",
    "_sharding": "ground sources _plan compiling toolkit keys",
    "_pipeline": "ground sources _plan cache stores toolkit keys bundle compiling _report _remote _locking",
    "explaining": "ground loader table sources _plan cache keys",
    "wheels": "ground loader cubin sources bundle _pipeline",
    "doors": "ground loader table sources cache toolkit bundle _locking _pipeline wheels",
    "backend": "doors",
    "cli": "ground table sources cache stores keys bundle explaining _report _remote _locking _sharding "
    "_pipeline wheels doors",
    "_commands": "doors",
    "__main__": "cli",
}

# The modules of each room, from its floor up, and which of its neighbours each may use.
MODULES: dict[str, dict[str, str]] = {
    "ground": {
        "__init__": "",
        "_capabilities": "",
        "_arch": "_capabilities",
        "_gpus": "_arch _capabilities",
        "_digest": "",
        "_ed25519": "",
        "_environment": "",
        "_github": "",
        "_locks": "",
        "_order": "",
        "_sizes": "",
        "_limits": "",
        "_files": "_sizes",
        "_streams": "",
        "errors": "_environment _github _sizes _streams",
        "_console": "_streams",
        "_temporary": "_locks errors",
        "_home": "_files _temporary",
    },
    # The core is the room's own __init__, which is no doorplate. It imports the others when they are needed.
    "loader": {
        "__init__": "",
        "_arguments": "__init__",
        "_errors": "__init__",
        "_files": "__init__",
        "_loading": "__init__",
        "_use": "__init__",
        "_editable": "__init__",
        "_packs": "__init__",
        "_split": "__init__",
        "finder": "",
    },
    "cubin": {
        "elf": "",
        "names": "",
        "objects": "elf",
        "ptx": "",
        "types": "names",
        "families": "elf",
        "target": "elf objects ptx",
    },
    "table": {
        "names": "",
        "reserved": "",
        "options": "",
        "ptxas": "",
        "lines": "",
        "toml": "",
        "edit": "toml",
        "tables": "names toml",
        "urls": "",
        "flags": "",
        "wheels": "",
        "checks": "names reserved urls wheels",
        "meant": "checks flags lines names options ptxas toml wheels",
        "reader": "checks flags meant names options ptxas toml wheels",
        "config": "checks options reader toml",
        "schema": "",
    },
    "sources": {
        "tree": "",
        "disk": "tree",
        "source": "disk tree",
        "project": "source tree",
        "scan": "disk tree",
        "stamps": "scan",
        "declared": "scan",
        "entries": "declared source",
        "outside": "disk tree",
        "search": "disk outside scan tree",
        "includes": "disk outside scan search",
    },
    "_plan": {"_plan": ""},
    "_linked": {"_linked": ""},
    "cache": {
        "history": "",
        "proof": "",
        "housekeeping": "proof",
        "audit": "housekeeping proof",
        "signing": "proof",
        "exchange": "proof",
        "entries": "exchange housekeeping proof signing",
        "merging": "audit entries exchange proof",
        "places": "",
        "rows": "",
        "database": "places rows",
        "programs": "database places",
    },
    "stores": {
        "actions": "",
        "packs": "",
        "trust": "",
        "where": "",
        "store": "",
        "calls": "store",
        "http": "store where",
        "objects": "store where",
        "shared": "actions calls packs trust",
        "opening": "calls http objects shared store where",
    },
    "toolkit": {
        "devices": "",
        "libraries": "",
        "installed": "",
        "worker": "",
        "assembler": "libraries",
        "requirements": "assembler installed libraries",
        "toolkit": "assembler installed libraries worker",
        "linker": "toolkit",
    },
    "keys": {
        "headers": "",
        "lock": "",
        "parts": "",
        "vain": "",
        "closures": "",
        "recall": "closures",
        "shared_names": "",
        "declared": "",
        "materials": "headers",
        "ingredients": "materials",
        "links": "ingredients recall",
        "jobs": "closures declared headers ingredients links materials parts recall shared_names",
        "edits": "jobs materials",
        "locked": "ingredients jobs lock recall vain",
    },
    "bundle": {
        "loader_files": "",
        "sbom": "",
        "stub": "loader_files",
        "manifest": "loader_files",
        "packs": "",
        "signatures": "",
        "layout": "loader_files manifest packs signatures stub",
        "raw": "layout manifest",
    },
    "compiling": {
        "assembly": "",
        "cores": "",
        "definitions": "",
        "diagnostics": "",
        "processes": "",
        "executor": "processes",
        "paths": "",
        "preludes": "",
        "shards": "",
        "storer": "",
        "storing": "processes storer",
        "turns": "",
        "alike": "",
        "doubts": "",
        "gaps": "",
        "hints/together": "",
        "hints/near": "",
        "hints/way": "",
        "hints/setting": "hints/way",
        "hints/texts": "diagnostics hints/setting",
        "hints/languages": "diagnostics hints/setting",
        "hints/gone": "diagnostics hints/setting",
        "hints/cub": "hints/setting",
        "hints/host": "diagnostics hints/cub hints/near hints/setting hints/way",
        "hints/kernels": "",
        "hints/conditions": "hints/host hints/kernels hints/setting",
        "hints/tiles": "diagnostics hints/conditions hints/setting",
        "hints/misnamed": "hints/host hints/near hints/setting",
        "hints/headers": "diagnostics hints/conditions hints/cub hints/host hints/misnamed hints/setting "
        "hints/way",
        "hints/names": "diagnostics hints/cub hints/host hints/near hints/setting",
        "hints/linkage": "diagnostics hints/setting hints/way",
        "hints/links": "definitions diagnostics hints/setting",
        "hints/macros": "diagnostics hints/setting",
        "hints/instances": "diagnostics hints/kernels hints/names hints/near hints/setting",
        "hints/switches": "diagnostics hints/setting",
        "hints/targets": "diagnostics",
        "advice": "diagnostics hints/conditions hints/gone hints/headers hints/host hints/instances "
        "hints/languages hints/linkage hints/links hints/macros hints/names hints/setting hints/switches "
        "hints/texts hints/tiles",
        "tasks": "executor paths preludes",
        "outcome": "diagnostics executor",
        "limits": "hints/kernels",
        "templates": "hints/conditions hints/kernels",
        "remarks": "hints/conditions hints/tiles limits templates",
        "results": "diagnostics hints/targets hints/together",
        "cluster/lease": "executor",
        "cluster/fleet": "cluster/lease",
        "cluster/crew": "cluster/fleet cluster/lease executor",
        "cluster/shelf": "cluster/lease",
        "cluster/identity": "",
        "cluster/host": "cluster/identity cluster/lease cluster/shelf executor",
        "cluster/parcel": "cluster/lease paths",
        "cluster/dask": "cluster/fleet cluster/host cluster/lease cluster/parcel",
        "cluster/plain": "cluster/fleet cluster/host cluster/lease",
        "cluster/opening": "cluster/crew cluster/dask cluster/fleet cluster/host cluster/identity "
        "cluster/parcel cluster/plain cores executor paths tasks",
        "cluster/recheck": "executor",
        "bake": "advice assembly cluster/opening cluster/recheck cores diagnostics executor hints/setting "
        "hints/tiles outcome paths preludes remarks results storing tasks turns",
        "linking": "bake definitions diagnostics executor results",
        "obtain": "bake linking results",
        "packing": "cores executor",
    },
    "_report": {"_report": ""},
    "_remote": {"_remote": ""},
    "_locking": {"_locking": ""},
    "_sharding": {"_sharding": ""},
    "_pipeline": {"_pipeline": ""},
    "explaining": {"choice": "", "differences": "", "kernels": "", "lookup": "differences"},
    "wheels": {
        "cuobjdump": "",
        "installed": "",
        "notes": "",
        "releases": "",
        "record": "installed",
        "companions": "installed",
        "code": "companions installed",
        "survey": "code installed",
        "unpacking": "code installed survey",
        "listing": "code installed survey",
        "parts": "",
        "markup": "parts",
        "coverage": "parts survey",
        "page": "coverage markup parts survey",
        "bill": "installed survey",
        "verify": "code installed notes releases survey",
        "variants": "",
        "variant_proof": "installed survey variants",
        "proof": "bill companions installed record variant_proof verify",
        "paths": "bill code installed survey verify",
        "stray": "installed",
        "tags": "installed survey variant_proof",
        "weight": "code coverage installed survey",
        "split": "bill installed record survey",
        "variant_index": "installed split tags",
        "check": "code companions coverage installed parts paths proof stray survey tags variant_index "
        "variants weight",
        "diff": "parts survey",
        "sides": "diff installed survey",
        "diff_parts": "diff parts sides",
        "rebuild": "bill code companions installed notes survey verify",
        "cut_variants": "coverage installed split tags variant_index variant_proof variants",
    },
    "doors": {
        "budget": "",
        "hatch": "budget",
        "setuptools_commands": "budget",
        "setuptools": "setuptools_commands",
        "unbuilt": "hatch",
        "open": "hatch setuptools unbuilt",
        "inner": "",
        "repack": "",
        "source_archive": "",
        "hidden": "repack",
        "wrapper": "budget hidden inner open repack source_archive",
    },
    "backend": {"backend": ""},
    "cli": {
        "completion": "",
        "verb": "",
        "rendering": "verb",
        "listing": "rendering verb",
        "main": "completion verb",
        "store": "verb",
        "verbs/bake": "rendering verb",
        "verbs/bundle": "verb",
        "verbs/cache": "store verb",
        "verbs/check": "rendering verb",
        "verbs/diff": "rendering verb",
        "verbs/explain": "verb",
        "verbs/init": "verb",
        "verbs/keygen": "verb",
        "verbs/inspect": "listing rendering verb",
        "verbs/lock": "verb",
        "verbs/plan": "verb",
        "verbs/split": "verb",
        "verbs/unpack": "verb",
        "verbs/verify": "verb",
    },
    "_commands": {"_commands": ""},
    "__main__": {"__main__": ""},
}

# Other people's packages, and the only modules that know them.
THIRD_PARTIES: dict[str, str] = {
    "_home": "platformdirs",
    "loader/_loading": "cuda",
    "stores/objects": "obstore",
    "cache/entries": "cuda typing_extensions",
    "compiling/cluster/dask": "distributed",
    "cache/programs": "cuda",
    "cache/signing": "cryptography",
    "_locks": "typing_extensions",
    "cli/completion": "shtab",
    "doors/setuptools_commands": "setuptools",
    "doors/hatch": "hatchling",
    "doors/setuptools": "setuptools",
    "table/toml": "tomli",
    "toolkit/linker": "cuda",
    "toolkit/toolkit": "cuda",
    "toolkit/worker": "cuda",
}

FILES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in PACKAGE.rglob("*.py")}
CORE = "loader/__init__"
DOORPLATES = {name for name in FILES if name.endswith("/__init__")} - {CORE}  # which say what the room is for
HOMES = {
    f"{room}/{name}" if (PACKAGE / room).is_dir() else name: (room, name)
    for room, modules in MODULES.items()
    for name in modules
}


def _tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text("utf-8"))


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names of what is imported, the package's own with leading dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (f"{node.module}." if node.module else "")
            yield from (start + alias.name for alias in node.names)


def _used(module: str) -> set[str]:
    """Return which modules of the package a module uses; of what the package itself hands out, at import."""
    used = set()
    for name in _imports(_at_import(_tree(module)) if module in ("__init__", CORE) else _tree(module)):
        level = len(name) - len(name.lstrip("."))
        if level:
            here = module.split("/")[:-level]
            path = [*here, *name[level:].split(".")]
            found = ["/".join(path[:end]) for end in (len(path), len(path) - 1)]
            found += [f"{name}/__init__" for name in found]
            used.add(next((each for each in found if each in HOMES), "__init__"))
    return used


def _third_parties(tree: ast.AST) -> set[str]:
    names = {name.partition(".")[0] for name in _imports(tree) if not name.startswith(".")}
    return names - sys.stdlib_module_names - {"tomllib"}  # which Python 3.10 lacks


def _at_import(tree: ast.Module) -> ast.Module:
    """Return what runs when a module is imported: no function's body, and nothing for type checkers."""

    class Trimmer(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            """Drop it."""

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
            """Drop it too."""

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    trimmed: ast.Module = Trimmer().visit(tree)
    return trimmed


def test_every_module_lives_in_a_room() -> None:
    assert sorted(HOMES) == sorted(FILES.keys() - DOORPLATES)
    assert list(MODULES) == list(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_no_arrow_runs_back_up(room: str) -> None:
    rooms, modules = list(ROOMS), list(MODULES[room])
    assert set(ROOMS[room].split()) <= set(rooms[: rooms.index(room)])
    for number, module in enumerate(modules):
        assert set(MODULES[room][module].split()) <= set(modules[:number])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_the_rooms_of_its_line(room: str) -> None:
    used = {HOMES[other][0] for module, home in HOMES.items() if home[0] == room for other in _used(module)}
    assert used - {room} == set(ROOMS[room].split())


@pytest.mark.parametrize("module", HOMES)
def test_a_module_uses_the_neighbours_of_its_line(module: str) -> None:
    room, name = HOMES[module]
    neighbours = {HOMES[other][1] for other in _used(module) if HOMES[other][0] == room}
    assert neighbours == set(MODULES[room][name].split())


@pytest.mark.parametrize("module", HOMES)
def test_only_some_modules_know_other_peoples_packages(module: str) -> None:
    assert _third_parties(_tree(module)) == set(THIRD_PARTIES.get(module, "").split())


# The class of cache/programs has a base of cuda.core's; nobody imports it who does not want that.
@pytest.mark.parametrize("module", [module for module in HOMES if module != "cache/programs"])
def test_cuda_is_imported_inside_functions_only(module: str) -> None:
    assert _third_parties(_at_import(_tree(module))) <= {"hatchling", "platformdirs", "setuptools", "tomli"}


@pytest.mark.parametrize("module", HOMES)
def test_the_package_is_imported_by_relative_names(module: str) -> None:
    assert "hatch_cubin" not in _third_parties(_tree(module))


@pytest.mark.parametrize("doorplate", sorted(DOORPLATES))
def test_to_enter_a_room_imports_nothing(doorplate: str) -> None:
    """Whoever needs one module of a room does not wait for the others."""
    tree = _tree(doorplate)
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


def test_the_loader_imports_two_modules_when_it_is_imported() -> None:
    assert set(_imports(_at_import(_tree(CORE)))) == {"os", "sys"}


# So no lock of the import system is held while one of them is imported, and a fork at that moment is safe.
@pytest.mark.parametrize("part", [module for module, (room, _) in HOMES.items() if room == "loader"])
def test_a_file_of_the_loader_imports_two_modules_and_the_core(part: str) -> None:
    names = {name for name in _imports(_at_import(_tree(part))) if not name.startswith(".")}
    assert names <= {"os", "sys"}


def test_the_worker_script_stands_alone() -> None:
    """It runs by its path, where no package is around it."""
    assert _used("toolkit/worker") == set()
