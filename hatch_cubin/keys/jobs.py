"""Make a job for each unit (a module for one arch): find the unit's headers, and make its cache keys."""

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
from ..errors import ConfigError, HatchCubinError, Location, Problem, SourceError, ToolchainError, problem
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
from ..planning.unit_plan import AbsentSources, Module, Unit
from ..project.project import Project, ProjectSources
from ..project.scan import Include, can_hide_includes, include_values, line_of_include
from ..project.source import Source, without_comments
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

# A module, its header closure (all headers that it can read), and the search path.
ModuleWithHeaders = tuple[Module, Closure, tuple[SearchFolder, ...]]

# A function that returns the parameter types of a module's kernels, by symbol.
DeclaredTypes: TypeAlias = "Callable[[], Mapping[str, ParameterTypes]]"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit (a module for one arch) with all facts for its look-up in the cache, or for its compile."""

    unit: Unit
    keys: Keys
    search: tuple[SearchFolder, ...]
    closure: Closure
    toolkit: Toolkit
    module_digest: str  # a digest of all inputs that can change the module's compiled results
    recorded: RecalledResult | None  # the compiled result that an earlier build with the same inputs recorded
    linked: tuple[Input, ...] = ()  # the inputs of the linker in order, if the unit is linked
    declared_types: DeclaredTypes = dict

    @property
    def inputs(self) -> dict[str, Any]:
        """A mapping from name to value for all inputs of the unit's cache key; messages use these names."""
        return inputs_of(UnitInputs(self.unit, self.toolkit, self.closure, self.linked))

    def cached_result(self, cache: Cache) -> Compiled | None:
        """Return the unit's verified result from the cache; None on a cache miss."""
        return cache.get(self.keys.key, self.recorded, self.request)

    @property
    def request(self) -> Request:
        """The requirements that the unit's compiled result must meet, even if it comes from a cache."""
        return request_of(self.unit)


def request_of(unit: Unit) -> Request:
    """Return the requirements for the result of a unit (a module for one arch): its arch and its kernels."""
    module = unit.module
    arch = unit.arch.real if module.part_of else unit.arch
    return Request(str(arch), module.instantiate, partial(_required_symbols, module))


def _required_symbols(module: Module) -> Collection[str]:
    """Return the symbols of the kernels that must be in every compiled result of a module."""
    # lazy import: most results are recalled from an earlier build and need no check
    from ..config.ptxas_options import names_kernels
    from ..project.required_kernels import required_kernels

    # only some of the kernels in the text of a source with tile code are in the module
    is_partial = module.link is not None or module.has_tile_code
    if is_partial or module.pre_includes or names_kernels(module.ptxas_options):
        return ()
    return required_kernels(module.source, dict(module.macros))


def make_jobs(
    project: Project,
    sources: ProjectSources,
    toolkit: Toolkit,
    recall: Recall | None = None,
    refused: list[Problem] | None = None,
) -> list[Job]:
    """Return one job for each unit (a module for one arch), with the results that earlier builds recorded.

    Problems, such as an unreadable header or a name that two modules share, are added to the list *refused*.
    If *refused* is None, the problems are raised as a SourceError. A module with an unreadable header does
    not get jobs.
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
    if lacking:  # if no GPU is found for 'native', other problems of the configuration are reported too
        where = _location_of_native(project.config)
        lacking = [each._replace(where=where) for each in lacking]
        raise ToolchainError(*lacking, *others, *(refused or ()))
    return jobs


def _location_of_native(config: Config) -> Location | None:
    """Return the location of 'native' in the configuration; None if an environment variable contains it."""
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
    # A module with unreadable headers may include the empty source, so empty sources are not reported then.
    if not problems:
        problems += _empty_source_problems(
            dict.fromkeys(each.source for each in modules if _is_empty(each)), project
        )
        modules = [module for module in modules if not _is_empty(module)]
    if calls := [each for each in modules if each.front == "cupy"]:
        from .cupy_headers import host_struct_problems  # lazy import: few projects have modules for CuPy

        refused_calls = host_struct_problems({each: finder.find(each)[0] for each in calls}, project.config)
        problems += refused_calls.values()
        modules = [module for module in modules if module not in refused_calls]
    if produced := [each for each in modules if each.source.produced and not each.link]:
        # Lazy import: needed only for producers (functions that generate sources).
        from .produced_includes import undeclared_includes

        pairs = ((module.source, finder.named_files(module)) for module in produced)
        problems += undeclared_includes(project, declared, pairs)
    problems += shared_names.name_problems([each for each in modules if not each.part_of], project.config)
    if problems and refused is None:
        raise SourceError(*problems)
    if refused is not None:
        refused += problems
        modules = shared_names.without_compiled_copies(modules, problems)
    try:
        plan = unit_plan.plan_units(modules, toolkit.toolchain(), project.config.replaced.get("archs"))
    except ConfigError as exc:
        raise ConfigError(*problems, *exc.problems) from None
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
        from .link_files import find_links  # lazy import: needed only for linked modules

        keys = {job.unit: job.keys for each in jobs.values() for job in each}
        for found in find_links(project, groups, keys, toolkit, recall):
            unit, own, module_digest, recorded, linked = found
            types = partial(finder.declared, unit.module)
            job = Job(unit, own, (), Closure(), toolkit, module_digest, recorded, linked, types)
            jobs.setdefault(unit.module, []).append(job)
    return [job for module, _units in groups for job in jobs[module]]


def _is_empty(module: Module) -> bool:
    """Return whether a module's only source consists of comments, and no option includes another file."""
    alone = module.source.is_cpp and not (module.link or module.part_of or module.pre_includes)
    return alone and not without_comments(module.source.text).strip()


def _empty_source_problems(sources: Collection[Source], project: Project) -> list[Problem]:
    from ..config.toml_lines import setting  # lazy import: only the hints of errors need this module

    files = [each.path for each in sources if not each.produced]
    exclude = setting("exclude", [*project.config.exclude, *files])
    of_file = f"write a kernel into the file, outside of comments, or exclude the file: {exclude}"
    what = "has no code outside of comments, so it has no kernel"
    return [
        problem(
            "empty-source", what, Location(each.path), each.produced.leave_out if each.produced else of_file
        )
        for each in sources
    ]


def _readable_modules(modules: Iterable[Module], finder: _HeaderFinder) -> tuple[list[Module], list[Problem]]:
    """Return the modules whose headers can be read, and the problems with headers of the other modules."""
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
    """Return the modules of all sources, including sources that other sources include."""
    return _modules(project, sources, lambda specs: expand(specs, toolkit))


def every_closure(
    project: Project, sources: ProjectSources, toolkit: Toolkit, recall: Recall, jobs: Iterable[Job]
) -> list[ModuleWithHeaders]:
    """Return the modules of all sources, with their header closures (all headers that a source can read).

    The headers of a module with a job are already known; the function searches for headers only for the other
    modules.
    """
    found = {job.unit.module: (job.unit.module, job.closure, job.search) for job in jobs}
    known = {module.source.path for module in found}
    finder = _HeaderFinder(project, toolkit, recall)
    parts = (part for part in every_module(project, sources, toolkit) if part.source.path not in known)
    return [*found.values(), *((part, *finder.find(part)) for part in parts)]


def expand(
    specs: Sequence[str], toolkit: Toolkit, lacking: list[Problem] | None = None
) -> tuple[arch_names.Target, ...]:
    """Return the targets that the setting `archs` means for this toolkit and this machine.

    If 'native' is used but no GPU is found, the problem is added to the list *lacking*, or is raised as an
    error if *lacking* is None.
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
    """Return every file that a build of the kernels can read: sources, headers and linked files.

    The path of a header outside the project begins with `../`. If *by_name* is true, leave out files that the
    package may read at run time, and headers that only an `#include MACRO` may include.
    """
    finder = _HeaderFinder(project, None, Recall(None))
    modules = _modules(project, sources, lambda _specs: ())
    pairs = [(module, finder.find(module)[0]) for module in modules]
    return _files_to_leave_out(project, pairs) if by_name else _needed_files(project, pairs, by_name=False)


def named_files(project: Project, jobs: Iterable[Job]) -> list[str]:
    """Return the project's files of *jobs*, except files that CuPy or cuda.core may compile at run time."""
    closures = {job.unit.module: job.closure for job in jobs}
    return [path for path in _files_to_leave_out(project, closures.items()) if not lies_outside(path)]


def _files_to_leave_out(project: Project, closures: Iterable[tuple[Module, Closure]]) -> list[str]:
    """Return the included files that a wheel does not need.

    If the package may read a source from a file and give it to CuPy or cuda.core at run time, the source and
    its headers stay in the wheel. Files of recorded calls are left out, because only builds read them.
    """
    pairs = [*closures]
    calls = [pair for pair in pairs if pair[0].front]
    sources = [source for module, _closure in calls for source in (module.source, *module.equal)]
    recorded = {source.path for source in sources if source.recorded}
    read_at_run_time = {*_needed_files(project, calls, by_name=True)} - recorded
    found = _needed_files(project, pairs, by_name=True)
    return [path for path in found if path not in read_at_run_time]


def lies_outside(path: str) -> bool:
    """Return whether a path relative to the project leads to a file outside of the project."""
    return path.startswith("../")


def _needed_files(
    project: Project, closures: Iterable[tuple[Module, Closure]], *, by_name: bool
) -> list[str]:
    files, perhaps = set[str](), set[str]()
    pairs = [*closures]
    for module, _closure in pairs:
        files.update((module.source.path, *(each.path for each in module.equal), *own_linked_files(module)))
    for closure in distinct_closures(closure for _module, closure in pairs):
        files.update(own_files(closure, closure.widened))
        perhaps.update(own_files(closure))
    real = project.tree.real_name
    # The text that a producer returned is not a file. But in a build with a lock file, the header closure
    # contains the path of this text, because it contains all paths in the lock file.
    files -= {path for module, _closure in pairs for path in produced_paths(module)}
    # A path contains `..` only if a folder in the path is a link.
    needed = {real(path) if ".." in path else path for path in files}
    # files behind a link out of the project are left out, because the link's target may be huge
    if not by_name:
        needed |= {path for path in perhaps - files if not lies_outside(real(path))}
    return sorted(needed)


def files_of(jobs: Iterable[Job]) -> list[str]:
    """Return the paths of the project's files that *jobs* can read: sources, headers and linked files."""
    return sorted(file_digests(jobs))


def file_digests(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the digest that the jobs' cache keys contain for each project file that *jobs* can read."""
    jobs, found = [*jobs], dict[str, str]()
    for each in INGREDIENTS:
        if each.files is not None:
            found = {**each.files(jobs), **found}
    return found


def outside_inputs(jobs: Iterable[Job]) -> dict[str, str | None]:
    """Return the wheels (with versions) and header trees whose files *jobs* can read or link."""
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
        *(each.own_rule.archs for each in sources if each.own_rule),
    ]
    specs = {config.archs, *filter(None, own)}
    targets = {each: expand(each) for each in specs}
    absent = AbsentSources(not sources.is_complete, sources.excluded)
    return linked_modules.plan_modules(config, sources.all, sources.by_module_table, targets, absent=absent)


def _unlisted_package_error(module: Module, headers: Mapping[str, str]) -> SourceError:
    """Return the error for an include of a header from a wheel that the project does not require.

    The message is worded like the compiler's message about a missing header.
    """
    names = {logical.rpartition("/include/")[2]: wheel for logical, wheel in headers.items()}
    text = module.source.text
    lines = {name: line_of_include(Include(name, "angle"), text) for name in sorted(names)}
    name = next((name for name, line in lines.items() if line), next(iter(lines)))
    what = f'cannot open source file "{name}"'
    why = f"the header is in the installed wheel {names[name]}, but the build does not require this wheel"
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
    """Finds the header closure of each module: all headers that the module's source can read.

    The search includes the toolkit's headers only if an included header is not in the project.
    """

    project: Project
    toolkit: Toolkit | None
    recall: Recall
    _found: dict[Module, tuple[Closure, tuple[SearchFolder, ...]]] = field(default_factory=dict)
    _outside: dict[str, tuple[SearchFolder, ...]] = field(default_factory=dict)
    _resolvers: dict[tuple[SearchFolder, ...], Resolver] = field(default_factory=dict)
    _shared: dict[object, Closure] = field(default_factory=dict)
    # headers of installed wheels that the build does not require, with the wheels' names
    _unrequired: dict[str, str] | None = None
    _declared: dict[Module, Mapping[str, ParameterTypes]] = field(default_factory=dict)
    _named: dict[int, set[str]] = field(default_factory=dict)  # the key is the id() of the header closure

    def check_packages(self) -> None:
        """Raise ConfigError if a wheel in `header-packages` does not contain headers."""
        if self.project.config.header_packages:
            self._package_roots()

    def find(self, module: Module) -> tuple[Closure, tuple[SearchFolder, ...]]:
        """Return a module's header closure (all headers that it can read), and the search path for it."""
        if module not in self._found:
            self._found[module] = self._find(module)
        return self._found[module]

    def named_files(self, module: Module) -> set[str]:
        """Return the files of the project whose names are in the includes of a module's source."""
        closure, _search = self.find(module)
        # Variants of a source share one header closure (all headers that a source can read).
        if id(closure) not in self._named:
            self._named[id(closure)] = set(own_files(closure, closure.widened))
        return self._named[id(closure)]

    def declared(self, module: Module) -> Mapping[str, ParameterTypes]:
        """Return the parameter types of a module's kernels, if no macro or header can change these types."""
        if module not in self._declared:
            # lazy import: needed only for results that are not cached
            from .parameter_types import types_of_linked_module, types_of_module

            if module.link:
                self._declared[module] = types_of_linked_module(module, self.declared)
            else:
                found = self.find(module)
                self._declared[module] = types_of_module(module, *found, self.project.tree, self.recall.scans)
        return self._declared[module]

    def _find(self, module: Module) -> tuple[Closure, tuple[SearchFolder, ...]]:
        if not module.source.is_cpp or module.link:
            return Closure(), ()
        search = tuple(project_roots(self.project.tree, module.include_dirs))
        closure = own = self._resolve(module, search)
        # The project's own folders are searched first. Folders of wheels and of the toolkit are searched only
        # if the project does not contain an included header.
        if self.toolkit is None:  # the caller makes an sdist, for which only the project's own files matter
            return closure, search
        for outside in (self._package_roots, self._toolkit_roots):
            if closure.missing:
                search = (*search, *self._own_folders(module, outside()))
                closure = self._resolve(module, search, own)
        if unrequired := self._unrequired_headers(closure, search):
            left = tuple(root for root in search if not is_shared(root))
            without = self._resolve(module, left, own)
            if self._needs_shared_folders(without, search):
                raise _unlisted_package_error(module, unrequired)
            # In a build with isolation, the compiler does not find these headers, so the keys must not depend
            # on them.
            closure, search = replace(without, search=closure.search, _digest=""), left
        # A header that is missing in the project was found outside of the project.
        if not own.absent <= closure.absent:
            closure = replace(closure, absent={*own.absent, *closure.absent})
        return closure, search

    def _unrequired_headers(self, closure: Closure, search: tuple[SearchFolder, ...]) -> dict[str, str]:
        """Return those headers in a header closure that belong to wheels which the build does not require."""
        if not any(map(is_shared, search)):
            return {}
        if self._unrequired is None:
            required = partial(table_location.required, self.project.root)
            self._unrequired = unrequired_headers(self.project.config, required)
        return wheels_at(closure.files, self._unrequired) if self._unrequired else {}

    def _needs_shared_folders(self, closure: Closure, search: Iterable[SearchFolder]) -> bool:
        """Return whether *closure* needs a header that a required wheel put into NVIDIA's shared folders."""
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
        # Sources in the same folder with the same includes have the same header closure, unless a source
        # includes itself.
        included = {os.path.basename(name) for name in (*names, *(each.name for each in scan.includes))}
        place = source.path if os.path.basename(source.path) in included else source.folder
        shared = (place, scan, search, names, anything)
        # Macros may decide which headers are included. Then only variants of one source can share a header
        # closure, and the macros in their includes must have the same values.
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

    def _own_folders(self, module: Module, folders: tuple[SearchFolder, ...]) -> tuple[SearchFolder, ...]:
        """Return a module's search path; for a module that CuPy loads, CuPy's own folders come first."""
        if module.front != "cupy":
            return folders
        from .cupy_headers import with_folders_of_cupy  # lazy import: few projects have modules for CuPy

        return with_folders_of_cupy(folders)

    def _toolkit_roots(self) -> tuple[SearchFolder, ...]:
        assert self.toolkit is not None
        if "toolkit" not in self._outside:
            system = self.project.config.toolkit == "system"
            self._outside["toolkit"] = tuple(toolkit_roots(self.toolkit, system=system))
        return self._outside["toolkit"]
