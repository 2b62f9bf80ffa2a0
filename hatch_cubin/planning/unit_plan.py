"""Decide which units (modules, each for one arch) to compile, and name their results."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ..common import arch_names
from ..common.arch_names import Arch, Target
from ..common.capabilities import FAMILIES_SINCE, FIRST_A, GPUS, TILE_SINCE, Gpu, Release
from ..common.digest import digest
from ..config.config import CompileSettings, Config, Macros, SourceRule, TableLocation, merge_macros
from ..config.nvrtc_options import OF_PTX, OF_TILE_IR
from ..config.value_checks import MAX_VARIANTS
from ..errors import ConfigError, HatchCubinError, Location, Problem, SourceError, problem
from ..project.source import SUFFIXES, Source, glob_regex, is_glob
from ..project.tile_kernels import KernelKinds, kernel_kinds

_WINDOWS_DEVICES = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]", re.IGNORECASE)

# Maps each list of archs in pyproject.toml to the targets (the archs to compile for).
TargetsBySpecs = Mapping[tuple[str, ...], tuple[Target, ...]]

_PLAIN_FILE_PART = re.compile(r"[A-Za-z0-9_-]{1,80}")
# The fields of [[source]] tables that cannot change the text, the macros and the options of a library's call.
_HARMLESS_TO_CALLS = {"path", "name", "archs", "include_dirs", "instantiate", "front", "call_options"}
_PYTHON_FILE = (
    "this file is Python, but a source is a file with CUDA C++: put the text of the call into a .cu file, "
    "return it from a producer, or record the call (docs/guides/from-rawmodule.md)"
)
_NOT_SELECTED = "the file exists, but is not a source: add it to 'sources'"
_IS_PTX, _IS_TILE_IR = operator.attrgetter("is_ptx"), operator.attrgetter("is_tile_ir")
_PTX_NEEDS_LTO_IR = "the linker makes PTX only from LTO-IR, that is, with mode = 'lto' and only .cu sources"


class LinkRecipe(NamedTuple):
    """The inputs of a module's link: first the compiled sources (objects and PTX), then other files."""

    mode: str
    parts: tuple[Module | Source, ...]
    files: tuple[str, ...]  # the entries of `link`, as they are written in pyproject.toml

    @property
    def objects(self) -> tuple[Module, ...]:
        """The objects that are compiled and then linked."""
        return tuple(part for part in self.parts if isinstance(part, Module))

    @property
    def sources(self) -> list[str]:
        """The paths of all sources that are linked."""
        return [part.source.path if isinstance(part, Module) else part.path for part in self.parts]

    @property
    def texts(self) -> tuple[Source, ...]:
        """The PTX sources that are linked."""
        return tuple(part for part in self.parts if isinstance(part, Source))


@dataclass(frozen=True, slots=True, eq=False)
class Module(CompileSettings):
    """A module that programs load: one source with its settings, one variant of a source, or linked sources.

    If a module is linked from several sources, each of these sources becomes an object file, which is also a
    `Module`. An object file is compiled and cached separately, like a module, but programs cannot load an
    object file.
    """

    base: str
    source: Source
    variant: Macros = ()
    targets: tuple[Target, ...] = ()
    # macros that the variant leaves undefined; the variant's name shows them with the value 0
    undefined: tuple[str, ...] = ()
    # the lines of pyproject.toml that set the module's archs and options
    setting_lines: Mapping[str, Location] = field(default_factory=dict)
    source_table_header: str = ""  # the header of a [[source]] table in this project, for hints
    link: LinkRecipe | None = None
    part_of: str = ""  # for an object, the name of the first module into which the object is linked
    where: Location | None = None  # For a linked module, the line of pyproject.toml with the module's name.
    # The library (such as CuPy) that loads this module in place of compiling; empty for other modules.
    front: str = ""
    equal: tuple[Source, ...] = ()  # Further sources with the same text and options as `source`.
    # Whether the source has tile kernels, and whether this module consists of tile kernels. A source with
    # tile kernels and other kernels becomes two modules, because these kernels cannot be in one file.
    has_tile_code: bool = False
    is_tile: bool = False

    @property
    def name(self) -> str:
        """The module's name in the API and in messages, such as `red[BLOCK=64,SCALAR=float]`."""
        return _name(self.base, self.variant)

    @property
    def short_name(self) -> str:
        """The module's name in tables.

        For a call of CuPy or cuda.core, the name is only the first digits of the call's key.
        """
        return self.name[: len(f"{self.front}:") + 12] if self.front else self.name

    @property
    def title(self) -> str:
        """The module's name in messages.

        For a call of CuPy or cuda.core, the title is the path of the call's source.
        """
        return self.source.path if self.front else self.name

    @property
    def full_name(self) -> str:
        """The module's name, followed by the arch if the source is only for this arch."""
        return f"{self.name}.{self.source.arch}" if self.source.arch else self.name

    @property
    def location(self) -> Location:
        """The location for messages: the module's source file, or the [[module]] table of a linked module."""
        return self.where or Location(self.source.path)

    @property
    def file_stem(self) -> str:
        """The module's name in file names, such as `red.BLOCK-64.SCALAR-float`.

        A part of the name, such as `BLOCK-64`, is replaced by a hash if the part contains unusual characters.
        """
        return file_stem(self.base, self.variant)

    @property
    def sources(self) -> list[str]:
        """The paths of all sources of the module."""
        return self.link.sources if self.link else [each.path for each in (self.source, *self.equal)]

    @property
    def macros(self) -> Macros:
        """All macros that the module is compiled with: macros from pyproject.toml, and macros of the variant.

        If a Python function returned a separate text for each variant, the variant's macros are left out.
        """
        return merge_macros(self.define, () if self.source.variant else self.variant, self.undefined)

    @property
    def pre_includes(self) -> tuple[str, ...]:
        """The headers that the option `pre_include` includes before the source."""
        return self._texts("pre_include")

    @property
    def ptxas_options(self) -> tuple[str, ...]:
        """The values of the option `ptxas_options`."""
        return self._texts("ptxas_options")

    def _texts(self, option: str) -> tuple[str, ...]:
        wanted = self.options.get(option, ())
        return (wanted,) if isinstance(wanted, str) else tuple(map(str, wanted))  # type: ignore[arg-type]

    @property
    def plain_options(self) -> dict[str, Any]:
        """The compiler options, with lists in place of tuples, as cuda.core and JSON need them."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in self.options.items()
        }


class Unit(NamedTuple):
    """A unit of a build: one module for one arch, which is compiled to one file.

    A build compiles and caches each unit separately.
    """

    module: Module
    arch: Arch

    @property
    def name(self) -> str:
        return f"{self.module.title} for {self.arch}"

    @property
    def suffix(self) -> str:
        """The end of the file name of this module for this arch, such as `.sm_90.cubin`."""
        return f".{self.arch}.{'ptx' if self.arch.is_ptx else 'cubin'}"


class UnitPlan(NamedTuple):
    """The units to build, and messages about archs that are left out.

    Each unit is one module for one arch. The units are sorted by name.
    """

    units: tuple[Unit, ...]
    notes: tuple[str, ...] = ()


class Toolchain(NamedTuple):
    """The name and version of the compiler, and the archs that it can compile for."""

    label: str
    supported: tuple[int, ...]
    families: bool
    tile: tuple[int, ...] = ()  # the capabilities that tileiras can compile tile kernels for


class AbsentSources(NamedTuple):
    """The sources that a plan does not contain, because they are excluded or not known yet."""

    will_follow: bool = False  # whether producers will return more sources
    excluded: Sequence[str] = ()  # the paths that 'exclude' removes from the sources


NONE_ABSENT = AbsentSources()


def plan_modules(
    config: Config,
    sources: Sequence[Source],
    expand_targets: TargetsBySpecs,
    others: Sequence[Source] = (),
    *,
    absent: AbsentSources = NONE_ABSENT,
) -> list[Module]:
    """Return the modules of all sources and variants, sorted by name; modules may share a name.

    *others* are the sources of linked modules. It is not an error if a [[source]] table matches only sources
    of linked modules. Raise ConfigError if a [[source]] table matches no source. Also raise ConfigError if a
    table for a PTX source sets a key that is only for C++ sources. *absent* describes sources that are
    excluded or not known yet. If more sources will follow, a [[source]] table that matches no source is not
    an error.
    """
    own_archs = () if "archs" in config.replaced else config.archs
    tables = config.place.source_tables
    written = dict(locations_in_table(config.place, (), own_archs, config.options))
    written_in = [
        dict(locations_in_table(config.place, ("source", index), rule.archs or (), rule.options))
        for index, rule in enumerate(config.source)
    ]
    every = (*sources, *others)
    paths = [source.path_for_globs for source in every]
    matching = rule_matcher(config)
    rules_of = {source.path: matching(source.path_for_globs) for source in every}
    matched = {index for indexes in rules_of.values() for index in indexes}
    problems = [
        problem(
            "pattern-matches-nothing",
            f"path {rule.path!r} does not match any source",
            config.place.of("source", index, "path"),
            _why_nothing_matches(config, rule.path, paths, absent.excluded),
        )
        for index, rule in enumerate(config.source)
        if not absent.will_follow and index not in matched
    ]
    no_cpp = [(index, source) for source in sources if not source.is_cpp for index in rules_of[source.path]]
    problems += [
        problem(
            "cpp-setting-for-ptx",
            f"path {rule.path!r} matches {source.path}, which does not have templates or macros",
            config.place.of("source", index, "path"),
            "'instantiate' and 'variants' are for .cu sources",
        )
        for index, source in sorted(no_cpp, key=operator.itemgetter(0))
        if (rule := config.source[index]).instantiate or rule.variants
    ]
    problems += [
        problem(
            "cpp-setting-for-ptx",
            "only CUDA C++ has templates and macros",
            Location(source.path),
            (
                f"remove 'instantiate' and 'variants' from the settings of this source in "
                f"{source.produced.producer}"
            ),
        )
        for source in sources
        if not source.is_cpp
        and source.produced
        and (source.produced.rule.instantiate or source.produced.rule.variants)
    ]
    problems += _settings_without_effect(config, rules_of, every) if not absent.will_follow else ()
    if problems:
        raise ConfigError(*problems)
    modules = []
    for source in sources:
        own = rules_of[source.path]
        tables_of_source = (*map(written_in.__getitem__, own), _set_by_producer(source))
        places = functools.reduce(operator.or_, tables_of_source, written)
        rules = rules_of_source(config, source, own)
        made = _modules_of(config, source, rules, expand_targets)
        modules += [replace(module, setting_lines=places, source_table_header=tables) for module in made]
    return sorted(_without_archs_of_pieces(modules), key=lambda module: module.name)


def _without_archs_of_pieces(modules: Sequence[Module]) -> list[Module]:
    """Return the modules, each without the archs for which a producer returned a separate text."""
    own = {(module.name, module.source.arch) for module in modules if module.source.arch}
    if not own:
        return [*modules]
    return [
        module
        if module.source.arch
        else replace(
            module,
            targets=tuple(each for each in module.targets if (module.name, str(each.arch)) not in own),
        )
        for module in modules
    ]


def _matching(patterns: Sequence[str]) -> Callable[[str], list[int]]:
    """Return a function that takes a path and returns the indexes of the *patterns* that match the path.

    Patterns without wildcards are looked up in a dict, because a project may have a pattern for each source.
    """
    globs: list[tuple[int, re.Pattern[str]]] = []
    plain: dict[str, list[int]] = defaultdict(list)
    for number, pattern in enumerate(patterns):
        if is_glob(pattern):
            globs.append((number, glob_regex(pattern)))
        else:
            plain[pattern].append(number)

    def matching(path: str) -> list[int]:
        found = (number for number, regex in globs if regex.fullmatch(path))
        return sorted((*plain.get(path, ()), *found))

    return matching


def _settings_without_effect(
    config: Config, rules_of: Mapping[str, Sequence[int]], sources: Sequence[Source]
) -> Iterator[Problem]:
    """Yield a problem for each setting for C++ in a table that matches only sources in PTX or Tile IR."""
    is_for_cpp = {index for source in sources if source.is_cpp for index in rules_of[source.path]}
    tables: list[tuple[tuple[str | int, ...], Config | SourceRule]] = [
        (("source", index), rule)
        for index, rule in enumerate(config.source)
        if index not in is_for_cpp
        and not rule.front
        and any(index in rules_of[source.path] for source in sources)
    ]
    if sources and not any(source.is_cpp for source in sources):
        tables = [((), config), *tables]
    for table, rule in tables:
        matched = [source for source in sources if not table or table[1] in rules_of[source.path]]
        has_ptx, has_tile_ir = (any(map(test, matched)) for test in (_IS_PTX, _IS_TILE_IR))
        kind = " and ".join(["PTX"] * has_ptx + ["Tile IR"] * has_tile_ir)
        hint = f"remove the setting, or pass it to the compiler that writes the {kind}"
        for key, value in (("define", rule.define), ("include-dirs", rule.include_dirs)):
            if value:
                what = f"{key!r} is set only for {kind} sources, but {kind} does not have macros or headers"
                yield problem("cpp-setting-for-ptx", what, config.place.of(*table, key), hint)
        known = (OF_PTX if has_ptx else frozenset()) | (OF_TILE_IR if has_tile_ir else frozenset())
        for name in (name for name in rule.options if name not in known):
            spelled, where = option_location(config.place, table, name)
            tool = " and ".join(["ptxas"] * has_ptx + ["tileiras"] * has_tile_ir)
            what = (
                f"the option {spelled!r} is set only for {kind} sources, but {tool} does not have this option"
            )
            yield problem("option-without-effect", what, where, hint)


def _set_by_producer(source: Source) -> dict[str, Location]:
    """Return the archs and the options that a producer sets for a source, each with the source's path."""
    if source.produced is None:
        return {}
    parsed = map(arch_names.parse_spec, source.produced.rule.archs or ())
    archs = (str(arch) for each in parsed if not isinstance(each, str) for arch in each)
    return dict.fromkeys((*archs, *source.produced.rule.options), Location(source.path))


def option_location(place: TableLocation, table: tuple[str | int, ...], name: str) -> tuple[str, Location]:
    """Return the name of an option as it is spelled in pyproject.toml, and the option's line."""
    spelled = name if place.has(*table, "options", name) else name.replace("_", "-")
    return spelled, place.of(*table, "options", spelled)


def locations_in_table(
    place: TableLocation, table: tuple[str | int, ...], specs: Sequence[str], options: Iterable[str]
) -> Iterator[tuple[str, Location]]:
    """Yield each arch and each option that pyproject.toml sets in one table, with its line in the file."""
    for index, spec in enumerate(specs):
        archs = arch_names.parse_spec(spec)
        for arch in () if isinstance(archs, str) else archs:
            yield str(arch), place.of(*table, "archs", index)
    for name in options:
        yield name, option_location(place, table, name)[1]


def rule_matcher(config: Config) -> Callable[[str], list[int]]:
    """Return a function that returns the indexes of the [[source]] tables that match a given path."""
    return _matching([rule.path for rule in config.source])


def rules_of_source(
    config: Config, source: Source, matching: Iterable[int] | None = None
) -> list[SourceRule]:
    """Return the settings for a source: those of the matching [[source]] tables, then those of a producer.

    *matching* contains the indexes of the matching [[source]] tables, if the caller knows them.
    """
    if matching is None:
        matching = rule_matcher(config)(source.path_for_globs)
    rules = [config.source[index] for index in matching]
    return rules if source.own_rule is None else [*rules, source.own_rule]


def call_of(rules: Iterable[SourceRule]) -> SourceRule | None:
    """Return a call's settings if a source is compiled for the call (of CuPy or cuda.core), else None."""
    return next((rule for rule in reversed([*rules]) if rule.front), None)


def call_key(call: SourceRule, source: Source) -> str:
    """Return the key by which a call of CuPy or cuda.core finds its compiled module at run time."""
    from ..loader._text_key import text_key  # lazy import: few projects have such sources

    return source.locked_key or text_key(call.front, call.call_options, source.text)


def _modules_of(
    config: Config,
    source: Source,
    rules: Sequence[SourceRule],
    expand_targets: TargetsBySpecs,
) -> list[Module]:
    if (call := call_of(rules)) is not None:
        return [_module_of_call(config, source, rules, call, expand_targets)]
    base, archs = source.stem, config.archs
    variants: dict[str, tuple[str | None, ...]] = {}
    whole = Module(base, source).merged_with(config)
    for rule in rules:  # if several tables match, the last table takes precedence
        base = base if rule.name is None else module_name_from(rule.name, source.name_path)
        archs = rule.archs or archs
        whole = whole.merged_with(rule)
        defined = {*dict(rule.define), *rule.undefined}
        variants = {name: values for name, values in variants.items() if name not in defined}
        variants |= dict(rule.variants)
    where = Location(source.path)
    if source.variant and variants:
        what = "the name of this source contains a variant, so 'variants' cannot add more variants"
        hint = "remove 'variants', or let the producer return one text without '[…]' in its name"
        raise ConfigError(problem("variants-of-one-variant", what, where, hint))
    combinations = [(source.variant, ())] if source.variant else variant_combinations(variants, where)
    check_instantiations(whole.instantiate, source)
    whole = replace(whole, base=base, targets=expand_targets[archs])
    return [
        replace(module, variant=variant, undefined=undefined)
        for variant, undefined in combinations
        for module in _by_kind(whole, kernel_kinds(source))
    ]


def _by_kind(module: Module, kinds: KernelKinds) -> Iterator[Module]:
    """Yield a module for the kernels of a source, or two modules if the source also has tile kernels."""
    if not kinds.tile:
        yield module
        return
    module = replace(module, has_tile_code=True)
    names = [(name, kinds.is_tile(name)) for name in module.instantiate]
    of_kind = {kind: tuple(name for name, is_tile in names if is_tile == kind) for kind in (False, True)}
    if kinds.other:
        yield replace(module, instantiate=of_kind[False])
    base = f"{module.base}_tile" if kinds.other else module.base
    yield replace(module, base=base, is_tile=True, instantiate=of_kind[True])


def _module_of_call(
    config: Config,
    source: Source,
    rules: Sequence[SourceRule],
    call: SourceRule,
    expand_targets: TargetsBySpecs,
) -> Module:
    """Return the module of a source that is compiled for a *call* of a library such as CuPy.

    The options come only from [[source]] tables that have the key `as`, and whose `path` matches the source.
    """
    _refuse_other_settings(config, source, rules)
    archs, whole = config.archs, Module(f"{call.front}:{call_key(call, source)}", source, front=call.front)
    for rule in rules:
        archs, whole = rule.archs or archs, whole.merged_with(rule)
    check_instantiations(whole.instantiate, source)
    return replace(whole, define=call.define, options=call.options, targets=expand_targets[archs])


def _refuse_other_settings(config: Config, source: Source, rules: Sequence[SourceRule]) -> None:
    """Raise ConfigError if the source of a library's call is PTX, or if other tables change its settings.

    If a [[source]] table has the key `as`, the package gives the source's text to CuPy or cuda.core at run
    time. CuPy and cuda.core compile the text only with the settings of the call, so the build must also use
    only the settings of the call.
    """
    problems = [
        problem(
            "setting-changes-call",
            (
                f"{key!r} would change {source.path}, but a source with 'as' must stay as it "
                f"is in the library's call"
            ),
            config.place.of("source", index, key),
            f"change 'path' of this table so that it does not match sources with 'as', such as {source.path}",
        )
        for index, rule in enumerate(config.source)
        if not rule.front and any(rule is each for each in rules)
        for key in _keys_that_change_calls(rule)
    ]
    if source.variant or source.arch:
        what = "a source with the key 'as' cannot have a variant or an arch in its name"
        problems.append(
            problem(
                "setting-changes-call", what, Location(source.path), "remove '[…]' and the arch from the name"
            )
        )
    if not source.is_cpp:
        what = "is not CUDA C++, but only CUDA C++ sources can have 'as'"
        problems.append(
            problem(
                "ptx-as-call", what, Location(source.path), "remove 'as' from the settings of this source"
            )
        )
    if problems:
        raise ConfigError(*problems)


def _keys_that_change_calls(rule: SourceRule) -> list[str]:
    """Return those keys of a [[source]] table that would change the code that CuPy or cuda.core compiles."""
    names = {
        "define" if each.name == "undefined" else each.name
        for each in fields(rule)
        if each.name not in _HARMLESS_TO_CALLS and getattr(rule, each.name)
    }
    return [name.replace("_", "-") for name in sorted(names)]


def module_name_from(pattern: str, path: str) -> str:
    """Return a module's name: *pattern* with parts of the path in place of `{parent}` and `{stem}`."""
    place = PurePosixPath(path)
    return pattern.replace("{parent}", place.parent.name).replace("{stem}", place.stem)


def check_instantiations(names: Sequence[str], source: Source) -> None:
    """Raise ConfigError if too many template instantiations are requested for a source."""
    if len(names) > MAX_VARIANTS:
        what = (
            f"'instantiate' asks for {len(names)} instantiations of this source, "
            f"but at most {MAX_VARIANTS} are allowed"
        )
        raise ConfigError(problem("too-many-instantiations", what, Location(source.path)))


def variant_combinations(
    variants: Mapping[str, tuple[str | None, ...]], where: Location
) -> Iterator[tuple[Macros, tuple[str, ...]]]:
    """Yield the macros of each variant, and the macros that the variant leaves undefined.

    Raise ConfigError if there are too many variants.
    """
    if (count := math.prod(map(len, variants.values()))) > MAX_VARIANTS:
        what = f"'variants' make {count} modules of this source, but at most {MAX_VARIANTS} are allowed"
        raise ConfigError(problem("too-many-variants", what, where))
    axes = [[(name, value) for value in values] for name, values in variants.items()]
    for chosen in itertools.product(*axes):
        variant = tuple((name, "0" if value is None else value) for name, value in chosen)
        yield variant, tuple(name for name, value in chosen if value is None)


def plan_units(modules: Iterable[Module], toolchain: Toolchain, archs_from: str | None = None) -> UnitPlan:
    """Return one unit per module and arch; a ConfigError lists every arch that cannot be built.

    *archs_from* is the name of the variable or command-line option that replaces the archs in pyproject.toml.
    """
    chosen: dict[Module, dict[Arch, None]] = {module: {} for module in modules}
    notes: list[str] = []
    problems: list[Problem] = []
    for module, archs in chosen.items():
        own = []
        for target in module.targets:
            try:
                own.append(arch_to_build(module, target, toolchain, notes))
            except HatchCubinError as exc:
                asked = module.setting_lines.get(str(target.arch))
                if asked is None and archs_from is not None:
                    problems += [_from(archs_from, target, each) for each in exc.problems]
                else:
                    problems += [each._replace(where=each.where or asked) for each in exc.problems]
        archs.update((arch, None) for arch in own if arch is not None)
        if own and not archs:
            problems.append(_no_arch_served(module, toolchain))
        for each in module.link.objects if module.link else ():
            chosen[each].update(dict.fromkeys(arch.real for arch in archs))
    if problems:
        raise ConfigError(*problems)
    units = (Unit(module, arch) for module, archs in chosen.items() for arch in archs)
    return UnitPlan(tuple(units), tuple(dict.fromkeys(notes)))


def _from(setter: str, target: Target, problem: Problem) -> Problem:
    """Return a problem that names the variable or the command-line option that requested the arch."""
    if problem.where is None:
        return problem._replace(what=f"{setter}: {problem.what}")
    return problem._replace(details=(*problem.details, f"{setter} asks for {target.arch}"))


def arch_to_build(module: Module, target: Target, toolchain: Toolchain, notes: list[str]) -> Arch | None:
    """Return the arch to build a module for; None if the module's PTX does not run on the target."""
    if module.is_tile:
        return _arch_of_tile_kernels(module, target, toolchain, notes)
    if module.link is None:
        return arch_for_source(module.source, target, toolchain, notes, module)
    return _linked_for(module, module.link, target, toolchain, notes)


def _linked_for(
    module: Module, link: LinkRecipe, target: Target, toolchain: Toolchain, notes: list[str]
) -> Arch | None:
    """Return the arch to link *module* for; None if a target from a group of archs has to be left out.

    The linker can make PTX only from LTO-IR, not from machine code or PTX.
    """
    arch = target.arch
    for text in link.texts:
        if arch_for_source(text, Target(arch.real, target.named), toolchain, notes) is None:
            return None
    if not arch_names.is_supported(arch, toolchain.supported, families=toolchain.families):
        raise ConfigError(unsupported_arch(arch, toolchain, module.targets))
    if arch.is_ptx and (link.mode == "rdc" or link.texts or link.files):
        if not target.named:
            notes.append(f"{module.base}: not built for {arch}, because {_PTX_NEEDS_LTO_IR}")
            return None
        from ..config.toml_lines import setting  # lazy import: needed only for hints

        archs = [str(each.arch) for each in module.targets if not each.arch.is_ptx]
        hint = f"in the module's table: {setting('archs', archs)}" if archs else None
        raise ConfigError(
            problem(
                "no-ptx-from-link",
                f"{module.base} cannot be linked for {arch}, because {_PTX_NEEDS_LTO_IR}",
                module.where,
                hint,
            )
        )
    return arch


def _arch_of_tile_kernels(
    module: Module, target: Target, toolchain: Toolchain, notes: list[str]
) -> Arch | None:
    """Return the arch of the code that tileiras makes for *target*.

    For compute capability 9.0 and newer, tileiras makes code only for the arch with the suffix `a`, such as
    sm_90a. Targets for PTX are left out, because the driver cannot compile tile kernels. Targets that the
    user named only by a group of archs are left out if tileiras does not know them.
    """
    path, arch = module.source.path, target.arch
    if not toolchain.tile:
        what = f"tile kernels need CUDA {_dotted(TILE_SINCE)} or newer, and this toolkit is {toolchain.label}"
        hint = f'toolkit = "{TILE_SINCE[0]}"'
        raise ConfigError(problem("toolkit-without-tile-kernels", what, Location(path), hint))
    if arch.is_ptx:
        notes.append(f"{path}: not built for {arch}, because the driver cannot compile tile kernels")
        return None
    made = tile_arch(arch.number)
    if arch.number in toolchain.tile and arch.suffix in {"", made.suffix}:
        return made
    if target.named:
        raise SourceError(_no_tile_code(module, f"tileiras cannot make code for {arch}", toolchain))
    notes.append(f"{path}: not built for {arch}, because tileiras cannot make code for {arch}")
    return None


def tile_arch(number: int) -> Arch:
    """Return the arch of the code that tileiras makes for a capability."""
    return Arch(number, "a" if number >= FIRST_A else "")


def _no_tile_code(module: Module, what: str, toolchain: Toolchain) -> Problem:
    from ..config.toml_lines import source_table  # lazy import: needed only for hints

    known = [str(Arch(number)) for number in toolchain.tile]
    asked = dict.fromkeys(str(Arch(arch.number)) for arch, _named in module.targets)
    archs = [arch for arch in asked if arch in known] or known
    pasted = source_table(module.source_table_header, module.source.path_for_globs, archs=archs)
    hint = (
        f"tileiras makes code for {' '.join(known)}; with this table, a build compiles the source only for "
        f"such archs:{pasted}"
    )
    return problem("arch-without-tile-kernels", what, Location(module.source.path), hint)


def _no_arch_served(module: Module, toolchain: Toolchain) -> Problem:
    if module.link is not None:
        return problem(
            "ptx-target-unsuitable",
            f"{module.base} cannot be linked for any of the requested archs",
            module.where,
        )
    if module.is_tile:
        return _no_tile_code(module, "none of the requested archs can have tile kernels", toolchain)
    return _cannot_serve(module.source, "none of the requested archs can run this PTX", toolchain, module)


def arch_for_source(
    source: Source, target: Target, toolchain: Toolchain, notes: list[str], module: Module | None = None
) -> Arch | None:
    """Return the arch to build *source* for; None if *source* is PTX that cannot run on the target's arch.

    If the result is None, the target is left out, and a message about the target is added to *notes*. If the
    user named the target itself, and not a group of archs, the function raises an error instead of returning
    None.
    """
    arch = target.arch
    if source.is_ptx:
        header = source.ptx
        own = arch_names.parse_arch(header.target)
        if arch.is_ptx:
            return Arch(own.number, own.suffix, "compute")
        if not arch_names.can_assemble(own, arch):
            if target.named:
                raise SourceError(_cannot_serve(source, f"cannot be assembled for {arch}", toolchain, module))
            notes.append(
                f"{source.path}: not built for {arch}, which cannot run PTX with .target {header.target}"
            )
            return None
    if not arch_names.is_supported(arch, toolchain.supported, families=toolchain.families):
        raise ConfigError(unsupported_arch(arch, toolchain, module.targets if module else ()))
    return arch


def _cannot_serve(source: Source, what: str, toolchain: Toolchain, module: Module | None) -> Problem:
    from ..config.toml_lines import source_table  # lazy import: needed only for hints

    header = source.ptx
    own = arch_names.parse_arch(header.target)
    asked = module.targets if module else ()
    archs = [
        str(arch if not arch.is_ptx else own._replace(kind="compute"))
        for arch, _named in asked
        if arch.is_ptx
        or (
            arch_names.can_assemble(own, arch)
            and arch_names.is_supported(arch, toolchain.supported, families=True)
        )
    ]
    pasted = source_table(
        module.source_table_header if module else "",
        source.path_for_globs,
        archs=[*dict.fromkeys(archs)] or [header.target],
    )
    hint = f"this table selects only archs that can run this PTX:{pasted}"
    if source.arch:  # the source's file name determines the arch, so no table is suggested
        name = PurePosixPath(source.path).name.replace(f".{source.arch}.", f".{header.target}.")
        hint = f"if this PTX is for {header.target}, let the producer return it under the name {name!r}"
    can_be = arch_names.is_supported(own, toolchain.supported, families=toolchain.families)
    because = (f"because of: {header.target_text}",)
    return problem(
        "ptx-target-unsuitable",
        what,
        Location(source.path, header.target_line),
        hint if can_be else None,
        because,
    )


def _why_nothing_matches(
    config: Config, path: str, paths: Sequence[str], excluded: Sequence[str]
) -> str | None:
    """Return a hint for a [[source]] table that does not match any source."""
    anywhere = f"**/{path}"
    is_misspelled = _those_matching(anywhere, paths) and not _those_matching(path, excluded)
    if _those_matching(anywhere, excluded) and not is_misspelled:
        where = config.place.of("exclude")
        return f"'exclude' at {where} removes what this path matches: delete this table, or change 'exclude'"
    if not config.place.is_file(path):
        return _suggested_path(path, paths)
    return _PYTHON_FILE if path.endswith(".py") else _NOT_SELECTED


def _those_matching(glob: str, paths: Sequence[str]) -> list[str]:
    return [path for path in paths if glob_regex(glob).fullmatch(path)]


def _suggested_path(path: str, paths: Sequence[str]) -> str | None:
    """Return a hint with a corrected `path` for a [[source]] table whose `path` matches no source."""
    import difflib  # lazy import: needed only for hints

    from ..config.toml_lines import setting  # lazy import: needed only for hints

    anywhere = f"**/{path}"
    if found := _those_matching(anywhere, paths):
        return setting("path", found[0] if len(found) == 1 else anywhere)
    suffix = path.endswith(SUFFIXES) and PurePosixPath(path).suffix
    alike = [each for each in paths if not suffix or each.endswith(suffix)]
    named = {name: each for each in alike for name in (PurePosixPath(each).stem, PurePosixPath(each).name)}
    close = difflib.get_close_matches(PurePosixPath(path).name, named, n=1)
    if close:
        return setting("path", named[close[0]])
    return f"the sources are {', '.join(paths[:5])}{' …' * (len(paths) > 5)}" if paths else None


def unsupported_arch(arch: Arch, toolchain: Toolchain, targets: Sequence[Target] = ()) -> Problem:
    """Return the problem of an arch that the toolkit cannot compile for.

    *targets* are all targets of the module. The hint names another toolkit only if that other toolkit can
    compile for all archs of the module.
    """
    known = " ".join(f"{number}" for number in toolchain.supported)
    what = f"{toolchain.label} cannot target {arch}"
    if arch.suffix == "f" and not toolchain.families:
        since = _dotted(FAMILIES_SINCE)
        what = f"{toolchain.label} cannot target {arch}, because archs such as sm_100f need CUDA {since}"
    advice = _other_toolkit(arch, toolchain, targets)
    if against := _arch_without_common_toolkit(arch, targets):
        advice = f"no CUDA release can target both {arch} and {against}: remove one of them from 'archs'"
    can_target = f"this compiler can target {known}"
    return problem("arch-not-supported", what, hint=f"{can_target}; {advice}" if advice else can_target)


def _arch_without_common_toolkit(arch: Arch, targets: Iterable[Target]) -> Arch | None:
    """Return the first arch that no CUDA release can compile together with *arch*; None if there is none.

    Archs from a group such as "all-major" are ignored, because every toolkit replaces the group by archs that
    the toolkit can compile.
    """
    named = (target.arch for target in targets if target.named)
    return next(
        (other for other in named if _is_gone_before(arch, other) or _is_gone_before(other, arch)), None
    )


def _is_gone_before(older: Arch, newer: Arch) -> bool:
    """Return whether CUDA had dropped *older* when *newer* appeared."""
    last, since = GPUS.get(older.number, Gpu()).last, GPUS.get(newer.number, Gpu()).since
    return last is not None and since is not None and since[0] > last


def _other_toolkit(arch: Arch, toolchain: Toolchain, targets: Iterable[Target]) -> str:
    """Return advice for an unsupported arch: another CUDA version or a PTX arch; empty if neither helps."""
    gpu = GPUS.get(arch.number, Gpu())
    if gpu.last is not None:
        if gpu.renamed:
            return (
                f"CUDA {gpu.last + 1} calls this arch sm_{gpu.renamed}; "
                f'CUDA {gpu.last} can target {arch} too: toolkit = "{gpu.last}.9"'
            )
        return f'CUDA {gpu.last} can target {arch} too: toolkit = "{gpu.last}.9"'
    since = gpu.since
    if since is not None and arch.suffix == "f" and not toolchain.families:
        since = max(since, FAMILIES_SINCE)
    if since is not None and not arch_names.is_supported(
        arch, toolchain.supported, families=toolchain.families
    ):
        named = (GPUS.get(target.arch.number, Gpu()).since for target in targets if target.named)
        first = _dotted(max([since, *filter(None, named)]))
        return f'CUDA {first} can target {arch} too: toolkit = "{first}"'
    if arch.number > max(*GPUS, *toolchain.supported):
        newest = arch_names.group("all-major", toolchain.supported, ())[-1]
        return f"newer GPUs can run older PTX: use {newest} in place of {arch}"
    return ""


def _dotted(release: Release) -> str:
    return ".".join(map(str, release))


def _name(base: str, variant: Iterable[tuple[str, str]]) -> str:
    macros = ",".join(f"{name}={value}" for name, value in variant)
    return f"{base}[{macros}]" if macros else base


def file_stem(base: str, variant: Sequence[tuple[str, str]]) -> str:
    """Return the start of a module's file names, made from the module's name and its variant's macros."""
    parts = [base, *(f"{name}-{value}" for name, value in variant)]
    stem = ".".join(map(_file_part, parts))
    return stem if len(stem) <= 160 else f"{_file_part(base)}.{_short(_name(base, variant))}"


def _file_part(text: str) -> str:
    return text if _PLAIN_FILE_PART.fullmatch(text) and not _WINDOWS_DEVICES.fullmatch(text) else _short(text)


def _short(text: str) -> str:
    return digest([text])[:10]
