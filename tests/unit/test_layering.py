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
    "common": "",
    "loader": "",
    "cubin": "",
    "config": "common loader",
    "project": "common loader config",
    "planning": "common loader config project",
    "cache": "common cubin project",
    "program_cache": "common",
    "toolkit": "common config project planning",
    "producing": "common config project cache toolkit",
    "headers": "common config project planning toolkit",
    "keys": "common cubin config project planning cache toolkit headers",
    "bundle": "common cubin project planning cache producing toolkit keys",
    "remote": "common config project cache toolkit keys",
    "compiling": "common loader cubin config project planning cache producing toolkit headers keys bundle",
    "explaining": "common loader config project planning cache headers keys",
    "lockfile": "common config project planning cache producing toolkit headers keys remote",
    "building": "common project planning cache producing toolkit keys bundle compiling remote lockfile",
    "wheels": "common loader cubin project bundle building",
    "frontends": "common loader config project cache toolkit bundle lockfile building wheels",
    "backend": "frontends",
    "pytest_plugin": "loader",
    "cli": "common config project cache headers keys bundle explaining remote lockfile building wheels "
    "frontends",
    "__main__": "cli",
}

# The modules of each room, from its floor up, and which of its neighbours each may use.
MODULES: dict[str, dict[str, str]] = {
    "common": {
        "__init__": "",
        "capabilities": "",
        "distribution_names": "",
        "arch_names": "capabilities",
        "digest": "",
        "ed25519_keys": "",
        "environment": "",
        "file_lock": "",
        "git": "",
        "github": "",
        "gpu_names": "arch_names capabilities",
        "natural_order": "",
        "read_limits": "",
        "sizes": "",
        "file_access": "sizes",
        "streams": "",
        "console": "streams",
        "errors": "environment github sizes streams",
        "temporary_folders": "errors file_lock",
        "user_folders": "file_access temporary_folders",
    },
    # The core is the room's own __init__, which is no doorplate. It imports the others when they are needed.
    "loader": {
        "__init__": "",
        "_debugging": "__init__",
        "_editable": "__init__",
        "_large": "__init__",
        "_loading": "__init__",
        "_packs": "__init__",
        "_split": "__init__",
        "_text_key": "",
        "_drop_in": "__init__ _text_key",
        "core": "__init__ _drop_in _loading",
        "cupy": "__init__ _drop_in",
        "finder": "",
    },
    "cubin": {
        "elf": "",
        "kernel_names": "",
        "objects": "elf",
        "ptx": "",
        "symbol_origins": "elf",
        "symbol_types": "kernel_names",
        "target": "elf objects ptx",
    },
    "config": {
        "compiler_flags": "",
        "known_names": "",
        "nvidia_wheels": "",
        "nvrtc_options": "",
        "ptxas_options": "compiler_flags",
        "reserved_macros": "",
        "schema": "",
        "store_urls": "",
        "toml_lines": "",
        "toml_positions": "",
        "misplaced_keys": "known_names toml_positions",
        "table_location": "known_names toml_positions",
        "toml_edit": "toml_positions",
        "value_checks": "known_names nvidia_wheels reserved_macros store_urls toml_lines",
        "suggestions": "compiler_flags known_names nvidia_wheels nvrtc_options ptxas_options toml_lines "
        "toml_positions value_checks",
        "instantiations": "toml_lines value_checks",
        "calls": "nvrtc_options ptxas_options toml_lines toml_positions value_checks",
        "reader": "calls compiler_flags instantiations known_names nvidia_wheels nvrtc_options ptxas_options "
        "suggestions toml_positions value_checks toml_lines",
        "config": "nvrtc_options reader toml_positions value_checks",
    },
    "project": {
        "source_roots": "",
        "disk": "source_roots",
        "scan": "disk source_roots",
        "build_time_macros": "scan",
        "directives": "",
        "declared_kernels": "scan",
        "source": "disk source_roots",
        "conditional_lines": "source",
        "tile_kernels": "conditional_lines source source_roots",
        "recorded_calls": "source source_roots",
        "project": "recorded_calls source source_roots tile_kernels",
        "required_kernels": "declared_kernels source",
    },
    "planning": {
        "unit_plan": "",
        "equal_calls": "unit_plan",
        "linked_modules": "equal_calls unit_plan",
    },
    "cache": {
        "history": "",
        "records": "",
        "exchange": "records",
        "housekeeping": "records",
        "audit": "housekeeping records",
        "signing": "records",
        "entries": "exchange housekeeping records signing",
        "merging": "audit entries exchange records",
    },
    "program_cache": {
        "statements": "",
        "usable_paths": "",
        "database": "statements usable_paths",
        "sqlite_cache": "database usable_paths",
    },
    "toolkit": {
        "installed_wheels": "",
        "libraries": "",
        "assembler": "libraries",
        "tile_assembler": "libraries",
        "local_gpus": "",
        "requirements": "assembler installed_wheels libraries",
        "worker": "",
        "toolkit": "assembler installed_wheels libraries tile_assembler worker",
        "linker": "toolkit",
    },
    "producing": {
        "installed": "",
        "producer_script": "",
        "import_closure": "producer_script",
        "producer_inputs": "import_closure installed producer_script",
        "failures": "producer_inputs",
        "memo": "producer_inputs",
        "produced_texts": "producer_inputs",
        "running": "failures producer_inputs producer_script",
        "produced_sources": "memo produced_texts producer_inputs running",
    },
    "headers": {
        "outside_project": "",
        "resolve": "outside_project",
        "includes": "outside_project resolve",
        "absent_includes": "includes",
        "recalled_closures": "includes outside_project resolve",
        "search_path": "resolve",
    },
    "keys": {
        "cupy_headers": "",
        "included_sources": "",
        "produced_includes": "",
        "input_files": "",
        "ingredients": "input_files",
        "parameter_types": "",
        "recall": "",
        "link_files": "ingredients recall",
        "shared_names": "",
        "jobs": "cupy_headers included_sources ingredients input_files link_files parameter_types "
        "produced_includes recall shared_names",
        "edited_headers": "input_files jobs",
    },
    "bundle": {
        "kernel_parameters": "",
        "loader_files": "",
        "manifest": "loader_files",
        "packs": "",
        "sbom": "",
        "stub": "",
        "layout": "kernel_parameters loader_files manifest packs stub",
        "unpacked_form": "layout manifest",
    },
    "remote": {
        "bazel_actions": "",
        "location": "",
        "packs": "",
        "store": "",
        "buckets": "location store",
        "calls": "store",
        "http": "location store",
        "trust": "",
        "shared_store": "bazel_actions calls packs trust",
        "opening": "buckets calls http location shared_store store",
        "build_store": "opening shared_store",
    },
    "compiling": {
        "claims": "",
        "cluster/identity": "",
        "compiler_paths": "",
        "cores": "",
        "definitions": "",
        "diagnostics": "",
        "hints/archs": "diagnostics",
        "hints/include_chain": "",
        "hints/failed_compile": "hints/include_chain",
        "hints/kernel_declarations": "",
        "hints/follow_ups": "diagnostics hints/failed_compile",
        "hints/language": "definitions diagnostics hints/failed_compile hints/kernel_declarations",
        "call_options": "",
        "hints/macros": "call_options diagnostics hints/failed_compile",
        "hints/merge_pasteable": "",
        "hints/host_code": "diagnostics hints/failed_compile hints/include_chain",
        "hints/other_sources": "definitions diagnostics hints/failed_compile",
        "hints/conditions": "hints/failed_compile hints/kernel_declarations hints/other_sources",
        "hints/headers": "diagnostics hints/failed_compile hints/host_code hints/include_chain",
        "hints/not_cuda": "diagnostics hints/failed_compile",
        "hints/undefined_names": "diagnostics hints/failed_compile hints/host_code",
        "hints/instantiations": "diagnostics hints/failed_compile hints/kernel_declarations "
        "hints/undefined_names",
        "advice": "call_options diagnostics hints/conditions hints/failed_compile hints/follow_ups "
        "hints/headers hints/host_code hints/instantiations hints/language hints/macros hints/not_cuda "
        "hints/other_sources hints/undefined_names",
        "identical_variants": "",
        "shared_kernels": "definitions hints/kernel_declarations",
        "inline_assembly": "",
        "missing_kernels": "",
        "other_compilers": "",
        "plan_warnings": "call_options",
        "kernels_in_headers": "",
        "precompiled_headers": "",
        "processes": "",
        "executor": "processes",
        "cluster/lease": "executor",
        "cluster/sample_check": "executor",
        "cluster/shipped_files": "cluster/lease compiler_paths",
        "cluster/worker_files": "cluster/lease",
        "cluster/worker_side": "cluster/identity cluster/lease cluster/worker_files executor",
        "cluster/workers": "cluster/lease",
        "cluster/dask": "cluster/lease cluster/shipped_files cluster/worker_side cluster/workers",
        "cluster/plain_executor": "cluster/lease cluster/worker_side cluster/workers",
        "cluster/scheduler": "cluster/lease cluster/workers executor",
        "outcome": "diagnostics executor",
        "packing": "cores executor",
        "results": "diagnostics hints/archs hints/merge_pasteable other_compilers",
        "shards": "",
        "launch_hazards": "hints/kernel_declarations",
        "limits": "hints/kernel_declarations",
        "templates": "hints/conditions hints/kernel_declarations",
        "source_warnings": "hints/not_cuda launch_hazards limits templates",
        "storing_process": "",
        "storing": "processes storing_process",
        "tasks": "compiler_paths executor precompiled_headers",
        "cluster/opening": "cluster/dask cluster/identity cluster/plain_executor cluster/scheduler "
        "cluster/shipped_files cluster/worker_side cluster/workers compiler_paths cores executor tasks",
        "bake": "advice claims cluster/opening cluster/sample_check compiler_paths cores diagnostics "
        "executor hints/failed_compile hints/macros hints/not_cuda hints/other_sources inline_assembly "
        "outcome precompiled_headers results source_warnings storing tasks",
        "linking": "bake definitions diagnostics executor hints/conditions results",
        "obtain": "bake linking other_compilers results",
    },
    "explaining": {
        "arch_choice": "",
        "differences": "",
        "kernel_lookup": "",
        "miss_reasons": "differences",
    },
    "lockfile": {
        "lock_format": "",
        "locked_texts": "lock_format",
        "lock_comparison": "lock_format locked_texts",
        "locked_build": "lock_comparison lock_format",
        "required_wheels": "locked_build lock_comparison lock_format",
    },
    "building": {
        "report": "",
        "pipeline": "report",
        "sharding": "",
    },
    "wheels": {
        "checking/editable_check": "",
        "checking/loader_releases": "",
        "reading/bundles": "",
        "checking/record_check": "reading/bundles",
        "checking/stray_files": "reading/bundles",
        "reading/companions": "reading/bundles",
        "reading/compiled_code": "reading/bundles reading/companions",
        "reading/cuobjdump": "",
        "reading/report": "",
        "reading/markup": "reading/report",
        "reading/survey": "reading/bundles reading/compiled_code",
        "checking/sbom_check": "reading/bundles reading/survey",
        "checking/verify": "checking/editable_check checking/loader_releases reading/bundles "
        "reading/compiled_code reading/survey",
        "checking/absolute_paths": "checking/sbom_check checking/verify reading/bundles "
        "reading/compiled_code reading/survey",
        "checking/rebuild": "checking/editable_check checking/sbom_check checking/verify reading/bundles "
        "reading/companions reading/compiled_code reading/survey",
        "comparing/diff": "reading/report reading/survey",
        "comparing/comparison": "comparing/diff reading/bundles reading/survey",
        "comparing/diff_report": "comparing/comparison comparing/diff reading/report",
        "comparing/wheel_order": "comparing/comparison",
        "reading/code_listing": "reading/bundles reading/compiled_code reading/survey",
        "reading/coverage": "reading/report reading/survey",
        "checking/size_advice": "reading/bundles reading/compiled_code reading/coverage reading/survey",
        "reading/page": "reading/coverage reading/markup reading/report reading/survey",
        "reading/unpacking": "reading/bundles reading/compiled_code reading/survey",
        "splitting/split": "checking/record_check checking/sbom_check reading/bundles reading/survey",
        "splitting/variants": "",
        "checking/variant_check": "reading/bundles reading/survey splitting/variants",
        "checking/integrity": "checking/record_check checking/sbom_check checking/variant_check "
        "checking/verify reading/bundles reading/companions",
        "checking/wheel_tags": "checking/stray_files checking/variant_check reading/bundles reading/survey",
        "splitting/variant_index": "checking/wheel_tags reading/bundles",
        "checking/check": "checking/absolute_paths checking/integrity checking/size_advice "
        "checking/stray_files checking/wheel_tags reading/bundles reading/companions "
        "reading/compiled_code reading/coverage reading/report reading/survey splitting/variant_index "
        "splitting/variants",
        "splitting/cut_variants": "checking/variant_check reading/bundles reading/coverage splitting/split "
        "splitting/variant_index splitting/variants",
    },
    "frontends": {
        "ignored_sources": "",
        "max_size": "",
        "named_sources": "",
        "hatch": "max_size named_sources",
        "missing_kernels": "hatch",
        "repack": "",
        "editable_finder": "repack",
        "setuptools_commands": "max_size named_sources",
        "rebuild": "setuptools_commands",
        "setuptools": "setuptools_commands",
        "open_project": "hatch missing_kernels setuptools",
        "source_archive": "",
        "wrapped_backend": "",
        "wrapper": "editable_finder max_size open_project repack source_archive wrapped_backend",
    },
    "backend": {
        "backend": "",
    },
    "pytest_plugin": {
        "pytest_plugin": "",
    },
    "cli": {
        "completion": "",
        "verb_base": "",
        "usage_hints": "",
        "versions": "",
        "main": "completion usage_hints verb_base versions",
        "remote_cache": "verb_base",
        "rendering": "verb_base",
        "listing": "rendering verb_base",
        "verbs/bake": "rendering verb_base",
        "verbs/bundle": "verb_base",
        "verbs/cache": "remote_cache usage_hints verb_base",
        "verbs/check": "rendering verb_base",
        "verbs/diff": "rendering verb_base",
        "verbs/explain": "verb_base",
        "verbs/init": "verb_base",
        "verbs/inspect": "listing rendering verb_base",
        "verbs/keygen": "verb_base",
        "verbs/lock": "verb_base",
        "verbs/plan": "verb_base",
        "verbs/split": "verb_base",
        "verbs/unpack": "verb_base",
        "verbs/verify": "verb_base",
    },
    "__main__": {
        "__main__": "",
    },
}

# Other people's packages, and the only modules that know them.
THIRD_PARTIES: dict[str, str] = {
    "common/user_folders": "platformdirs",
    "loader/_loading": "cuda",
    "loader/core": "cuda",
    "loader/cupy": "cupy",
    "pytest_plugin": "pytest",
    "remote/buckets": "obstore",
    "cache/entries": "cuda typing_extensions",
    "compiling/cluster/dask": "distributed",
    "program_cache/sqlite_cache": "cuda",
    "cache/signing": "cryptography",
    "common/file_lock": "typing_extensions",
    "config/config": "typing_extensions",
    "cli/completion": "shtab",
    "frontends/setuptools_commands": "setuptools",
    "frontends/hatch": "hatchling pathspec",
    "frontends/setuptools": "setuptools",
    "config/toml_positions": "tomli",
    "toolkit/linker": "cuda",
    "toolkit/toolkit": "cuda",
    "toolkit/worker": "cuda",
}

FILES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in PACKAGE.rglob("*.py")}
CORE = "loader/__init__"
DOORPLATES = {name for name in FILES if name.endswith("/__init__")} - {CORE}  # which say what the room is for
BESIDE = {
    ("common", "__init__"),
    ("common", "errors"),
}  # for layers: their files are beside the rooms


def _path(room: str, name: str) -> str:
    return f"{room}/{name}" if (PACKAGE / room).is_dir() and (room, name) not in BESIDE else name


HOMES = {_path(room, name): (room, name) for room, modules in MODULES.items() for name in modules}


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


# Their classes inherit from classes of cuda.core and of CuPy; nobody imports them who does not want that.
@pytest.mark.parametrize(
    "module", sorted({*HOMES} - {"program_cache/sqlite_cache", "loader/core", "loader/cupy"})
)
def test_cuda_is_imported_inside_functions_only(module: str) -> None:
    assert _third_parties(_at_import(_tree(module))) <= {
        "hatchling",
        "pathspec",
        "platformdirs",
        "pytest",
        "setuptools",
        "tomli",
    }


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


# The core does not import these files: users import the module of a library, and that module imports the key.
DROP_INS = {"loader/_drop_in", "loader/_text_key", "loader/core", "loader/cupy"}


# So no lock of the import system is held while one of them is imported, and a fork at that moment is safe.
@pytest.mark.parametrize(
    "part", sorted({module for module, (room, _) in HOMES.items() if room == "loader"} - DROP_INS)
)
def test_a_file_of_the_loader_imports_two_modules_and_the_core(part: str) -> None:
    names = {name for name in _imports(_at_import(_tree(part))) if not name.startswith(".")}
    assert names <= {"os", "sys"}


def test_the_text_key_imports_the_standard_library_alone() -> None:
    tree = _tree("loader/_text_key")
    names = {name.partition(".")[0] for name in _imports(tree)}
    assert names <= sys.stdlib_module_names


def test_the_worker_script_stands_alone() -> None:
    """It runs by its path, where no package is around it."""
    assert _used("toolkit/worker") == set()
