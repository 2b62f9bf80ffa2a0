"""Turn units into jobs: find the headers that each unit can read, then the keys of its result."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cache.entries import Cache, Compiled
from ..cache.records import RecalledResult, Request
from ..common import arch_names
from ..common.digest import digest
from ..config import table_location
from ..errors import HatchCubinError, Location, Problem, SourceError, ToolchainError, problem
from ..headers.includes import Closure, Resolver
from ..headers.recalled_closures import WalkStart
from ..headers.resolve import SearchFolder
from ..headers.search_path import (
    is_shared,
    package_roots,
    project_roots,
    toolkit_roots,
    unrequired_headers,
    wheels_at,
)
from ..planning import linked_modules, unit_plan
from ..planning.unit_plan import Module, Unit
from ..project.project import Project, ProjectSources
from ..project.scan import Include, can_hide_includes, include_values, line_of_include
from ..project.source import without_comments
from ..toolkit.toolkit import Keys, Toolkit
from . import shared_names
from .included_sources import drop_included_sources
from .ingredients import INGREDIENTS, UnitInputs, inputs_of, keys_of
from .input_files import distinct_closures, own_files, own_linked_files, produced_paths
from .recall import Recall

if TYPE_CHECKING:
    from ..config.config import Config
    from ..project.declared_kernels import ParameterTypes
    from ..toolkit.linker import Input

# A module, its headers, and the folders that were searched for them.
ModuleWithHeaders = tuple[Module, Closure, tuple[SearchFolder, ...]]

# Returns the parameter types of a module's kernels, by symbol.
DeclaredTypes: TypeAlias = "Callable[[], Mapping[str, ParameterTypes]]"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit, ready for a look-up in the cache and, on a miss, for its compile."""

    unit: Unit
    keys: Keys
    search: tuple[SearchFolder, ...]
    closure: Closure
    toolkit: Toolkit
    module_digest: str  # a digest of all inputs of the module's results
    recorded: RecalledResult | None  # recorded by an earlier build with the same inputs
    linked: tuple[Input, ...] = ()  # the inputs of a linked unit, in order
    declared_types: DeclaredTypes = dict

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the unit's key, by the names that messages use."""
        return inputs_of(UnitInputs(self.unit, self.toolkit, self.closure, self.linked))

    def cached_result(self, cache: Cache) -> Compiled | None:
        """Return the unit's verified result from the cache; None on a miss."""
        return cache.get(self.keys.key, self.recorded, self.request)

    @property
    def request(self) -> Request:
        """The requirements for the unit's result, whether it is compiled, cached or fetched."""
        return request_of(self.unit)


def request_of(unit: Unit) -> Request:
    """Return the requirements for a unit's result."""
    module = unit.module
    arch = unit.arch.real if module.part_of else unit.arch
    return Request(str(arch), module.instantiate, partial(_required_symbols, module))


def _required_symbols(module: Module) -> Collection[str]:
    """Return the symbols of the kernels that every result of a module must have."""
    from ..config.ptxas_options import names_kernels  # lazy: most results are known from an earlier build
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
    """Return one job per unit of the plan, with the results that an earlier build recorded.

    Problems, such as a header that cannot be read or a name of two modules, are added to the list *refused*.
    If it is None, they are raised as a SourceError. A module with an unreadable header gets no jobs.
    """
    lacking: list[Problem] = []
    jobs: list[Job] = []
    others: tuple[Problem, ...] = ()
    finder = _HeaderFinder(project, toolkit, recall or Recall(None))
    try:
        modules = _modules(project, sources, lambda specs: expand(specs, toolkit, lacking))
        jobs = _jobs_of_modules(project, modules, sources.declared, finder, refused)
    except HatchCubinError as exc:
        if not lacking:
            raise
        others = exc.problems
    if lacking:  # the other problems of the table must not wait for a GPU
        where = _location_of_native(project.config)
        lacking = [each._replace(where=where) for each in lacking]
        raise ToolchainError(*lacking, *others, *(refused or ()))
    return jobs


def _location_of_native(config: Config) -> Location | None:
    """Return the first place in the table that names the arch 'native'; None if a variable does."""
    tables: list[tuple[tuple[str | int, ...], tuple[str, ...] | None]] = [
        *((("source", index), rule.archs) for index, rule in enumerate(config.source)),
        *((("module", index), rule.archs) for index, rule in enumerate(config.module)),
    ]
    if "archs" not in config.replaced:
        tables = [((), config.archs), *tables]
    found = ((path, archs.index("native")) for path, archs in tables if archs and "native" in archs)
    return next((config.place.of(*path, "archs", index) for path, index in found), None)


def _jobs_of_modules(
    project: Project,
    planned: Iterable[Module],
    declared: AbstractSet[str],
    finder: _HeaderFinder,
    refused: list[Problem] | None,
) -> list[Job]:
    recall, toolkit = finder.recall, finder.toolkit
    assert toolkit is not None
    readable, problems = _readable_modules(planned, finder)
    modules, notes = drop_included_sources(readable, project.tree, finder.named_files)
    finder.check_packages()
    if not problems:  # else an unreadable module may include the empty source as a header
        problems += _empty_source_problems(
            dict.fromkeys(each.source.path for each in modules if _is_empty(each)), project
        )
        modules = [module for module in modules if not _is_empty(module)]
    if produced := [each for each in modules if each.source.produced and not each.link]:
        from .produced_includes import undeclared_includes  # lazy: only with producers

        pairs = ((module.source, finder.named_files(module)) for module in produced)
        problems += undeclared_includes(project, declared, pairs)
    problems += shared_names.name_problems([each for each in modules if not each.part_of], project.config)
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
        from .link_files import find_links  # lazy: only with linked modules

        keys = {job.unit: job.keys for each in jobs.values() for job in each}
        for found in find_links(project, groups, keys, toolkit, recall):
            unit, own, module_digest, recorded, linked = found
            types = partial(finder.declared, unit.module)
            job = Job(unit, own, (), Closure(), toolkit, module_digest, recorded, linked, types)
            jobs.setdefault(unit.module, []).append(job)
    return [job for module, _units in groups for job in jobs[module]]


def _is_empty(module: Module) -> bool:
    """Return whether a module's only source has only comments, and no option includes another file."""
    alone = not (module.link or module.part_of or module.pre_includes or module.source.is_ptx)
    return alone and not without_comments(module.source.text).strip()


def _empty_source_problems(paths: Iterable[str], project: Project) -> list[Problem]:
    from ..config.toml_lines import setting  # lazy: only hints need it

    paths = [*paths]
    exclude = setting("exclude", [*project.config.exclude, *paths])
    hint = f"write a kernel into it, or leave it out: {exclude}"
    return [
        problem("empty-source", "is empty: there is no kernel in it", Location(path), hint) for path in paths
    ]


def _readable_modules(modules: Iterable[Module], finder: _HeaderFinder) -> tuple[list[Module], list[Problem]]:
    """Return the modules whose headers can be read, and the problems of the other modules."""
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
    """Return the modules of all sources, also of sources that are only parts of other sources."""
    return _modules(project, sources, lambda specs: expand(specs, toolkit))


def every_closure(
    project: Project, sources: ProjectSources, toolkit: Toolkit, recall: Recall, jobs: Iterable[Job]
) -> list[ModuleWithHeaders]:
    """Return the modules of all sources, with their headers. Only those without a job are searched again."""
    found = {job.unit.module: (job.unit.module, job.closure, job.search) for job in jobs}
    known = {module.source.path for module in found}
    finder = _HeaderFinder(project, toolkit, recall)
    parts = (part for part in every_module(project, sources, toolkit) if part.source.path not in known)
    return [*found.values(), *((part, *finder.find(part)) for part in parts)]


def expand(
    specs: Sequence[str], toolkit: Toolkit, lacking: list[Problem] | None = None
) -> tuple[arch_names.Target, ...]:
    """Return the targets that the entries of `archs` mean, with this toolkit and on this machine.

    If 'native' needs a GPU that is missing, its problem is added to the list *lacking*, or raised.
    """
    native: tuple[int, ...] = ()
    if "native" in specs:
        from ..toolkit.local_gpus import native_archs

        try:
            native = native_archs()
        except ToolchainError as exc:
            if lacking is None:
                raise
            lacking += exc.problems
    return arch_names.expand(specs, toolkit.supported, native)


def reachable_files(project: Project, sources: ProjectSources, *, by_name: bool = False) -> list[str]:
    """Return every file that the project's kernels can be built from: sources, headers and linked files.

    The path of a header outside the project begins with `../`. With *by_name*, headers are left out that no
    include names, so that only a computed include (`#include MACRO`) could mean them.
    """
    finder = _HeaderFinder(project, None, Recall(None))
    modules = _modules(project, sources, lambda _specs: ())
    return _needed_files(project, ((module, finder.find(module)[0]) for module in modules), by_name=by_name)


def named_files(project: Project, jobs: Iterable[Job]) -> list[str]:
    """Return the sources of *jobs*, and the project's headers that their includes name."""
    closures = {job.unit.module: job.closure for job in jobs}
    return [path for path in _needed_files(project, closures.items(), by_name=True) if not lies_outside(path)]


def lies_outside(path: str) -> bool:
    """Return whether a path that is relative to the project leads out of it."""
    return path.startswith("../")


def _needed_files(
    project: Project, closures: Iterable[tuple[Module, Closure]], *, by_name: bool
) -> list[str]:
    files, perhaps = set[str](), set[str]()
    pairs = [*closures]
    for module, _closure in pairs:
        files.update((module.source.path, *own_linked_files(module)))
    for closure in distinct_closures(closure for _module, closure in pairs):
        files.update(own_files(closure, closure.widened))
        perhaps.update(own_files(closure))
    real = project.tree.real_name
    # Names that are not on the disk. A closure of a locked job has all files of the lock.
    files -= {path for module, _closure in pairs for path in produced_paths(module)}
    # A path contains `..` only if it crosses a link.
    needed = {real(path) if ".." in path else path for path in files}
    if not by_name:  # not files behind a link out of the project: its target may be huge
        needed |= {path for path in perhaps - files if not lies_outside(real(path))}
    return sorted(needed)


def files_of(jobs: Iterable[Job]) -> list[str]:
    """Return the files of the project that *jobs* can read: their sources and headers."""
    return sorted(file_digests(jobs))


def file_digests(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the digest, as in the keys of *jobs*, of each of the project's files that they can read."""
    jobs, found = [*jobs], dict[str, str]()
    for each in INGREDIENTS:
        if each.files is not None:
            found = {**each.files(jobs), **found}
    return found


def outside_inputs(jobs: Iterable[Job]) -> dict[str, str | None]:
    """Return the wheels and other trees whose files *jobs* can read or link, wheels with their versions."""
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
    own = [
        *(rule.archs for rule in config.source),
        *(rule.archs for rule in config.module),
        *(each.produced.rule.archs for each in sources if each.produced),
    ]
    specs = {config.archs, *filter(None, own)}
    targets = {each: expand(each) for each in specs}
    return linked_modules.plan_modules(
        config, sources.all, sources.by_module_table, targets, is_complete=sources.is_complete
    )


def _unlisted_package_error(module: Module, headers: Mapping[str, str]) -> SourceError:
    """Return the error for headers that an isolated build would not have, in the compiler's own words."""
    names = {logical.rpartition("/include/")[2]: wheel for logical, wheel in headers.items()}
    text = module.source.text
    lines = {name: line_of_include(Include(name, "angle"), text) for name in sorted(names)}
    name = next((name for name, line in lines.items() if line), next(iter(lines)))
    what = f'cannot open source file "{name}"'
    why = f"{names[name]} has it, which is installed here, but which the build does not require"
    hint = f'header-packages = ["{names[name]}"]'
    return SourceError(
        problem("header-package-not-listed", what, Location(module.source.path, lines[name]), hint, (why,))
    )


def _jobs_of(
    module: Module, units: Iterable[Unit], finder: _HeaderFinder, toolkit: Toolkit, recall: Recall
) -> Iterator[Job]:
    closure, search = finder.find(module)
    unit_inputs = [UnitInputs(unit, toolkit, closure) for unit in units]
    inputs = inputs_of(unit_inputs[0], of_arch=False)
    module_digest = digest([json.dumps(inputs, sort_keys=True), closure.digest()])
    recalled = recall.units(module_digest)
    for each in unit_inputs:
        unit = each.unit
        keys, recorded = recalled.get(str(unit.arch)) or (keys_of(each), None)
        declared = partial(finder.declared, module)
        yield Job(unit, keys, search, closure, toolkit, module_digest, recorded, (), declared)


@dataclass(slots=True)
class _HeaderFinder:
    """Finds the header closure of modules. It searches the toolkit's headers only if they are needed."""

    project: Project
    toolkit: Toolkit | None
    recall: Recall
    _found: dict[Module, tuple[Closure, tuple[SearchFolder, ...]]] = field(default_factory=dict)
    _outside: dict[str, tuple[SearchFolder, ...]] = field(default_factory=dict)
    _resolvers: dict[tuple[SearchFolder, ...], Resolver] = field(default_factory=dict)
    _shared: dict[object, Closure] = field(default_factory=dict)
    _unrequired: dict[str, str] | None = None  # headers that only this environment has, with their wheels
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

    def named_files(self, module: Module) -> set[str]:
        """Return the files of the project that the includes of a module name."""
        closure, _search = self.find(module)
        if id(closure) not in self._named:  # variants share closures
            self._named[id(closure)] = set(own_files(closure, closure.widened))
        return self._named[id(closure)]

    def declared(self, module: Module) -> Mapping[str, ParameterTypes]:
        """Return the parameter types of a module's kernels, if its texts prove them."""
        if module not in self._declared:
            from .parameter_types import types_of_linked_module, types_of_module  # lazy: only for new results

            if module.link:
                self._declared[module] = types_of_linked_module(module, self.declared)
            else:
                found = self.find(module)
                self._declared[module] = types_of_module(module, *found, self.project.tree, self.recall.scans)
        return self._declared[module]

    def _find(self, module: Module) -> tuple[Closure, tuple[SearchFolder, ...]]:
        if module.source.is_ptx or module.link:
            return Closure(), ()
        search = tuple(project_roots(self.project.tree, module.include_dirs))
        closure = own = self._resolve(module, search)
        # The project's own folders are always searched first. So the other folders are needed only if a
        # header is missing.
        if self.toolkit is None:  # an sdist: only the project's own files matter
            return closure, search
        for outside in (self._package_roots, self._toolkit_roots):
            if closure.missing:
                search = (*search, *outside())
                closure = self._resolve(module, search, own)
        if unrequired := self._unrequired_headers(closure, search):
            left = tuple(root for root in search if not is_shared(root))
            without = self._resolve(module, left, own)
            if self._needs_shared_folders(without, search):
                raise _unlisted_package_error(module, unrequired)
            # As in a build with isolation, the compiler does not find them. So the keys must be the same.
            closure, search = replace(without, search=closure.search, _digest=""), left
        if not own.absent <= closure.absent:  # headers that the project does not have were found elsewhere
            closure = replace(closure, absent={*own.absent, *closure.absent})
        return closure, search

    def _unrequired_headers(self, closure: Closure, search: tuple[SearchFolder, ...]) -> dict[str, str]:
        """Return the headers of a closure whose wheels the build does not require, each with its wheel."""
        if not any(map(is_shared, search)):
            return {}
        if self._unrequired is None:
            required = partial(table_location.required, self.project.root)
            self._unrequired = unrequired_headers(self.project.config, required)
        return wheels_at(closure.files, self._unrequired) if self._unrequired else {}

    def _needs_shared_folders(self, closure: Closure, search: Iterable[SearchFolder]) -> bool:
        """Return whether a required wheel has a missing header, in a folder that NVIDIA's wheels share."""
        shared = [root for root in search if is_shared(root)]
        pairs = ((root, name) for root in shared for name in closure.missing)
        found = (f"{root.logical}/{name}" for root, name in pairs if (root.path / name).is_file())
        return any(not wheels_at([logical], self._unrequired or {}) for logical in found)

    def _resolve(
        self, module: Module, search: tuple[SearchFolder, ...], own: Closure | None = None
    ) -> Closure:
        names, source = module.pre_includes, module.source
        scan = self.recall.scans.of_text(source.text)
        anything = can_hide_includes(module.macros)
        # Sources of one folder with the same includes have the same closure, unless they include themselves.
        included = {os.path.basename(name) for name in (*names, *(each.name for each in scan.includes))}
        place = source.path if os.path.basename(source.path) in included else source.folder
        shared = (place, scan, search, names, anything)
        # If macros decide which headers are included, only variants of one source share a closure, and only
        # if the macros that an include can use have the same values.
        shared_by_variants = (source.path, include_values(module.macros), search, names, anything)
        for key in (shared, shared_by_variants):
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
            start = WalkStart(own, scan, include_values(module.macros), names)
            closure = self.recall.closures.resolve(start, resolver, walk)
        return self._shared.setdefault(shared_by_variants if closure.computed else shared, closure)

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
