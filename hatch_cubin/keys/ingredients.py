"""List all inputs that can change the compiled result of a unit (a module for one arch).

Cache keys, cache records, the command `explain`, the lock file and the bill of materials all use this list.

If an input were missing from this list, it could change a result without changing the result's cache key.
`tests/unit/keys/test_ingredients.py` changes each field of a module and of the project's configuration, and
fails if the values of all inputs in the list stay the same. The file `test_ingredients.py` also contains a
list of exceptions: fields of a module and of the configuration that cannot change a result.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.digest import digest
from ..config.nvrtc_options import OF_PTX, OF_TILE_IR
from ..errors import ConfigError, problem
from ..headers.includes import Closure
from ..planning.unit_plan import Module, Unit
from ..toolkit import toolkit as compilers
from ..toolkit.toolkit import Keys, Toolkit, core_key, flags, implicit, mode_of
from . import input_files

if TYPE_CHECKING:
    from ..toolkit.linker import Input
    from .input_files import Jobs

NVRTC, PTXAS, TILEIRAS, NVJITLINK = (
    "nvrtc",
    "ptxas",
    "tileiras",
    "nvjitlink",
)  # the tools that compile or link kernels

KEY_SCHEMA = "hatch-cubin 1"
_SCHEMAS = {
    NVRTC: KEY_SCHEMA,
    PTXAS: "hatch-cubin ptx 1",
    TILEIRAS: "hatch-cubin tile 1",
    NVJITLINK: "hatch-cubin link 2",
}
# Used in place of a position in the digest if cuda.core's part of the cache key already covers the input.
_CORE = 0
_LAST = 99

# Three sentences: the value has changed, the value is new, or the value is gone.
Sentences = tuple[str, str, str]


class UnitInputs(NamedTuple):
    """A unit with its toolkit, headers and linked files, which determine all inputs of its compile."""

    unit: Unit
    toolkit: Toolkit
    closure: Closure = Closure()
    linked: Sequence[Input] = ()

    @property
    def module(self) -> Module:
        return self.unit.module

    @property
    def tool(self) -> str:
        """The tool that compiles or links the unit's source, such as NVRTC or nvJitLink."""
        if self.module.link:
            return NVJITLINK
        if self.module.source.is_tile_ir:
            return TILEIRAS
        return PTXAS if self.module.source.is_ptx else NVRTC


class DigestPositions(NamedTuple):
    """For each compiler, the position of an input among the inputs that are digested to make a cache key.

    A position is None if the compiler's cache key does not contain the input.
    """

    nvrtc: int | None = _LAST
    ptxas: int | None = _LAST
    nvjitlink: int | None = _LAST

    @property
    def tileiras(self) -> int | None:
        """The position of the input in cache keys for tileiras; it is the same as in cache keys for ptxas."""
        return self.ptxas


class Ingredient(NamedTuple):
    """One row of the list of inputs: an input that can change compiled results.

    For a setting of the project's configuration, the `Ingredient` sets *name*, *value*, *sentences* and
    *settings*. The function *value* must return None for units without this input, because any other value
    would change the cache keys of these units.
    """

    name: str  # the name of the input in cache records.
    # A function that returns the input's value for cache records, or None if a unit does not have this input.
    value: Callable[[UnitInputs], Any]
    # The sentences that `explain` prints, by kind of difference; the first kind is a changed value.
    sentences: Mapping[str, Sentences]
    type: type = object  # the type of the input's value; lists and dicts are compared item by item
    is_in_all: bool = False  # whether every cache record contains this input
    is_of_arch: bool = False  # whether the input's value differs between the units of a module
    positions: DigestPositions = DigestPositions()
    # A function that returns the texts for the digest in the cache key. If the function is None, these texts
    # are the input's name and value.
    parts: Callable[[UnitInputs], Sequence[str | bytes]] | None = None
    # the settings that the lock file contains for each module, by name
    settings: Mapping[str, Callable[[Module], Any]] = {}
    locked: Sequence[str] = ("modules",)  # the fields of the lock file whose values depend on this input.
    # A function that returns digests of files, for the lock file and the bill of materials.
    files: Callable[[Jobs], Mapping[str, str]] | None = None
    # A function that returns wheels and header trees, for the lock file and the bill of materials.
    others: Callable[[Jobs], Mapping[str, str | None]] | None = None

    def digest_parts(self, unit_inputs: UnitInputs) -> Sequence[str | bytes]:
        """Return the texts that this input adds to the digest in a cache key."""
        if self.parts is not None:
            return self.parts(unit_inputs)
        value = self.value(unit_inputs)
        return [] if value is None else [f"{self.name} {json.dumps(value, sort_keys=True)}"]


def _schema(unit_inputs: UnitInputs) -> str:
    return _SCHEMAS[unit_inputs.tool]


def _compiler(unit_inputs: UnitInputs) -> str:
    build = getattr(unit_inputs.toolkit, unit_inputs.tool)
    return f"{build} {compilers.OTHER_MACHINE}".rstrip()


def _path(unit_inputs: UnitInputs) -> str:
    return unit_inputs.module.base if unit_inputs.module.link else unit_inputs.module.source.path


def _arch(unit_inputs: UnitInputs) -> str:
    return str(unit_inputs.unit.arch)


def _source(unit_inputs: UnitInputs) -> str:
    if unit_inputs.module.link:
        return digest(["link", unit_inputs.module.base])  # the row *linked* contains the inputs of a link
    return digest([unit_inputs.module.source.code])


def _assembled(unit_inputs: UnitInputs) -> str | None:
    """Return the arch for which ptxas assembles NVRTC's PTX as a check; None if the unit is not PTX of NVRTC.

    Cache keys contain the arch, because earlier versions of hatch-cubin cached PTX that ptxas had not
    checked, and builds must not use that PTX.
    """
    is_made = unit_inputs.unit.arch.is_ptx and unit_inputs.tool == NVRTC
    return str(unit_inputs.unit.arch.real) if is_made else None


def _tileiras(unit_inputs: UnitInputs) -> str | None:
    """Return the versions of tileiras and of its tools for tile kernels in C++; None for other units."""
    is_needed = unit_inputs.module.is_tile and unit_inputs.tool == NVRTC
    return unit_inputs.toolkit.tileiras if is_needed else None


def _object(unit_inputs: UnitInputs) -> str | None:
    return mode_of(unit_inputs.module)


def _mode(module: Module) -> str | None:
    return module.link.mode if module.link else None


def _linked(unit_inputs: UnitInputs) -> list[str] | None:
    if not unit_inputs.module.link:
        return None
    return [f"{each.digest} {each.kind} {each.name}" for each in unit_inputs.linked]


def _define(unit_inputs: UnitInputs) -> list[str]:
    module = unit_inputs.module
    macros = {NVRTC: module.macros, NVJITLINK: module.variant}.get(unit_inputs.tool, ())
    return [f"{name}={value}" for name, value in macros]


def _options(unit_inputs: UnitInputs) -> dict[str, Any]:
    """Return those options of a module that have an effect on the tool that compiles the unit."""
    options = unit_inputs.module.plain_options
    if unit_inputs.tool == NVRTC:
        return options
    if unit_inputs.tool == PTXAS:
        return {name: value for name, value in options.items() if name in OF_PTX}
    if unit_inputs.tool == TILEIRAS:
        return {name: value for name, value in options.items() if name in OF_TILE_IR}
    from ..toolkit.linker import options_of_code  # lazy import: needed only for linked modules

    found = options_of_code(unit_inputs.module)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _flags(unit_inputs: UnitInputs) -> list[str]:
    if unit_inputs.tool in {PTXAS, TILEIRAS}:
        return flags(unit_inputs.unit, unit_inputs.toolkit)
    from ..toolkit.linker import link_options  # lazy import: needed only for linked modules

    return ["options", *(option.decode() for option in link_options(unit_inputs.unit))]


def _implicit(unit_inputs: UnitInputs) -> list[str]:
    return [] if unit_inputs.module.link else implicit(unit_inputs.module, unit_inputs.toolkit)


def _search(unit_inputs: UnitInputs) -> list[str]:
    return list(unit_inputs.closure.search) if unit_inputs.closure.includes else []


def _builds(unit_inputs: UnitInputs) -> dict[str, str]:
    read = unit_inputs.closure.summary()
    return {tree: build for tree, build in unit_inputs.closure.builds.items() if tree in read}


def _value_only(value: Callable[[UnitInputs], str | None]) -> Callable[[UnitInputs], Sequence[str]]:
    """Return a function for *parts* of `Ingredient`: it returns an input's value without the input's name.

    The digest does not contain the input's name, because the cache keys of the first releases did not contain
    the name.
    """
    return lambda unit_inputs: [found] if (found := value(unit_inputs)) is not None else []


# `explain` reports differences in this order, which begins with the changes that people make most often.
INGREDIENTS: Sequence[Ingredient] = (
    Ingredient(
        "compiler",
        _compiler,
        {"compiler": ("{tool} {old} -> {new}", "", "")},
        str,
        is_in_all=True,
        positions=DigestPositions(2, 4, 3),
        parts=_value_only(_compiler),
        locked=("builds",),
    ),
    Ingredient(
        "arch",
        _arch,
        {"arch": ("the cache has a result for {old}, but not for {new}", "", "")},
        str,
        is_in_all=True,
        is_of_arch=True,
        positions=DigestPositions(4, 6, 2),
        parts=_value_only(_arch),
    ),
    Ingredient(
        "path",
        _path,
        {"path": ("the cache has a result with the name {old}, but not with the name {new}", "", "")},
        str,
        is_in_all=True,
        # A linked result does not contain the module's name, so the name has no position for nvJitLink.
        positions=DigestPositions(_CORE, 2, None),
        parts=_value_only(_path),
        settings={"source": lambda module: module.source.path},
    ),
    Ingredient(
        "source",
        _source,
        {"source": ("{path} has changed", "", "")},
        str,
        is_in_all=True,
        # No position for nvJitLink, because the row *linked* contains the keys of the object files.
        positions=DigestPositions(_CORE, 3, None),
        parts=lambda unit_inputs: [unit_inputs.module.source.code],
        locked=("files",),
        files=input_files.source_files,
    ),
    Ingredient(
        "data_model",
        lambda _unit_inputs: compilers.DATA_MODEL,
        {"data_model": ("data model {old} -> {new}", "", "")},
        str,
        is_in_all=True,
        positions=DigestPositions(3, 5, 4),
        parts=lambda _unit_inputs: [compilers.DATA_MODEL],
        locked=("data_model",),
    ),
    Ingredient(
        "schema",
        _schema,
        {"schema": ("this version of hatch-cubin makes cache keys differently: {old} -> {new}", "", "")},
        str,
        is_in_all=True,
        positions=DigestPositions(1, 1, 1),
        parts=_value_only(_schema),
    ),
    Ingredient(
        "assembled",
        _assembled,
        {"assembled": ("", "the build now checks the PTX: ptxas assembles the PTX for {new}", "")},
        str,
        is_of_arch=True,
        positions=DigestPositions(7, None, None),
        parts=lambda unit_inputs: [f"assembled {found}"] if (found := _assembled(unit_inputs)) else [],
    ),
    Ingredient(
        "tileiras",
        _tileiras,
        {
            "tileiras": (
                "tileiras {old} -> {new}",
                "this source now contains tile kernels, which tileiras {new} assembles",
                "this source no longer contains tile kernels",
            )
        },
        str,
        positions=DigestPositions(8, None, None),
        locked=("builds",),
    ),
    Ingredient(
        "object",
        _object,
        {
            "object": (
                "the link mode for which the source is compiled: {old} -> {new}",
                "the source is now compiled for linking, with mode {new}",
                "the source is no longer compiled for linking",
            )
        },
        str,
        positions=DigestPositions(_CORE, None, None),
    ),
    Ingredient(
        "mode",
        lambda unit_inputs: _mode(unit_inputs.module),
        {"mode": ("the link mode of the module: {old} -> {new}", "", "")},
        str,
        positions=DigestPositions(None, None, 5),
        parts=_value_only(lambda unit_inputs: _mode(unit_inputs.module)),
        settings={"mode": _mode},
    ),
    Ingredient(
        "linked",
        _linked,
        {
            "linked": (
                "{name} has changed",
                "{name} is now linked",
                "{name} is no longer linked",
            ),
            "linked order": ("the order of the linked inputs: {old} -> {new}", "", ""),
        },
        list,
        positions=DigestPositions(None, None, 6),
        parts=lambda unit_inputs: _linked(unit_inputs) or [],
        settings={
            "link": lambda module: [*module.link.files] if module.link else None,
            "sources": lambda module: module.link.sources if module.link else None,
        },
        files=input_files.linked_files,
        others=input_files.linked_wheels,
    ),
    Ingredient(
        "headers",
        lambda unit_inputs: unit_inputs.closure.summary(),
        {
            "header": ("{name} was edited", "{name} is now included", "{name} is no longer included"),
        },
        dict,
        is_in_all=True,
        positions=DigestPositions(5, None, None),
        parts=lambda unit_inputs: [unit_inputs.closure.digest()],
        locked=("files", "headers"),
        files=input_files.header_files,
        others=input_files.header_trees,
    ),
    Ingredient(
        "define",
        _define,
        {
            "macro": (
                "macro {name}: {old} -> {new}",
                "macro {name}={new} is new",
                "macro {name}={old} is gone",
            ),
            "macro order": ("the order of the macros: {old} -> {new}", "", ""),
        },
        list,
        is_in_all=True,
        # No position for nvJitLink, because the row *linked* contains the keys of the object files.
        positions=DigestPositions(_CORE, None, None),
        settings={"define": lambda module: [f"{name}={value}" for name, value in module.macros]},
    ),
    Ingredient(
        "options",
        _options,
        {
            "option": (
                "option {name}: {old} -> {new}",
                "option {name}={new} is new",
                "option {name}={old} is gone",
            )
        },
        dict,
        is_in_all=True,
        positions=DigestPositions(_CORE, 7, 8),
        parts=_flags,
        settings={"options": lambda module: module.plain_options},
    ),
    Ingredient(
        "instantiate",
        lambda unit_inputs: [*unit_inputs.module.instantiate],
        {"instantiation": ("", "{name} is now instantiated", "{name} is no longer instantiated")},
        list,
        is_in_all=True,
        positions=DigestPositions(_CORE, None, 7),
        parts=lambda unit_inputs: ["names", *unit_inputs.module.instantiate],
        settings={"instantiate": lambda module: [*module.instantiate]},
    ),
    Ingredient(
        "search",
        _search,
        {
            "search": (
                "",
                "the search path now contains {name}",
                "the search path no longer contains {name}",
            ),
            "search order": ("the order of the search path: {old} -> {new}", "", ""),
        },
        list,
        is_in_all=True,
        # no positions, because the digest in the row *headers* covers the search path
        positions=DigestPositions(None, None, None),
        settings={"include-dirs": lambda module: [*module.include_dirs]},
    ),
    Ingredient(
        "builds",
        _builds,
        {
            "headers": (
                "headers that came from {old} now come from {new}",
                "headers from {new} are now included",
                "headers from {old} are no longer included",
            ),
        },
        dict,
        is_in_all=True,
        # no positions, because these values are only names of header trees for messages
        positions=DigestPositions(None, None, None),
    ),
    Ingredient(
        "trees",
        lambda unit_inputs: sorted(unit_inputs.closure.trees),
        {
            "tree": (
                "another release of {name} is installed",
                "all headers from {name} are now inputs",
                "some headers from {name} are no longer inputs",
            )
        },
        list,
        is_in_all=True,
        # The row has no positions, because the digest in the row *headers* covers the header trees.
        positions=DigestPositions(None, None, None),
    ),
    Ingredient(
        "implicit",
        _implicit,
        {
            "implicit": (
                "",
                "hatch-cubin now adds the compiler option {name!r}",
                "hatch-cubin no longer adds the compiler option {name!r}",
            )
        },
        list,
        is_in_all=True,
        positions=DigestPositions(6, None, None),
        parts=_implicit,
    ),
    Ingredient(
        "cuda_core",
        lambda unit_inputs: unit_inputs.toolkit.core,
        {"cuda_core": ("cuda-core {old} -> {new}, which changes the cache keys", "", "")},
        str,
        is_in_all=True,
        positions=DigestPositions(_CORE, None, None),
        locked=("builds",),
    ),
)


def _in_order(tool: str) -> list[Ingredient]:
    """Return the inputs that enter the cache keys of *tool*, in the order in which they enter the digest."""
    positioned = [(position, each) for each in INGREDIENTS if (position := getattr(each.positions, tool))]
    return [each for _position, each in sorted(positioned, key=operator.itemgetter(0))]


_INGREDIENTS_OF_KEY = {tool: _in_order(tool) for tool in (NVRTC, PTXAS, TILEIRAS, NVJITLINK)}


def inputs_of(unit_inputs: UnitInputs, *, of_arch: bool = True) -> dict[str, Any]:
    """Return a mapping from name to value for all inputs of a unit's compile, for cache records and messages.

    If *of_arch* is false, return only the inputs that have the same value for all archs of the module.
    """
    found = ((each.name, each.value(unit_inputs)) for each in INGREDIENTS if of_arch or not each.is_of_arch)
    return {name: value for name, value in found if value is not None}


def digest_parts(unit_inputs: UnitInputs) -> list[str | bytes]:
    """Return the texts that are digested to make the cache key of a unit.

    The inputs whose position is `_CORE` are not in these texts, because cuda.core adds them to the cache key.
    """
    return [part for each in _INGREDIENTS_OF_KEY[unit_inputs.tool] for part in each.digest_parts(unit_inputs)]


def keys_of(unit_inputs: UnitInputs) -> Keys:
    """Return the cache keys of a unit."""
    unit, toolkit, closure, _linked = unit_inputs
    whole = digest(digest_parts(unit_inputs))
    # program_key is None, because cuda.core would compile PTX with nvJitLink, which gives other machine code
    if unit_inputs.tool != NVRTC:
        return Keys(bytes.fromhex(whole), None)
    toolkit.load()
    try:
        key = core_key(unit, whole)
    except (TypeError, ValueError) as exc:
        raise ConfigError(
            problem("no-cache-key", f"cuda.core cannot make a cache key for {unit.name}: {exc}")
        ) from exc
    module = unit_inputs.module
    if closure.includes or module.instantiate or module.part_of or module.has_tile_code:
        return Keys(key, None)
    try:
        return Keys(key, core_key(unit))
    # cuda.core does not make a cache key if the key would not cover all inputs.
    except (TypeError, ValueError):
        return Keys(key, None)


def settings_of(module: Module) -> dict[str, Any]:
    """Return the settings of a module that can change its compiled results, for the lock file."""
    found = ((name, get(module)) for each in INGREDIENTS for name, get in each.settings.items())
    return {name: value for name, value in found if value not in (None, [], {})}
