"""Report modules that have the same name, and suggest tables that give each module a different name."""

from __future__ import annotations

import glob
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ..common.sizes import count
from ..config.config import Config
from ..config.toml_lines import setting, source_table
from ..errors import Location, Problem, problem
from ..planning.unit_plan import Module, module_name_from
from ..project.directives import has_quoted_include
from ..project.source import Source, glob_regex, may_have_kernel

_BY_FOLDER, _AS_PTX = "{parent}_{stem}", "{stem}_ptx"


def name_problems(modules: Sequence[Module], config: Config) -> list[Problem]:
    """Return a problem for each module whose name equals another module's name if case is ignored."""
    by_name: dict[str, dict[Location, Module]] = defaultdict(dict)
    for module in modules:
        maker = module.where or Location(module.source.name_path)
        by_name[module.base.casefold()].setdefault(maker, module)
    shared = [[*same.values()] for same in by_name.values() if len(same) > 1]
    if shared:
        return (
            [*_needless_sources(shared, config)]
            or [*_compiled_copies(shared, modules, config)]
            or [*_taken_names(shared, modules, config)]
        )
    by_full_name = Counter(module.full_name for module in modules)
    return [
        problem(
            "module-name-taken",
            f"two modules have the name {module.name!r}",
            module.location,
            "change the producer, so that it gives one of the two sources another name"
            if module.source.produced
            else None,
        )
        for module in modules
        if by_full_name[module.full_name] > 1
    ]


def _needless_sources(shared: Sequence[Sequence[Module]], config: Config) -> Iterator[Problem]:
    """Yield a problem for each source without kernels that has the same name as another source.

    The hint suggests excluding the source without kernels, so that only one source has the module name.
    """
    alone = [same for same in shared if not any(module.link for module in same)]
    needless = [module for same in alone for module in same if _makes_no_kernel(module)]
    needless.sort(key=lambda module: module.source.path)
    paths = [*config.exclude, *(each.source.path for each in needless if not each.source.produced)]
    for module in needless:
        what = f"this source without kernels has the same module name as another source: {module.base!r}"
        made = module.source.produced
        hint = made.leave_out if made else setting("exclude", paths)
        yield problem("module-name-taken", what, module.location, hint)


def _makes_no_kernel(module: Module) -> bool:
    if module.instantiate or not module.source.is_cpp:
        return False
    text = module.source.text
    return not may_have_kernel(text) and not has_quoted_include(text)


def _compiled_copies(
    shared: Sequence[Sequence[Module]], modules: Sequence[Module], config: Config
) -> Iterator[Problem]:
    """Yield a problem for each file with PTX or Tile IR that has the name of a .cu file in the same folder.

    Such a file is probably compiled from the .cu file. The hint suggests excluding the compiled file.
    """
    alone = [[module for module in same if not module.link] for same in shared]
    copies = {
        module: original
        for same in alone
        for original in same
        for module in same
        if original.source.is_cpp and _may_be_compiled_from(original.source, module.source)
    }
    excluded = [*config.exclude, *sorted(module.source.path for module in copies)]
    how = config.place.how_to_set("exclude", setting("exclude", excluded))
    renaming = _renaming(shared, modules, config)
    hint = f"if this file was compiled from the .cu file beside it, {how}; otherwise {renaming}"
    for module, original in copies.items():
        yield _taken(module, original, hint)


def without_compiled_copies(modules: Sequence[Module], problems: Iterable[Problem]) -> list[Module]:
    """Leave out modules of PTX or Tile IR that are in *problems*, because users will exclude most of them."""
    taken = {each.where for each in problems if each.code == "module-name-taken"}
    return [module for module in modules if module.source.is_cpp or module.location not in taken]


def _may_be_compiled_from(original: Source, source: Source) -> bool:
    if source.is_cpp or source.produced:
        return False
    return PurePosixPath(source.path).with_suffix("") == PurePosixPath(original.name_path).with_suffix("")


def _taken_names(
    shared: Sequence[Sequence[Module]], modules: Sequence[Module], config: Config
) -> Iterator[Problem]:
    hint = _renaming(shared, modules, config)
    for first, *others in shared:
        for module in others:
            yield _taken(module, first, "give one of the two modules another name" if module.link else hint)


def _taken(module: Module, by: Module, hint: str) -> Problem:
    what = f"the module name {module.base!r} is already used by {by.location}"
    return problem("module-name-taken", what, module.location, hint)


def _renaming(shared: Sequence[Sequence[Module]], modules: Sequence[Module], config: Config) -> str:
    tables, names = config.place.source_tables, _suggested_tables(shared, modules, config)
    lines = "".join(source_table(tables, path, name=name) for path, name in names.items())
    rules = [glob_regex(path) for path in names]
    colliding = {module.source.name_path for same in shared for module in same}
    others = {module.source.name_path for module in modules if not module.link} - colliding
    if also := sum(any(rule.fullmatch(path) for rule in rules) for path in others):
        return (
            "add these lines at the end of the table, so that each source has a different name; "
            f"they also rename {count(also, 'other module')}:{lines}"
        )
    return f"add these lines at the end of the table, so that each source has a different name:{lines}"


def _suggested_tables(
    shared: Sequence[Sequence[Module]], modules: Sequence[Module], config: Config
) -> Mapping[str, str]:
    """Suggest the fewest [[source]] tables, as a mapping from each table's `path` to its `name`."""
    sources = [module for module in modules if not module.link]
    colliding = [module.source for same in shared for module in same if not module.link]
    stems = {PurePosixPath(source.path).stem for source in colliding}
    every = f"**/{glob.escape(stems.pop())}.*" if len(stems) == 1 else "**/*"
    ptx = f"{every.removesuffix('.*')}.ptx"
    linked = [module.base for module in modules if module.link]
    for tables in ({ptx: _AS_PTX}, {every: _BY_FOLDER}, {every: _BY_FOLDER, ptx: f"{{parent}}_{_AS_PTX}"}):
        if _give_distinct_names(tables, sources, linked, config):
            return tables
    return {module.source.path: "…" for _first, *others in shared for module in others if not module.link}


def _give_distinct_names(
    tables: Mapping[str, str], sources: Sequence[Module], linked: Sequence[str], config: Config
) -> bool:
    """Return whether *tables* would give all sources different names and change no name in the settings."""
    named = [glob_regex(rule.path) for rule in config.source if rule.name is not None]
    matching = [(glob_regex(path), pattern) for path, pattern in tables.items()]
    names = {name.casefold(): "" for name in linked}
    for path, base in {module.source.name_path: module.base for module in sources}.items():
        patterns = [pattern for regex, pattern in matching if regex.fullmatch(path)]
        if patterns and any(regex.fullmatch(path) for regex in named):
            return False
        name = (module_name_from(patterns[-1], path) if patterns else base).casefold()
        if names.setdefault(name, path) != path:
            return False
    return True
