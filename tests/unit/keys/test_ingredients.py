"""The list of what makes a unit's result: keys, the lock and `explain` forget no setting."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hatch_cubin.cache import records
from hatch_cubin.common.arch_names import Arch
from hatch_cubin.config.config import Config, ModuleRule, SourceRule
from hatch_cubin.explaining import differences
from hatch_cubin.explaining.differences import describe, nearest_unit
from hatch_cubin.keys import ingredients
from hatch_cubin.keys.ingredients import (
    INGREDIENTS,
    NVJITLINK,
    NVRTC,
    PTXAS,
    TILEIRAS,
    Ingredient,
    UnitInputs,
    digest_parts,
    inputs_of,
    keys_of,
    settings_of,
)
from hatch_cubin.keys.jobs import Job, every_closure, make_jobs
from hatch_cubin.keys.recall import Recall
from hatch_cubin.lockfile import lock_comparison, lock_format
from hatch_cubin.planning import linked_modules
from hatch_cubin.planning.unit_plan import LinkRecipe, Module, Unit
from hatch_cubin.project.project import Project, ProjectSources, read_sources
from hatch_cubin.project.source import Source
from hatch_cubin.toolkit import toolkit as toolkit_module
from hatch_cubin.toolkit.linker import Input
from hatch_cubin.toolkit.tile_assembler import TileAssembler
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from tests.helpers import COPY_PTX, SAXPY, TABLE, make_project

pytestmark = pytest.mark.nvrtc

WITHOUT_EFFECT = {
    "Module.base": "it names the module; what is compiled or linked is the same",
    "Module.include_dirs": "the closure has what is found in them, in their order",
    "Module.targets": "each of them is the arch of a unit",
    "Module.setting_lines": "it is for messages",
    "Module.source_table_header": "it is for hints",
    "Module.where": "it is for messages",
    "Module.front": "it names the module; what the call adds is among the options",
    "Module.equal": "they have the text of the module's own source",
    "LinkRecipe.parts": "'linked' has each of them, with the key of an object or the digest of a text",
    "LinkRecipe.files": "'linked' has each of them, with its digest",
    "SourceRule.path": "it says which sources the table is for",
    "SourceRule.front": "what the call adds is among the options",
    "SourceRule.call_options": "they are also macros, options and folders",
    "SourceRule.name": "it names the module; what is compiled is the same",
    "ModuleRule.name": "it names the module; what is linked is the same",
    "Config.toolkit": "'compiler' has the builds of the compilers that are there",
    "Config.sources": "it says which modules there are",
    "Config.exclude": "it says which modules there are",
    "Config.package": "it says which wheel the modules are in",
    "Config.source_roots": "they are folders, and 'path' and 'headers' have the names of files in them",
    "Config.header_packages": "'headers' has what is read of them",
    "Config.jobs": "it is how many units are compiled at once",
    "Config.cache_dir": "it is where results are kept",
    "Config.cache_size": "it is how many results are kept",
    "Config.max_size": "it is a limit of the wheel",
    "Config.trusted_keys": "they say which results of others are used",
    "Config.remote_cache": "it is where results are kept",
    "Config.pack": "it is how results are laid out in the wheel",
    "Config.ship_sources": "it is what else is in the wheel",
    "Config.provenance": "it is what the bill of materials has beside the ingredients",
    "Config.source": "each of its fields is tested as one of SourceRule",
    "Config.module": "each of its fields is tested as one of ModuleRule",
    "Config.producer": "the sources that it returns have their texts and settings",
    "Config.recorded": "it says which modules there are",
    "Config.backend": "it is for the wrapped project",
    "Config.backend_path": "it is for the wrapped project",
    "Config.package_dir": "it is where the bundle is in the wheel",
    "Config.timeout_s": "a compile that takes longer has no result",
    "Config.executor": "it is where units are compiled; a worker has to have the same compilers",
    "Config.recheck": "it is how many units are compiled twice",
    "Config.replaced": "the fields that a variable sets are tested themselves",
    "Config.place": "it is for messages",
}

# Values that a field can have. A new field gets one of its type, by `other`.
OTHERS: Mapping[str, Any] = {
    "archs": ("sm_100",),
    "define": (("N", "5"),),
    "include_dirs": ("other", "include"),
    "instantiate": ("twice<3>",),
    "link": ("lib/other.ptx",),
    "mode": "rdc",
    "options": {"lineinfo": False},
    "source": Source("demo/k.cu", SAXPY + " "),
    "sources": ("demo/l/main.cu", "demo/l/f.cu", "demo/l/g.cu"),
    "undefined": ("N",),
    "variant": (("V", "1"),),
    "variants": (("V", ("1", "2")),),
}
FILES = {
    "k.cu": '#include "a.h"\n#include <b.h>\n' + SAXPY,
    "a.h": "",
    "copy.ptx": COPY_PTX,
    "t.cu": "__tile_global__ void t() {}\n",
    "ir.tileir": "\x7fTileIR\0",
    "l/main.cu": "#include <b.h>\n__device__ int f(int);\n"
    "template <int X> __global__ void twice(int *x) { *x = f(X); }\n"
    'extern "C" __global__ void k(int *x) { *x = f(*x) * N; }\n',
    "l/f.cu": "__device__ int f(int a) { return a + 1; }\n",
    "l/g.cu": "__device__ int g(int a) { return a + 1; }\n",
    "../include/b.h": "",
    "../other/b.h": "#define OTHER 1\n",
    "../lib/x.ptx": COPY_PTX.replace("copy", "x"),
    "../lib/other.ptx": COPY_PTX.replace("copy", "y"),
}
OPTIONS = f"""
archs = ["sm_90", "compute_90"]
include-dirs = ["include"]
define = {{ N = 4 }}
options = {{ lineinfo = true }}
[[{".".join(TABLE)}.source]]
path = "**/k.cu"
[[{".".join(TABLE)}.source]]
path = "demo/l/main.cu"
instantiate = ["twice<2>"]
[[{".".join(TABLE)}.module]]
name = "linked"
sources = ["demo/l/main.cu", "demo/l/f.cu"]
mode = "lto"
archs = ["sm_90"]
link = ["lib/x.ptx"]
"""


class State(NamedTuple):
    """A project, as a build finds it."""

    project: Project
    sources: ProjectSources
    toolkit: Toolkit
    jobs: Sequence[Job]
    lock: lock_format.LockFile
    records: Mapping[str, Mapping[str, Any]]  # by tool and key: what makes each unit, as it was then


def toolkit_with_tileiras() -> Toolkit:
    toolkit = Toolkit(None)
    vars(toolkit)["_tile_assembler"] = TileAssembler("", BUILDS_OF_TILEIRAS[-1])
    return toolkit


def state(project: Project) -> State:
    sources, toolkit = read_sources(project), toolkit_with_tileiras()
    jobs = make_jobs(project, sources, toolkit)
    everything = every_closure(project, sources, toolkit, Recall(None), jobs)
    found = lock_comparison.make_lock(project, everything, toolkit, jobs, {})
    records: dict[str, dict[str, Any]] = {tool: {} for tool in (NVRTC, PTXAS, TILEIRAS, NVJITLINK)}
    for job in jobs:
        records[UnitInputs(job.unit, toolkit).tool][job.keys.key.hex()] = job.inputs
    return State(project, sources, toolkit, jobs, found, records)


def make(root: Path, files: Mapping[str, str] = FILES, options: str = OPTIONS) -> Project:
    return make_project(root, files, options)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> State:
    return state(make(tmp_path_factory.mktemp("before")))


def changed(before: State, after: State, tool: str) -> Iterator[set[str]]:
    """Yield the kinds of differences that `explain` finds for each new key of a tool."""
    for key, inputs in after.records[tool].items():
        if key not in before.records[tool]:
            found = nearest_unit(inputs, (), before.records[tool])
            assert found is not None
            assert all(describe(each, inputs) for each in found.differences)
            yield {each.input for each in found.differences}


def stale(before: State, after: State) -> tuple[str, ...]:
    """Return what a build with the lock reports as changed, without a compiler."""
    return lock_comparison.plan_by_lock(before.lock, after.project, after.sources).changes


def edited(name: str, old: str = "", new: str = " ") -> Callable[[Path, pytest.MonkeyPatch], Project]:
    """Return what makes the project with another text in one of its files."""
    return lambda root, _patch: make(root, {**FILES, name: FILES[name].replace(old, new, 1)})


def with_options(old: str, new: str) -> Callable[[Path, pytest.MonkeyPatch], Project]:
    return lambda root, _patch: make(root, options=OPTIONS.replace(old, new))


def moved(root: Path, _patch: pytest.MonkeyPatch) -> Project:
    names = {"k.cu": "moved/k.cu", "a.h": "moved/a.h", "copy.ptx": "moved/copy.ptx"}
    return make(root, {names.get(name, name): text for name, text in FILES.items()})


def patched(*attributes: tuple[object, str, Any]) -> Callable[[Path, pytest.MonkeyPatch], Project]:
    def change(root: Path, patch: pytest.MonkeyPatch) -> Project:
        for owner, name, value in attributes:
            patch.setattr(owner, name, value)
        return make(root)

    return change


def other_build(name: str, path: str, *asked: str, real: Any = toolkit_module._exact_build) -> Any:
    return real(name, path, *asked) + "9"


def other_core_key(*unit: Any, real: Any = toolkit_module.core_key) -> bytes:
    return bytes(reversed(real(*unit)))


def other_core(facts: Toolkit, real: Any = Toolkit._ask) -> Any:
    return real(facts)._replace(core="9.9")


BUILDS_OF_TILEIRAS = ["13.5.37"]
CASES: Mapping[str, Sequence[Callable[[Path, pytest.MonkeyPatch], Project]]] = {
    "compiler": [patched((toolkit_module, "_exact_build", other_build))],
    "arch": [with_options('"sm_90"', '"sm_100"')],
    "path": [moved],
    "source": [edited("k.cu"), edited("copy.ptx")],
    "data_model": [patched((toolkit_module, "DATA_MODEL", "odd"), (lock_comparison, "DATA_MODEL", "odd"))],
    "schema": [patched((ingredients, "_SCHEMAS", {NVRTC: "a", PTXAS: "b", TILEIRAS: "d", NVJITLINK: "c"}))],
    "tileiras": [patched((sys.modules[__name__], "BUILDS_OF_TILEIRAS", ["13.5.38"]))],
    "assembled": [with_options('"compute_90"', '"compute_100"')],
    "object": [with_options('"lto"', '"rdc"')],
    "mode": [with_options('"lto"', '"rdc"')],
    "linked": [edited("l/f.cu"), edited("../lib/x.ptx"), with_options("lib/x", "lib/other")],
    "headers": [edited("a.h"), edited("../include/b.h")],
    "define": [with_options("N = 4", "N = 5"), with_options("N = 4", "N = 4, M = false, L = 1")],
    "options": [with_options("lineinfo = true", "debug = true")],
    "instantiate": [with_options("twice<2>", "twice<3>")],
    "search": [with_options('["include"]', '["other", "include"]')],
    "implicit": [patched((toolkit_module, "_FIRST_WITH_SEED", (99, 0)))],
    "cuda_core": [patched((ingredients, "core_key", other_core_key), (Toolkit, "_ask", other_core))],
}
ONLY_WITH_A_COMPILER = {
    "compiler",
    "schema",
    "implicit",
    "cuda_core",
    "tileiras",
}  # no file of a project has these
HIDDEN = {"assembled": "arch"}  # what explains a change that comes with another one, which is named instead


def test_every_ingredient_of_a_key_has_a_case() -> None:
    in_keys = {each.name for each in INGREDIENTS if {*each.positions} != {None}}
    assert in_keys <= CASES.keys() <= {each.name for each in INGREDIENTS}


@pytest.mark.parametrize(
    "each", [each for each in INGREDIENTS if each.name in CASES], ids=lambda row: row.name
)
def test_what_changes_a_key_makes_the_lock_stale_and_is_named_by_explain(
    each: Ingredient, before: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools: set[str] = set()
    for number, case in enumerate(CASES[each.name]):
        with monkeypatch.context() as patch:
            after = state(case(tmp_path / str(number), patch))
            if each.name in ONLY_WITH_A_COMPILER:
                assert lock_comparison.differences_of_jobs(before.lock, after.jobs, after.toolkit)
            else:
                assert stale(before, after)
            now = after.lock._asdict()
            assert any(now[field] != getattr(before.lock, field) for field in each.locked)
            for tool in (NVRTC, PTXAS, TILEIRAS, NVJITLINK):
                kinds = [*changed(before, after, tool)]
                if any({*each.sentences, HIDDEN.get(each.name)} & found for found in kinds):
                    tools.add(tool)
    assert tools >= {tool for tool, place in each.positions._asdict().items() if place is not None}


TEXT = "// text\n"
DIGESTED: Mapping[str, tuple[Mapping[str, Any], Sequence[str | bytes]]] = {
    NVRTC: ({}, ["hatch-cubin 1", "1.2.3", "lp64", "compute_90", "", "--frandom-seed=hatch-cubin"]),
    PTXAS: (
        {"source": Source("demo/k.ptx", TEXT), "options": {"lineinfo": True, "ftz": True}},
        [
            "hatch-cubin ptx 1",
            "demo/k.ptx",
            TEXT.encode(),
            "1.2.3",
            "lp64",
            "compute_90",
            "-arch=sm_90",
            "-lineinfo",
        ],
    ),
    TILEIRAS: (
        {"source": Source("demo/k.tileir", TEXT), "is_tile": True, "options": {"debug": True, "ftz": True}},
        [
            *("hatch-cubin tile 1", "demo/k.tileir", TEXT.encode(), "7.8.9", "lp64", "compute_90"),
            *("--gpu-name=sm_90", "--device-debug", "--opt-level=0"),
        ],
    ),
    NVJITLINK: (
        {"link": LinkRecipe("lto", (), ()), "instantiate": ("f<1>", "f<2>"), "options": {"lineinfo": True}},
        [
            *("hatch-cubin link 2", "compute_90", "4.5.6", "lp64", "lto", "1f lto demo/k.cu", "2f ptx x.ptx"),
            *("names", "f<1>", "f<2>", "options", "-arch=sm_90", "-lto", "-lineinfo"),
        ],
    ),
}


@pytest.mark.parametrize("tool", DIGESTED)
def test_a_key_is_a_digest_of_the_same_parts_in_every_release(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, no result in a user's cache is found any more."""
    monkeypatch.setattr(toolkit_module, "DATA_MODEL", "lp64")
    monkeypatch.setattr(toolkit_module, "OTHER_MACHINE", "")
    settings, parts = DIGESTED[tool]
    module = Module("k", Source("demo/k.cu", TEXT), define=(("N", "4"),), include_dirs=("include",))
    unit = Unit(dataclasses.replace(module, **settings), Arch(90, kind="compute"))
    toolkit = Toolkit(None, facts=Facts("1.0", 1, "1.2.3", (75, 90), "4.5.6", "7.8.9"))
    monkeypatch.setattr(toolkit_module, "_FIRST_WITH_SEED", (1, 0))
    linked = (Input("demo/k.cu", "lto", "1f"), Input("x.ptx", "ptx", "2f")) if tool == NVJITLINK else ()
    assembled = ["assembled sm_90"] if tool == NVRTC else []
    assert digest_parts(UnitInputs(unit, toolkit, linked=linked)) == [*parts, *assembled]


def test_a_row_for_a_new_setting_needs_little_and_changes_no_key_where_it_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Ingredient(
        "tile",
        lambda unit_inputs: unit_inputs.module.options.get("tile"),
        {"tile": ("tile {old} -> {new}", "tile={new} is new", "tile={old} is gone")},
        settings={"tile": lambda module: module.options.get("tile")},
    )
    module = Module("k", Source("demo/k.ptx", TEXT))
    toolkit = Toolkit(None, facts=Facts("1.0", 1, "1.2.3", (75, 90)))
    without, tiled = (
        UnitInputs(Unit(dataclasses.replace(module, options=options), Arch(90)), toolkit)
        for options in ({}, {"tile": 8})
    )
    before = keys_of(without)
    with_row = (*INGREDIENTS, row)
    for owner in (ingredients, differences):
        monkeypatch.setattr(owner, "INGREDIENTS", with_row)
    monkeypatch.setitem(ingredients._INGREDIENTS_OF_KEY, PTXAS, ingredients._in_order(PTXAS))
    monkeypatch.setitem(differences._SENTENCES, "tile", row.sentences["tile"])
    assert before == keys_of(without) != keys_of(tiled)
    assert (settings_of(tiled.module)["tile"], "tile" in settings_of(without.module)) == (8, False)
    was, now = inputs_of(without), inputs_of(tiled)
    assert [describe(each, now) for each in differences.differences(was, now)] == ["tile=8 is new"]


def test_the_lock_and_the_list_agree_on_their_fields() -> None:
    assert {field for each in INGREDIENTS for field in each.locked} <= {*lock_format.LockFile._fields}


def can_be_stored(inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether a cache record with these inputs and a lock with these settings can be read again."""
    possible = {**lock_format._SETTINGS, "source": lock_format._is_path}
    return records._are_inputs(inputs) and all(possible[name](each) for name, each in settings.items())


def fields(*classes: Any) -> list[str]:
    """Return the fields of classes that are in no list of what cannot change a result."""
    named = ((each, getattr(each, "_fields", None)) for each in classes)
    every = [
        f"{each.__name__}.{name}"
        for each, own in named
        for name in own or (field.name for field in dataclasses.fields(each))
    ]
    return [name for name in every if name not in WITHOUT_EFFECT]


def other(name: str, value: Any) -> Any:
    """Return another value for a field."""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, (tuple, Mapping)):
        return type(value)(["other"]) if isinstance(value, tuple) else {**value, "other": "1"}
    return f"{value or ''}other"


def test_what_cannot_change_a_result_is_a_field() -> None:
    every = {
        name for each in (Module, LinkRecipe, SourceRule, ModuleRule, Config) for name in _all_fields(each)
    }
    assert every >= WITHOUT_EFFECT.keys()


def _all_fields(each: Any) -> Iterator[str]:
    names = getattr(each, "_fields", None) or [field.name for field in dataclasses.fields(each)]
    yield from (f"{each.__name__}.{name}" for name in names)


@pytest.mark.parametrize("field", fields(Module, LinkRecipe))
def test_every_field_of_a_module_is_an_ingredient(field: str) -> None:
    """A new field needs a row in `keys/ingredients.py`, or a reason above why it cannot change a result."""
    owner, _, name = field.partition(".")
    module = Module(
        "k",
        Source("demo/k.cu", SAXPY),
        define=(("N", "4"),),
        options={"lineinfo": True},
        instantiate=("f<1>",),
    )
    link = LinkRecipe("lto", (module,), ()) if owner == "LinkRecipe" else None
    module = dataclasses.replace(module, link=link)
    if owner == "LinkRecipe":
        assert module.link is not None
        after = dataclasses.replace(
            module, link=module.link._replace(**{name: other(name, getattr(module.link, name))})
        )
    elif name == "link":
        after = dataclasses.replace(module, link=LinkRecipe("lto", (module,), ()))
    else:
        after = dataclasses.replace(module, **{name: other(name, getattr(module, name))})
    toolkit = toolkit_with_tileiras()
    unit_inputs, made = (UnitInputs(Unit(each, Arch(90)), toolkit) for each in (module, after))
    assert keys_of(unit_inputs) != keys_of(made)
    assert inputs_of(unit_inputs) != inputs_of(made)
    assert can_be_stored(inputs_of(made), settings_of(after))
    assert linked_modules._without_names(module) != linked_modules._without_names(after) or name in {
        "source",
        "part_of",
    }
    assert settings_of(module) != settings_of(after) or name in {
        "source",
        "part_of",
        "has_tile_code",
        "is_tile",
    }  # other parts have these


@pytest.mark.parametrize("field", fields(Config, SourceRule, ModuleRule))
def test_every_field_of_a_table_is_an_ingredient(field: str, before: State, tmp_path: Path) -> None:
    """A new key of a table needs the same."""
    owner, _, name = field.partition(".")
    project = make(tmp_path)
    config: Any = project.config
    if owner == "Config":
        config = dataclasses.replace(config, **{name: other(name, getattr(config, name))})
    else:
        table = owner.removesuffix("Rule").lower()
        first, *more = getattr(config, table)
        rule = dataclasses.replace(first, **{name: other(name, getattr(first, name))})
        config = dataclasses.replace(config, **{table: (rule, *more)})
    after = state(dataclasses.replace(project, config=config))
    kinds = [found for tool in (NVRTC, PTXAS, TILEIRAS, NVJITLINK) for found in changed(before, after, tool)]
    assert any(kinds)
    assert stale(before, after)
    assert all(can_be_stored(job.inputs, settings_of(job.unit.module)) for job in after.jobs)
