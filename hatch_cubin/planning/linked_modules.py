"""Plan the modules that are linked from several sources, and the objects that are compiled for them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..config.config import Config, ModuleRule
from ..errors import ConfigError, Location, problem
from ..project.source import Source, glob_regex
from ..project.tile_kernels import kernel_kinds
from . import unit_plan
from .unit_plan import NONE_ABSENT, AbsentSources, LinkRecipe, Module, TargetsBySpecs

# Keys of a [[source]] table that must not be set for a source of a linked module.
_OF_MODULES = ("name", "archs", "variants", "front")
# The compiler option for the objects of a linked module, by the module's `mode`.
OPTION_OF_MODE: Mapping[str, str] = {
    "lto": "link_time_optimization",
    "rdc": "relocatable_device_code",
}


def plan_modules(
    config: Config,
    sources: Sequence[Source],
    members: Sequence[Sequence[str]],
    expand_targets: TargetsBySpecs,
    *,
    absent: AbsentSources = NONE_ABSENT,
) -> list[Module]:
    """Return all modules and the objects of linked modules, sorted by name; modules may share a name.

    *members* contains the paths of the sources that each [[module]] table lists. The sources in a [[module]]
    table are linked, and do not become separate modules. *absent* describes sources that are excluded or
    not known yet. Modules whose sources are not known yet are left out.
    """
    linked_paths = {path for paths in members for path in paths}
    alone = [source for source in sources if source.path not in linked_paths]
    parts = [source for source in sources if source.path in linked_paths]
    modules = unit_plan.plan_modules(config, alone, expand_targets, parts, absent=absent)
    if any(module.front for module in modules):
        from .equal_calls import merge_equal_calls  # lazy import: few projects have such modules

        modules = merge_equal_calls(modules)
    if not config.module:
        return modules
    _refuse_settings(config, parts)
    _refuse_macros_of_variants(config, members)
    linked = _LinkedModules(config, {source.path: source for source in parts}, expand_targets)
    for number, paths in enumerate(members):
        if paths or not absent.will_follow:
            modules += linked.modules(number, paths)
    return sorted([*modules, *linked.objects.values()], key=lambda module: module.name)


def _refuse_settings(config: Config, parts: Sequence[Source]) -> None:
    """Raise ConfigError if a [[source]] table for a linked source sets a key that is only for modules."""
    problems = [
        problem(
            "key-in-wrong-table",
            f"{written!r} is a key for modules, but {source.path} is only a part of a linked module",
            config.place.of("source", index, written),
            f"set it in {config.place.tables('module')}" if key in {"archs", "variants"} else None,
        )
        for index, rule in enumerate(config.source)
        for key in _OF_MODULES
        for written in ("as" if key == "front" else key,)
        if getattr(rule, key)
        for source in parts
        if glob_regex(rule.path).fullmatch(source.path_for_globs)
    ]
    problems += [
        problem(
            "key-in-wrong-table",
            "is linked into a module, so the source's name cannot contain an arch or a variant, "
            "and the source cannot have its own 'name', 'as', 'archs' or 'variants'",
            Location(source.path),
            f"change the name and the settings that {source.produced.producer} returns for this source",
        )
        for source in parts
        if source.produced
        and (source.variant or any(getattr(source.produced.rule, key) for key in _OF_MODULES))
    ]
    problems += [
        problem(
            "tile-kernels-linked",
            "has tile kernels, which cannot be linked",
            Location(source.path),
            f"leave the source out of 'sources' in {config.place.tables('module')}",
        )
        for source in parts
        if kernel_kinds(source).tile
    ]
    if problems:
        raise ConfigError(*problems)


def _refuse_macros_of_variants(config: Config, members: Sequence[Sequence[str]]) -> None:
    """Raise ConfigError if a [[source]] table defines a macro that is in the `variants` of a module."""
    problems = [
        problem(
            "identical-variants",
            f"define.{name} would give {name} the same value in all variants of module {module.name!r}",
            config.place.of("source", index, "define", name),
            f"remove {name} from 'define' of this source, or from 'variants' of the module",
        )
        for module, paths in zip(config.module, members, strict=True)
        for index, rule in enumerate(config.source)
        for name in dict(module.variants)
        if name in dict(rule.define) or name in rule.undefined
        # the name of a linked source cannot contain a variant
        if any(map(glob_regex(rule.path).fullmatch, paths))
    ]
    if problems:
        raise ConfigError(*problems)


class _LinkedModules:
    """Makes a module from each [[module]] table. Modules that need equal objects share one object."""

    def __init__(self, config: Config, sources: Mapping[str, Source], expand_targets: TargetsBySpecs) -> None:
        self._config, self._sources, self._expand = config, sources, expand_targets
        self.objects: dict[object, Module] = {}

    def modules(self, number: int, paths: Sequence[str]) -> Iterator[Module]:
        """Yield all variants of the module in the [[module]] table with the index *number*."""
        config, rule = self._config, self._config.module[number]
        place, where = config.place, config.place.of("module", number, "name")
        sources = [self._sources[path] for path in paths if path in self._sources]
        own_archs = () if "archs" in config.replaced else config.archs
        written = dict(unit_plan.locations_in_table(place, (), own_archs, config.options))
        written |= dict(
            unit_plan.locations_in_table(place, ("module", number), rule.archs or (), rule.options)
        )
        first = next((source for source in sources if not source.is_ptx), sources[0])
        whole = Module(
            rule.name,
            first,
            targets=self._expand[rule.archs or config.archs],
            setting_lines=written,
            source_table_header=place.tables("module"),
            where=where,
        )
        whole = whole.merged_with(config).merged_with(rule)
        for variant, undefined in unit_plan.variant_combinations(dict(rule.variants), where):
            of_variant = replace(whole, variant=variant, undefined=undefined)
            parts = tuple(
                source if source.is_ptx else self._object(of_variant, source, rule) for source in sources
            )
            link = LinkRecipe(rule.mode, parts, rule.link)
            names = dict.fromkeys(name for each in link.objects for name in each.instantiate)
            yield replace(of_variant, link=link, instantiate=tuple(names))

    def _object(self, whole: Module, source: Source, rule: ModuleRule) -> Module:
        """Return the object file that is made from *source*, one of the sources of the linked module *whole*.

        The result has the settings of *whole*, and of the [[source]] tables that match the source.
        """
        path = source.path_for_globs
        matching = [
            index for index, each in enumerate(self._config.source) if glob_regex(each.path).fullmatch(path)
        ]
        rules = unit_plan.rules_of_source(self._config, source, matching)
        merged = functools.reduce(Module.merged_with, rules, whole)
        unit_plan.check_instantiations(merged.instantiate, source)
        found = replace(
            merged,
            base=f"{whole.base}/{source.path}",
            source=source,
            options={**merged.options, OPTION_OF_MODE[rule.mode]: True},
            targets=(),
            part_of=whole.base,
            where=None,
        )
        return self.objects.setdefault(_without_names(found), found)


def _without_names(module: Module) -> str:
    """Return a text with all settings of a module that can change its object's code.

    If the texts of two modules are equal, their objects are equal.
    """
    return repr(
        replace(
            module,
            base="",
            source=Source(module.source.path, ""),
            variant=(),
            define=module.macros,
            options=dict(sorted(module.options.items())),
            undefined=(),
            setting_lines={},
            source_table_header="",
            part_of="",
        )
    )


def location_of_file(config: Config, module: Module, index: int) -> Location:
    """Return the line of pyproject.toml that names a file in the array `link` of a module.

    *index* is the file's position in the array.
    """
    number = next(number for number, rule in enumerate(config.module) if rule.name == module.base)
    return config.place.of("module", number, "link", index)
