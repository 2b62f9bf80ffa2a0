"""Turn units into jobs: find the headers that each unit can read, then the keys it is stored under."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cache.entries import Cache, Compiled
from ..cache.records import RecalledResult, Request
from ..common import arch_names
from ..common.digest import digest
from ..config import table_location
from ..errors import Location, Problem, SourceError, problem
from ..headers.includes import Closure, Resolver
from ..headers.recalled_closures import WalkStart
from ..headers.resolve import SearchFolder
from ..headers.search_path import (
    installed_at,
    installed_by_chance,
    is_shared,
    package_roots,
    project_roots,
    toolkit_roots,
)
from ..planning import linked_modules, unit_plan
from ..planning.unit_plan import Module, Unit
from ..project.project import Project, ProjectSources
from ..project.scan import Include, can_hide_includes, include_values, line_of_include
from ..project.source import without_comments
from ..toolkit.toolkit import Keys, Toolkit
from . import shared_names
from .included_sources import drop_parts
from .ingredients import INGREDIENTS, Making, inputs_of, keys_of
from .materials import distinct, own_files, own_linked
from .recall import Recall

if TYPE_CHECKING:
    from ..project.declared_kernels import ParameterTypes
    from ..toolkit.linker import Input

# A module, its headers, and the folders that were searched for them.
ModuleWithHeaders = tuple[Module, Closure, tuple[SearchFolder, ...]]

# What the kernels of a module take, by symbol.
Declared: TypeAlias = "Callable[[], Mapping[str, ParameterTypes]]"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit ready to be looked up and, on a miss, compiled."""

    unit: Unit
    keys: Keys
    search: tuple[SearchFolder, ...]
    closure: Closure
    toolkit: Toolkit
    asked: str  # a digest of all that the results of the module depend on
    known: RecalledResult | None  # from an earlier build that asked the same
    linked: tuple[Input, ...] = ()  # what a linked unit is made of, in order
    declared: Declared = dict

    @property
    def inputs(self) -> dict[str, Any]:
        """What the unit's key is made of, under names that people know."""
        return inputs_of(Making(self.unit, self.toolkit, self.closure, self.linked))

    def found_in(self, cache: Cache) -> Compiled | None:
        """Return what the cache has of the unit; None where it has nothing that is proven."""
        return cache.get(self.keys.key, self.known, self.request)

    @property
    def request(self) -> Request:
        """What the unit needs of its result, whoever made that."""
        return request_of(self.unit)


def request_of(unit: Unit) -> Request:
    """Return what a unit needs of its result."""
    module = unit.module
    arch = unit.arch.real if module.part_of else unit.arch
    return Request(str(arch), module.instantiate, partial(_declared, module))


def _declared(module: Module) -> Collection[str]:
    """Return the symbols of kernels that every result of a module has."""
    from ..config.ptxas_options import names_kernels  # lazy: an earlier build knows most results
    from ..project.required_kernels import required_kernels

    if module.link is not None or module.pre_includes or names_kernels(module.ptxas_options):
        return ()
    return required_kernels(module.source, dict(module.macros))


def make_jobs(
    project: Project,
    sources: ProjectSources,
    toolkit: Toolkit,
    recall: Recall | None = None,
    refused: list[Problem] | None = None,
) -> list[Job]:
    """Return one job per unit of the plan, with what is known of it from an earlier build.

    Headers that cannot be read and names that modules share are added to *refused*; without it they are a
    SourceError. A module with such a header has no jobs.
    """
    recall = recall or Recall(None)
    finder = _HeaderFinder(project, toolkit, recall)
    readable, problems = _readable(every_module(project, sources, toolkit), finder)
    modules, notes = drop_parts(readable, project.tree, finder.named)
    finder.check_packages()
    if not problems:  # what cannot be read may include an empty source, which is a header then
        problems += _empty(dict.fromkeys(each.source.path for each in modules if _is_empty(each)), project)
        modules = [module for module in modules if not _is_empty(module)]
    problems += shared_names.problems([each for each in modules if not each.part_of], project.config)
    if problems and refused is None:
        raise SourceError(*problems)
    if refused is not None:
        refused += problems
    plan = unit_plan.plan_units(modules, toolkit.toolchain(), project.config.replaced.get("archs"))
    for note in (*notes, *plan.notes):
        project.inform(note)
    by_module = itertools.groupby(plan.units, key=lambda unit: unit.module)
    groups = [(module, tuple(units)) for module, units in by_module]
    jobs: dict[Module, list[Job]] = {
        module: list(_jobs_of(module, units, finder, toolkit, recall))
        for module, units in groups
        if module.link is None
    }
    if len(jobs) < len(groups):
        from .link_files import find_links  # which few builds need

        keys = {job.unit: job.keys for each in jobs.values() for job in each}
        for found in find_links(project, groups, keys, toolkit, recall):
            unit, own, asked, known, linked = found
            declared = partial(finder.declared, unit.module)
            job = Job(unit, own, (), Closure(), toolkit, asked, known, linked, declared)
            jobs.setdefault(unit.module, []).append(job)
    return [job for module, _units in groups for job in jobs[module]]


def _is_empty(module: Module) -> bool:
    """Say whether a module is of one source that has nothing but comments, and gets nothing from options."""
    alone = not (module.link or module.part_of or module.pre_includes or module.source.is_ptx)
    return alone and not without_comments(module.source.text).strip()


def _empty(paths: Iterable[str], project: Project) -> list[Problem]:
    from ..config.toml_lines import setting  # which only hints need

    paths = [*paths]
    exclude = setting("exclude", [*project.config.exclude, *paths])
    hint = f"write a kernel into it, or leave it out: {exclude}"
    return [
        problem("empty-source", "is empty: there is no kernel in it", Location(path), hint) for path in paths
    ]


def _readable(modules: Iterable[Module], finder: _HeaderFinder) -> tuple[list[Module], list[Problem]]:
    """Return the modules whose headers can be read, and what is wrong with those of the others."""
    readable, problems = list[Module](), list[Problem]()
    for module in modules:
        try:
            finder.find(module)
            readable.append(module)
        except SourceError as exc:
            problems += exc.problems
    if problems:
        left = {*readable}
        readable = [each for each in readable if not each.link or left.issuperset(each.link.objects)]
    return readable, problems


def every_module(project: Project, sources: ProjectSources, toolkit: Toolkit) -> list[Module]:
    """Return the modules of all sources, also of those that are only parts of others."""
    return _modules(project, sources, lambda specs: expand(specs, toolkit))


def every_closure(
    project: Project, sources: ProjectSources, toolkit: Toolkit, recall: Recall, jobs: Iterable[Job]
) -> list[ModuleWithHeaders]:
    """Return the same modules with what was found for them: for *jobs*, and now for what is no job."""
    found = {job.unit.module: (job.unit.module, job.closure, job.search) for job in jobs}
    known = {module.source.path for module in found}
    finder = _HeaderFinder(project, toolkit, recall)
    parts = (part for part in every_module(project, sources, toolkit) if part.source.path not in known)
    return [*found.values(), *((part, *finder.find(part)) for part in parts)]


def expand(specs: Sequence[str], toolkit: Toolkit) -> tuple[arch_names.Target, ...]:
    """Return the targets that *specs* stand for, with this toolkit and on this machine."""
    native: tuple[int, ...] = ()
    if "native" in specs:
        from ..toolkit.local_gpus import native_archs

        native = native_archs()
    return arch_names.expand(specs, toolkit.supported, native)


def reachable_files(project: Project, sources: ProjectSources, *, by_name: bool = False) -> list[str]:
    """Return every file that the project's kernels can be built from: sources and its headers.

    One that includes with `../` lead to outside the project begins so itself. *by_name* leaves out headers
    that no include names, and that only a computed one could mean.
    """
    finder = _HeaderFinder(project, None, Recall(None))
    modules = _modules(project, sources, lambda _specs: ())
    return _needed(project, ((module, finder.find(module)[0]) for module in modules), by_name=by_name)


def named_files(project: Project, jobs: Iterable[Job]) -> list[str]:
    """Return the sources of *jobs* and the headers of the project that some include of theirs names."""
    closures = {job.unit.module: job.closure for job in jobs}
    return [path for path in _needed(project, closures.items(), by_name=True) if not lies_outside(path)]


def lies_outside(path: str) -> bool:
    """Say whether a path that is relative to the project leads out of it."""
    return path.startswith("../")


def _needed(project: Project, closures: Iterable[tuple[Module, Closure]], *, by_name: bool) -> list[str]:
    files, perhaps = set[str](), set[str]()
    pairs = [*closures]
    for module, _closure in pairs:
        files.update((module.source.path, *own_linked(module)))
    for closure in distinct(closure for _module, closure in pairs):
        files.update(own_files(closure, closure.widened))
        perhaps.update(own_files(closure))
    real = project.tree.real_name
    # A `..` is left in a path only where it crosses a link.
    needed = {real(path) if ".." in path else path for path in files}
    if not by_name:  # a folder that is a link to elsewhere holds more than a computed include means
        needed |= {path for path in perhaps - files if not lies_outside(real(path))}
    return sorted(needed)


def files_of(jobs: Iterable[Job]) -> list[str]:
    """Return the files of the project that *jobs* can read: their sources and headers."""
    return sorted(digests_of(jobs))


def digests_of(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the digest of each of the project's files that *jobs* can read, as it was for their keys."""
    jobs, found = [*jobs], dict[str, str]()
    for each in INGREDIENTS:
        if each.files is not None:
            found = {**each.files(jobs), **found}
    return found


def headers_of_others(jobs: Iterable[Job]) -> dict[str, str | None]:
    """Return the wheels, with their versions, and other trees whose headers *jobs* can read or link."""
    jobs, found = [*jobs], dict[str, str | None]()
    for each in INGREDIENTS:
        if each.others is not None:
            found |= each.others(jobs)
    return found


def _modules(
    project: Project,
    sources: ProjectSources,
    expand: Callable[[tuple[str, ...]], tuple[arch_names.Target, ...]],
) -> list[Module]:
    config = project.config
    own = (*(rule.archs for rule in config.source), *(rule.archs for rule in config.module))
    specs = {config.archs, *filter(None, own)}
    return linked_modules.plan_modules(
        config, sources.all, sources.by_module_table, {each: expand(each) for each in specs}
    )


def _unavailable(module: Module, headers: Mapping[str, str]) -> SourceError:
    """Return the error that a header is only here, as the compiler words it where the header is absent."""
    names = {logical.rpartition("/include/")[2]: wheel for logical, wheel in headers.items()}
    text = module.source.text
    lines = {name: line_of_include(Include(name, "angle"), text) for name in sorted(names)}
    name = next((name for name, line in lines.items() if line), next(iter(lines)))
    what = f'cannot open source file "{name}"'
    why = f"{names[name]} has it, which is installed here, and which a build does not ask for"
    hint = f'header-packages = ["{names[name]}"]'
    return SourceError(
        problem("header-package-not-listed", what, Location(module.source.path, lines[name]), hint, (why,))
    )


def _jobs_of(
    module: Module, units: Iterable[Unit], finder: _HeaderFinder, toolkit: Toolkit, recall: Recall
) -> Iterator[Job]:
    closure, search = finder.find(module)
    making = [Making(unit, toolkit, closure) for unit in units]
    inputs = inputs_of(making[0], of_arch=False)
    asked = digest([json.dumps(inputs, sort_keys=True), closure.digest()])
    recalled = recall.units(asked)
    for each in making:
        unit = each.unit
        keys, known = recalled.get(str(unit.arch)) or (keys_of(each), None)
        yield Job(unit, keys, search, closure, toolkit, asked, known, (), partial(finder.declared, module))


@dataclass(slots=True)
class _HeaderFinder:
    """Finds the header closure of modules; it looks at the toolkit's headers only where they are needed."""

    project: Project
    toolkit: Toolkit | None
    recall: Recall
    _found: dict[Module, tuple[Closure, tuple[SearchFolder, ...]]] = field(default_factory=dict)
    _outside: dict[str, tuple[SearchFolder, ...]] = field(default_factory=dict)
    _resolvers: dict[tuple[SearchFolder, ...], Resolver] = field(default_factory=dict)
    _shared: dict[object, Closure] = field(default_factory=dict)
    _by_chance: dict[str, str] | None = None  # headers that only this environment has, with their wheels
    _declared: dict[Module, Mapping[str, ParameterTypes]] = field(default_factory=dict)
    _named: dict[int, set[str]] = field(default_factory=dict)  # by the closure's identity

    def check_packages(self) -> None:
        """Raise ConfigError for a wheel of `header-packages` without headers, even if no source needs one."""
        if self.project.config.header_packages:
            self._package_roots()

    def find(self, module: Module) -> tuple[Closure, tuple[SearchFolder, ...]]:
        """Return a module's closure and the search path that it was found with."""
        if module not in self._found:
            self._found[module] = self._find(module)
        return self._found[module]

    def named(self, module: Module) -> set[str]:
        """Return the files of the project that some include of a module names."""
        closure, _search = self.find(module)
        if id(closure) not in self._named:  # which variants share
            self._named[id(closure)] = set(own_files(closure, closure.widened))
        return self._named[id(closure)]

    def declared(self, module: Module) -> Mapping[str, ParameterTypes]:
        """Return the types that the kernels of a module take, as far as its texts prove them."""
        if module not in self._declared:
            from .parameter_types import declared, declared_together  # lazy: only of new results

            if module.link:
                self._declared[module] = declared_together(module, self.declared)
            else:
                found = self.find(module)
                self._declared[module] = declared(module, *found, self.project.tree, self.recall.scans)
        return self._declared[module]

    def _find(self, module: Module) -> tuple[Closure, tuple[SearchFolder, ...]]:
        if module.source.is_ptx or module.link:
            return Closure(), ()
        search = tuple(project_roots(self.project.tree, module.include_dirs))
        closure = own = self._resolve(module, search)
        # The project's own folders come first in any case. So the rest of the search path is looked for only
        # where something is missing.
        if self.toolkit is None:  # an sdist: only the project's own files matter
            return closure, search
        for outside in (self._package_roots, self._toolkit_roots):
            if closure.missing:
                search = (*search, *outside())
                closure = self._resolve(module, search, own)
        if uninvited := self._uninvited(closure, search):
            left = tuple(root for root in search if not is_shared(root))
            without = self._resolve(module, left, own)
            if self._needs_shared(without, search):
                raise _unavailable(module, uninvited)
            # The compiler does not find them either, as in a build with isolation, which has the same keys.
            closure, search = replace(without, search=closure.search, _digest=""), left
        if not own.absent <= closure.absent:  # what was missing at first is there now
            closure = replace(closure, absent={*own.absent, *closure.absent})
        return closure, search

    def _uninvited(self, closure: Closure, search: tuple[SearchFolder, ...]) -> dict[str, str]:
        """Return the headers of a closure that are installed here by chance, each with its wheel."""
        if not any(map(is_shared, search)):
            return {}
        if self._by_chance is None:
            required = partial(table_location.required, self.project.root)
            self._by_chance = installed_by_chance(self.project.config, required)
        return installed_at(closure.files, self._by_chance) if self._by_chance else {}

    def _needs_shared(self, closure: Closure, search: Iterable[SearchFolder]) -> bool:
        """Say whether folders that NVIDIA's wheels share have what a closure lacks, and not by chance."""
        shared = [root for root in search if is_shared(root)]
        pairs = ((root, name) for root in shared for name in closure.missing)
        found = (f"{root.logical}/{name}" for root, name in pairs if (root.path / name).is_file())
        return any(not installed_at([logical], self._by_chance or {}) for logical in found)

    def _resolve(
        self, module: Module, search: tuple[SearchFolder, ...], own: Closure | None = None
    ) -> Closure:
        names, source = module.pre_includes, module.source
        asked = self.recall.scans.of_text(source.text)
        anything = can_hide_includes(module.macros)
        # Sources of one folder with the same includes have the same closure, unless they include themselves.
        included = {os.path.basename(name) for name in (*names, *(each.name for each in asked.includes))}
        place = source.path if os.path.basename(source.path) in included else source.folder
        shared = (place, asked, search, names, anything)
        # Where macros decide what is included, only variants of one source have the same closure, and only if
        # their macros mean the same to an include.
        own_shared = (source.path, include_values(module.macros), search, names, anything)
        for key in (shared, own_shared):
            if key in self._shared:
                return self._shared[key]
        if search not in self._resolvers:
            outside = self.recall.closures.outside
            self._resolvers[search] = Resolver(self.project.tree, search, self.recall.scans, outside)
        resolver = self._resolvers[search]
        walk = partial(resolver.resolve, source.path, source.text, module.macros, names)
        if own is None:
            closure = walk()
        else:
            start = WalkStart(own, asked, include_values(module.macros), names)
            closure = self.recall.closures.resolve(start, resolver, walk)
        return self._shared.setdefault(own_shared if closure.computed else shared, closure)

    def _package_roots(self) -> tuple[SearchFolder, ...]:
        if "packages" not in self._outside:
            self._outside["packages"] = tuple(package_roots(self.project.config))
        return self._outside["packages"]

    def _toolkit_roots(self) -> tuple[SearchFolder, ...]:
        assert self.toolkit is not None
        if "toolkit" not in self._outside:
            system = self.project.config.toolkit == "system"
            self._outside["toolkit"] = tuple(toolkit_roots(self.toolkit, system=system))
        return self._outside["toolkit"]
