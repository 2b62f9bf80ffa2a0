"""What makes a unit's result, in one list: keys, records, `explain`, the lock and the bill derive from it.

A setting that is not in this list could change a result without changing its key. So
`tests/unit/keys/test_ingredients.py` changes each field of a module and of the tables, and fails if no row of
the list shows the change, unless the test lists the field as one that cannot change a result.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.digest import digest
from ..config.nvrtc_options import OF_PTX
from ..errors import ConfigError, problem
from ..headers.includes import Closure
from ..planning.unit_plan import Module, Unit
from ..toolkit import toolkit as compilers
from ..toolkit.toolkit import Keys, Toolkit, core_key, flags, implicit, mode_of
from . import materials

if TYPE_CHECKING:
    from ..toolkit.linker import Input
    from .materials import Jobs

NVRTC, PTXAS, NVJITLINK = "nvrtc", "ptxas", "nvjitlink"  # what makes a unit's result

KEY_SCHEMA = "hatch-cubin 1"
_SCHEMAS = {NVRTC: KEY_SCHEMA, PTXAS: "hatch-cubin ptx 1", NVJITLINK: "hatch-cubin link 2"}
_CORE = 0  # instead of a place: cuda.core's part of the key has it
_LAST = 99

Sentences = tuple[str, str, str]  # for what changed, what is new, what is gone


class Making(NamedTuple):
    """How a unit is made. Its ingredients are taken from this."""

    unit: Unit
    toolkit: Toolkit
    closure: Closure = Closure()
    linked: Sequence[Input] = ()

    @property
    def module(self) -> Module:
        return self.unit.module

    @property
    def tool(self) -> str:
        """The tool that makes the result."""
        if self.module.link:
            return NVJITLINK
        return PTXAS if self.module.source.is_ptx else NVRTC


class Places(NamedTuple):
    """At which place the digest of a key has an ingredient, by tool; None: it does not have it."""

    nvrtc: int | None = _LAST
    ptxas: int | None = _LAST
    nvjitlink: int | None = _LAST


class Ingredient(NamedTuple):
    """One thing that makes a result. A setting needs the first three fields and *settings*."""

    name: str  # in the records of the cache
    value: Callable[[Making], Any]  # as records have it; None: this unit does not have it
    sentences: Mapping[str, Sentences]  # for `explain`, by kind of difference; a unit's own kind is the first
    type: type = object  # of the value; a list or a dict is compared part by part
    is_in_all: bool = False  # whether every record has it
    is_of_arch: bool = False  # whether it differs between the units of a module
    places: Places = Places()
    parts: Callable[[Making], Sequence[str | bytes]] | None = None  # what the digest has, or name and value
    settings: Mapping[str, Callable[[Module], Any]] = {}  # what the lock has of it for each module, by name
    locked: Sequence[str] = ("modules",)  # which fields of the lock change with it
    files: Callable[[Jobs], Mapping[str, str]] | None = None  # for the lock and the bill
    others: Callable[[Jobs], Mapping[str, str | None]] | None = None  # wheels and trees, likewise

    def of(self, making: Making) -> Sequence[str | bytes]:
        """Return what the digest of the unit's key has of this ingredient."""
        if self.parts is not None:
            return self.parts(making)
        value = self.value(making)
        return [] if value is None else [f"{self.name} {json.dumps(value, sort_keys=True)}"]


def _schema(making: Making) -> str:
    return _SCHEMAS[making.tool]


def _compiler(making: Making) -> str:
    toolkit = making.toolkit
    if making.tool == NVJITLINK:
        build = toolkit.nvjitlink
    else:
        build = toolkit.ptxas if making.tool == PTXAS else toolkit.nvrtc
    return f"{build} {compilers.OTHER_MACHINE}".rstrip()


def _path(making: Making) -> str:
    return making.module.base if making.module.link else making.module.source.path


def _arch(making: Making) -> str:
    return str(making.unit.arch)


def _source(making: Making) -> str:
    if making.module.link:
        return digest(["link", making.module.base])  # the same whatever the module is linked of
    return digest([making.module.source.code])


def _assembled(making: Making) -> str | None:
    """Return what NVRTC's PTX is assembled for. Earlier releases did not assemble what they cached."""
    is_made = making.unit.arch.is_ptx and making.tool == NVRTC
    return str(making.unit.arch.real) if is_made else None


def _object(making: Making) -> str | None:
    return mode_of(making.module)


def _mode(module: Module) -> str | None:
    return module.link.mode if module.link else None


def _linked(making: Making) -> list[str] | None:
    if not making.module.link:
        return None
    return [f"{each.digest} {each.kind} {each.name}" for each in making.linked]


def _define(making: Making) -> list[str]:
    module = making.module
    macros = {NVRTC: module.macros, PTXAS: (), NVJITLINK: module.variant}[making.tool]
    return [f"{name}={value}" for name, value in macros]


def _options(making: Making) -> dict[str, Any]:
    """Return the options that the tool obeys."""
    options = making.module.plain_options
    if making.tool == NVRTC:
        return options
    if making.tool == PTXAS:
        return {name: value for name, value in options.items() if name in OF_PTX}
    from ..toolkit.linker import options_of_code  # lazy: only with linked modules

    found = options_of_code(making.module)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _flags(making: Making) -> list[str]:
    if making.tool == PTXAS:
        return flags(making.unit, making.toolkit)
    from ..toolkit.linker import link_options  # lazy: only with linked modules

    return ["options", *(option.decode() for option in link_options(making.unit))]


def _implicit(making: Making) -> list[str]:
    return [] if making.module.link else implicit(making.module, making.toolkit)


def _search(making: Making) -> list[str]:
    return list(making.closure.search) if making.closure.includes else []


def _builds(making: Making) -> dict[str, str]:
    read = making.closure.summary()
    return {tree: build for tree, build in making.closure.builds.items() if tree in read}


def _itself(value: Callable[[Making], str | None]) -> Callable[[Making], Sequence[str]]:
    """Return what puts a value into the digest without its name, as the first keys had it."""
    return lambda making: [found] if (found := value(making)) is not None else []


# In the order in which `explain` reports what differs: what people change comes first.
INGREDIENTS: Sequence[Ingredient] = (
    Ingredient(
        "compiler",
        _compiler,
        {"compiler": ("{tool} {was} -> {now}", "", "")},
        str,
        is_in_all=True,
        places=Places(2, 4, 3),
        parts=_itself(_compiler),
        locked=("builds",),
    ),
    Ingredient(
        "arch",
        _arch,
        {"arch": ("compiled for {was}, and not for {now}", "", "")},
        str,
        is_in_all=True,
        is_of_arch=True,
        places=Places(4, 6, 2),
        parts=_itself(_arch),
    ),
    Ingredient(
        "path",
        _path,
        {"path": ("compiled as {was}, and not as {now}", "", "")},
        str,
        is_in_all=True,
        places=Places(_CORE, 2, None),  # a result that is linked does not have the module's name
        parts=_itself(_path),
        settings={"source": lambda module: module.source.path},
    ),
    Ingredient(
        "source",
        _source,
        {"source": ("{path} was edited", "", "")},
        str,
        is_in_all=True,
        places=Places(_CORE, 3, None),  # the keys of its objects are in *linked*
        parts=lambda making: [making.module.source.code],
        locked=("files",),
        files=materials.source_files,
    ),
    Ingredient(
        "data_model",
        lambda _making: compilers.DATA_MODEL,
        {"data_model": ("data model {was} -> {now}", "", "")},
        str,
        is_in_all=True,
        places=Places(3, 5, 4),
        parts=lambda _making: [compilers.DATA_MODEL],
        locked=("data_model",),
    ),
    Ingredient(
        "schema",
        _schema,
        {"schema": ("hatch-cubin makes its keys in another way: {was} -> {now}", "", "")},
        str,
        is_in_all=True,
        places=Places(1, 1, 1),
        parts=_itself(_schema),
    ),
    Ingredient(
        "assembled",
        _assembled,
        {"assembled": ("", "its PTX is assembled now, for {now}, which proves that it can be", "")},
        str,
        is_of_arch=True,
        places=Places(7, None, None),
        parts=lambda making: [f"assembled {found}"] if (found := _assembled(making)) else [],
    ),
    Ingredient(
        "object",
        _object,
        {
            "object": (
                "compiled to be linked with mode {was}, and now {now}",
                "compiled to be linked now, with mode {now}",
                "compiled to be linked no more",
            )
        },
        str,
        places=Places(_CORE, None, None),
    ),
    Ingredient(
        "mode",
        lambda making: _mode(making.module),
        {"mode": ("linked with mode {was}, and now {now}", "", "")},
        str,
        places=Places(None, None, 5),
        parts=_itself(lambda making: _mode(making.module)),
        settings={"mode": _mode},
    ),
    Ingredient(
        "linked",
        _linked,
        {
            "linked": (
                "{name} is not what it was",
                "{name} is linked now",
                "{name} is not linked any more",
            ),
            "linked order": ("the order of what is linked: {was} -> {now}", "", ""),
        },
        list,
        places=Places(None, None, 6),
        parts=lambda making: _linked(making) or [],
        settings={
            "link": lambda module: [*module.link.files] if module.link else None,
            "sources": lambda module: module.link.sources if module.link else None,
        },
        files=materials.linked_files,
        others=materials.linked_wheels,
    ),
    Ingredient(
        "headers",
        lambda making: making.closure.summary(),
        {
            "header": ("{name} was edited", "{name} is included now", "{name} is not included any more"),
        },
        dict,
        is_in_all=True,
        places=Places(5, None, None),
        parts=lambda making: [making.closure.digest()],
        locked=("files", "headers"),
        files=materials.header_files,
        others=materials.header_trees,
    ),
    Ingredient(
        "define",
        _define,
        {
            "macro": (
                "macro {name}: {was} -> {now}",
                "macro {name}={now} is new",
                "macro {name}={was} is gone",
            ),
            "macro order": ("the order of the macros: {was} -> {now}", "", ""),
        },
        list,
        is_in_all=True,
        places=Places(_CORE, None, None),  # the keys of objects are in *linked*
        settings={"define": lambda module: [f"{name}={value}" for name, value in module.macros]},
    ),
    Ingredient(
        "options",
        _options,
        {
            "option": (
                "option {name}: {was} -> {now}",
                "option {name}={now} is new",
                "option {name}={was} is gone",
            )
        },
        dict,
        is_in_all=True,
        places=Places(_CORE, 7, 8),
        parts=_flags,
        settings={"options": lambda module: module.plain_options},
    ),
    Ingredient(
        "instantiate",
        lambda making: [*making.module.instantiate],
        {"instantiation": ("", "{name} is instantiated now", "{name} is not instantiated any more")},
        list,
        is_in_all=True,
        places=Places(_CORE, None, 7),
        parts=lambda making: ["names", *making.module.instantiate],
        settings={"instantiate": lambda module: [*module.instantiate]},
    ),
    Ingredient(
        "search",
        _search,
        {
            "search": ("", "the search path has {name} now", "the search path has {name} no more"),
            "search order": ("the order of the search path: {was} -> {now}", "", ""),
        },
        list,
        is_in_all=True,
        places=Places(None, None, None),  # the digest of *headers* has it
        settings={"include-dirs": lambda module: [*module.include_dirs]},
    ),
    Ingredient(
        "builds",
        _builds,
        {
            "headers": (
                "headers come from {now}, and came from {was}",
                "headers from {now} are included now",
                "headers from {was} are not included any more",
            ),
        },
        dict,
        is_in_all=True,
        places=Places(None, None, None),  # only the names by which people know the trees of headers
    ),
    Ingredient(
        "trees",
        lambda making: sorted(making.closure.trees),
        {
            "tree": (
                "there are other releases of {name}",
                "any header from {name} may be meant now",
                "no more may any header from {name} be meant",
            )
        },
        list,
        is_in_all=True,
        places=Places(None, None, None),  # the digest of *headers* has them
    ),
    Ingredient(
        "implicit",
        _implicit,
        {"implicit": ("", "hatch-cubin adds {name!r} now", "hatch-cubin adds {name!r} no more")},
        list,
        is_in_all=True,
        places=Places(6, None, None),
        parts=_implicit,
    ),
    Ingredient(
        "cuda_core",
        lambda making: making.toolkit.core,
        {"cuda_core": ("cuda-core {was} -> {now}, which makes other keys", "", "")},
        str,
        is_in_all=True,
        places=Places(_CORE, None, None),
        locked=("builds",),
    ),
)


def _in_order(tool: str) -> list[Ingredient]:
    """Return the ingredients that are in the digest of a tool's keys, in their order."""
    placed = [(place, each) for each in INGREDIENTS if (place := getattr(each.places, tool))]
    return [each for _place, each in sorted(placed, key=operator.itemgetter(0))]


_DIGESTED = {tool: _in_order(tool) for tool in (NVRTC, PTXAS, NVJITLINK)}


def inputs_of(making: Making, *, of_arch: bool = True) -> dict[str, Any]:
    """Return a unit's ingredients by name, as records and people have them.

    Without *of_arch* they are those that all units of the module share.
    """
    found = ((each.name, each.value(making)) for each in INGREDIENTS if of_arch or not each.is_of_arch)
    return {name: value for name, value in found if value is not None}


def digested(making: Making) -> list[str | bytes]:
    """Return what a unit's key is a digest of, beside what cuda.core's part of the key has."""
    return [part for each in _DIGESTED[making.tool] for part in each.of(making)]


def keys_of(making: Making) -> Keys:
    """Return the keys of a unit."""
    unit, toolkit, closure, _linked = making
    whole = digest(digested(making))
    if making.tool != NVRTC:  # for PTX, cuda.core would have nvJitLink make other code
        return Keys(bytes.fromhex(whole), None)
    toolkit.load()
    try:
        key = core_key(unit, whole)
    except (TypeError, ValueError) as exc:
        raise ConfigError(problem("no-cache-key", f"cuda.core makes no key for {unit.name}: {exc}")) from exc
    if closure.includes or making.module.instantiate or making.module.part_of:
        return Keys(key, None)
    try:
        return Keys(key, core_key(unit))
    except (TypeError, ValueError):  # cuda.core refuses what its key cannot see
        return Keys(key, None)


def settings_of(module: Module) -> dict[str, Any]:
    """Return what the project says of a module, as far as its results depend on that: the lock has it."""
    found = ((name, get(module)) for each in INGREDIENTS for name, get in each.settings.items())
    return {name: value for name, value in found if value not in (None, [], {})}
