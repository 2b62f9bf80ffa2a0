"""The whole build, for every front end: a project in, the files of its bundle out."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from ..bundle import kernel_parameters, layout, sbom
from ..cache import history
from ..cache.entries import Cache, Compiled, Content
from ..cache.records import RecalledResult, describe
from ..common import user_folders
from ..common.environment import REMOTE_WRITE
from ..compiling.obtain import complete, look_up
from ..compiling.plan_warnings import NEARER, outside_headers, unread_macros
from ..compiling.results import Results, require
from ..errors import HatchCubinError, Location, Problem, SourceError, problem
from ..keys.jobs import (
    Job,
    every_closure,
    lies_outside,
    make_jobs,
    named_files,
    outside_inputs,
    reachable_files,
)
from ..keys.recall import Recall, Units, recall_of
from ..lockfile import lock_comparison, lock_format, locked_build
from ..lockfile.lock_format import Lock
from ..planning.unit_plan import Unit
from ..project.project import Project, ProjectSources, read_sources
from ..remote import build_store
from ..toolkit import installed_wheels, requirements
from ..toolkit.toolkit import DATA_MODEL, Toolkit
from .report import report, write_report

if TYPE_CHECKING:
    from ..remote.shared_store import SharedStore


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _names_table(
    step: Callable[Concatenate[Project, _Arguments], _Result],
) -> Callable[Concatenate[Project, _Arguments], _Result]:
    """Let the errors of a build's step say to which table a line in a hint belongs."""

    @functools.wraps(step)
    def with_table(project: Project, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        try:
            return step(project, *arguments, **named)
        except HatchCubinError as exc:
            exc.problems = tuple(map(project.config.with_table, exc.problems))
            raise

    return with_table


class Plan(NamedTuple):
    """The units to build, and the toolkit, records and store to build them with."""

    toolkit: Toolkit
    jobs: tuple[Job, ...]
    recall: Recall
    refused: tuple[Problem, ...] = ()  # unreadable headers, and modules without jobs
    headers: Mapping[str, str | None] | None = None  # headers outside the project, if the lock lists them
    found: Mapping[Unit, Compiled] = MappingProxyType({})  # results that are known already
    remote: SharedStore | None = None  # the store, if requests were already sent to it
    lock: Lock | None = None  # the project's


def build(
    project: Project, *, noted: bool = True, require: Callable[[Project], object] | None = None
) -> dict[str, bytes]:
    """Compile missing units, and return the files of the bundle and its bill of materials, by name.

    A build whose cache is thrown away afterwards must not be *noted*: its notes would replace the notes of
    builds whose cache is kept.
    """
    files, _sources = build_with_sources(project, noted=noted, require=require)
    return files


def build_with_sources(
    project: Project, *, noted: bool = True, require: Callable[[Project], object] | None = None
) -> tuple[dict[str, bytes], list[str]]:
    """Return the same files, and the paths of the project's files that they were built from."""
    files, sources = build_held(project, None, noted=noted, require=require)
    contents = {
        name: Path(content).read_bytes() if isinstance(content, str) else b"".join(content)
        for name, content in files.items()
    }
    return contents, sources


@_names_table
def build_held(
    project: Project,
    hold: Path | None,
    *,
    noted: bool = True,
    require: Callable[[Project], object] | None = None,
) -> tuple[dict[str, Content], list[str]]:
    """Return the same files, and the paths of the project's files that they were built from.

    With a folder to *hold* hits, a hit is not returned as bytes, but as the path of a link in that folder.
    """
    if project.is_skipped:
        project.warn("HATCH_CUBIN_SKIP is set: the bundle has no kernels")
        empty = layout.lay_out([], {"data_model": DATA_MODEL, "skipped": True, "toolchain": {}}, 0)
        return empty, needed_files(project, by_name=True)
    layout.refuse_foreign(project.root / project.bundle_folder)  # like a wrong package, before any compile
    if project.config.pack:
        from ..compiling.packing import require_packer  # lazy: only with `pack`

        require_packer(project)
    with _seldom_collected():
        plan = choose_plan(project, require, hold, in_part=True)
        results = bake(project, plan, noted=noted, hold=hold, packs=project.config.pack)
        built = (
            layout.Built(job.unit, results.done[job.unit], job.keys, job.declared_types)
            for job in _shipped(plan)
        )
        headers = outside_inputs(plan.jobs) if plan.headers is None else plan.headers
        bill = sbom.bill(project, plan.jobs, plan.toolkit, headers)
        header = _header(project, plan.toolkit)
        files = layout.lay_out(built, header, plan.toolkit.major, results.packed)
        return {**files, sbom.NAME: [bill]}, named_files(project, plan.jobs)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python collect garbage less often: it would search a large plan repeatedly without finding any."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_names_table
def choose_plan(
    project: Project,
    require: Callable[[Project], object] | None = None,
    hold: Path | None = None,
    *,
    in_part: bool = False,
    followed: bool = False,
) -> Plan:
    """Return the plan of a build: from the project's lock if it fits, otherwise from the installed toolkit.

    *require* is called before the toolkit is used, and may raise an error that says how to install it.
    Results that are found in the cache for this are linked in the folder *hold*. With *followed*, headers are
    searched with the installed toolkit in any case.
    """
    project.warn_of_variables()
    plan = _chosen_plan(project, require, hold, in_part=in_part, followed=followed)
    table = project.config.place.file
    if any(each.where is not None and each.where.path == table for each in plan.refused):
        raise SourceError(*plan.refused)  # known before anything is compiled
    if not plan.refused:  # only the whole project shows it
        for warning in outside_headers(project, plan.jobs):
            project.warn(warning.with_code())
        for notice in unread_macros(project, plan.jobs):
            project.inform(notice.with_code())
    return plan


def _chosen_plan(
    project: Project,
    require: Callable[[Project], object] | None,
    hold: Path | None,
    *,
    in_part: bool,
    followed: bool,
) -> Plan:
    sources = read_sources(project)
    verdict = locked_build.evaluate(project, sources, hold, find_results=not followed)
    if verdict is not None and verdict.results is not None:
        for note in verdict.plan.notes:
            project.inform(note)
        plan = Plan(verdict.plan.toolkit, verdict.plan.jobs, verdict.plan.recall)
        return plan._replace(headers=verdict.lock.headers, found=verdict.results, remote=verdict.remote)
    if require is not None:
        require(project)
    with locked_build.explain_missing_compiler(project, verdict):
        plan = make_plan(project, sources, in_part=in_part)
    if verdict is None:
        return plan
    plan = plan._replace(remote=verdict.remote)
    changes = verdict.plan.changes or lock_comparison.differences_of_jobs(
        verdict.lock, plan.jobs, plan.toolkit
    )
    if changes:
        locked_build.refuse_if_locked(
            project, changes, locked_build.install_command(project) or lock_format.HINT
        )
        locked_build.report_stale(project, changes)
    return plan._replace(
        jobs=tuple(lock_comparison.with_locked_results(verdict.lock, plan.jobs)), lock=verdict.lock
    )


def with_producers(project: Project, sources: ProjectSources) -> ProjectSources:
    """Return all sources of a project; producers run if their texts are not known yet."""
    if sources.is_complete:
        return sources
    from ..producing.produced_sources import complete  # lazy: only with producers

    return complete(project, sources)


@_names_table
def make_plan(project: Project, sources: ProjectSources | None = None, *, in_part: bool = False) -> Plan:
    """Return the plan of a build without a lock: every unit, with its headers and its keys.

    A header that cannot be read is an error, unless the plan is made *in part*, without its units.
    """
    sources = with_producers(project, read_sources(project) if sources is None else sources)
    ptx = any(source.is_ptx for source in sources)
    install = requirements.install_command(project.config, project.environ, assembles=ptx)
    recall = recall_of(project)
    toolkit = Toolkit(project.config.toolkit, install, recall.facts)
    refused: list[Problem] | None = [] if in_part else None
    jobs = make_jobs(project, sources, toolkit, recall, refused)
    return Plan(toolkit, tuple(jobs), recall, tuple(refused or ()))


@_names_table
def bake(
    project: Project, plan: Plan, *, noted: bool = True, hold: Path | None = None, packs: bool = False
) -> Results:
    """Return the result of every unit. One error names all units that fail, after all others are stored."""
    results = attempt(project, plan, noted=noted, hold=hold, packs=packs)
    require(results, plan.toolkit, plan.refused)
    if plan.lock is not None:
        done = [(job, results.done[job.unit].sha256) for job in plan.jobs]
        locked_build.check_results(project, plan.lock, done)
    return results


def attempt(
    project: Project, plan: Plan, *, noted: bool = True, hold: Path | None = None, packs: bool = False
) -> Results:
    """Return the results, with the failed and missing units. With *packs*, pack them if all succeeded."""
    start = time.monotonic()
    user_folders.sweep()
    with contextlib.ExitStack() as at_the_end:
        with open_cache(project, hold) as cache:
            for doubt in (plan.toolkit.doubt, user_folders.fallback_warning()):
                if doubt is not None:
                    project.warn(doubt)
            remote = plan.remote or build_store.open_store(project, cache, plan.jobs, plan.toolkit)
            fetch = None if remote is None else partial(build_store.fetch, remote)
            results = look_up(plan.jobs, cache, plan.found, fetch)
            at_the_end.callback(write_report, project, results)
            complete(project, plan.jobs, cache, plan.toolkit, results)
            if remote is not None:
                _exchange_with_store(project, remote, plan.jobs, results)
            seconds = time.monotonic() - start
            if noted:  # also if packing fails: each of these results is correct
                at_the_end.callback(_note, project, plan, results, cache)
            if packs and not plan.refused and len(results.done) == len(plan.jobs):
                from ..compiling.packing import pack  # lazy: only with `pack`

                results.packed = pack(project, _shipped(plan), results.done, cache, plan.recall)
        report(project, results, seconds)
    return results


def _exchange_with_store(
    project: Project, remote: SharedStore, jobs: Iterable[Job], results: Results
) -> None:
    """Upload results that the store is missing, if this build may write; count what was exchanged."""
    done = [job for job in jobs if job.unit in results.done]
    if project.is_switched_on(REMOTE_WRITE):
        remote.push([job.keys.key for job in done])
    results.fetched = {job.unit for job in done if job.keys.key in remote.fetched}
    results.remote = remote.facts


def _note(project: Project, plan: Plan, results: Results, cache: Cache) -> None:
    """Record the facts that the next builds may reuse, and the hits of this build."""
    found = _found(plan, results, cache)
    if results.packed:
        from ..compiling.packing import recalled  # lazy: only with `pack`

        found |= recalled(results.packed, cache)
    plan.recall.record(plan.toolkit.facts, found)
    keys = [job.keys.key for job in plan.jobs if job.unit in results.done]
    hits = len(keys) - len(results.seconds)
    keys += results.packed.results if results.packed else ()
    counts = {
        "hits": hits,
        "misses": len(plan.jobs) - hits,
        "fetched": len(results.fetched),
        "seconds": round(sum(results.seconds.values()), 3),
    }
    history.note(project.cache_folder, project.root, counts, keys)


def _shipped(plan: Plan) -> list[Job]:
    """Return the jobs whose results are in the bundle: all except objects, which are only linked."""
    return [job for job in plan.jobs if not job.unit.module.part_of]


def failures(project: Project, results: Results, plan: Plan) -> Sequence[Problem]:
    """Return the problems of the units without a result."""
    try:
        _names_table(lambda _project: require(results, plan.toolkit, plan.refused))(project)
    except HatchCubinError as exc:
        return exc.problems
    return ()


def _found(plan: Plan, results: Results, cache: Cache) -> dict[str, Units]:
    """Return the facts about each module that has a result which was not recalled."""
    found: dict[str, Units] = {}
    for module_digest, units in itertools.groupby(plan.jobs, key=lambda job: job.module_digest):
        pairs = [(job, results.done[job.unit]) for job in units if job.unit in results.done]
        if not all(compiled.recalled for _job, compiled in pairs):
            found[module_digest] = {
                str(job.unit.arch): (job.keys, _known(job, compiled, cache.record_stamp(job.keys.key)))
                for job, compiled in pairs
            }
    return found


def _known(job: Job, compiled: Compiled, record: str) -> RecalledResult:
    described = kernel_parameters.described(job.unit, compiled, job.declared_types)
    description = describe(compiled.kernels, compiled.warnings, described)
    return RecalledResult(compiled.sha256, compiled.size, record, description)


def open_cache(project: Project, hold: Path | None = None) -> Cache:
    """Return the project's cache; with a folder to *hold* hits, it puts links to them there."""
    signing = None
    if project.uses_signatures:
        from ..cache.signing import signing_of  # lazy: only with signatures

        signing = signing_of(project)
    return Cache(project.cache_folder, project.config.cache_size, project.warn, hold, signing)


def build_in_place(project: Project, rebuild: layout.Rebuild, *, linked: bool = False) -> None:
    """Write the bundle into the tree, unpacked, with the files by which an editable install notices edits.

    *linked*: the install consists of links to these files, in another folder. Then the files have to name
    the project's folder.
    """
    notes = {}
    project = replace(project, config=replace(project.config, pack=False))
    if not project.is_skipped:  # read before the build: an edit during the build counts as an edit
        root = project.root.as_posix() if linked else None
        sources = needed_files(project)
        notes = layout.describe_editable(project.tree, project.bundle_folder, sources, rebuild, root)
    files = build(project)
    files.pop(sbom.NAME, None)
    folder = project.root / project.bundle_folder
    layout.write(files | notes, folder, project.root)


def make_lock(project: Project) -> Lock:
    """Compile missing units, and return the lock of all units."""
    sources = with_producers(project, read_sources(project))
    plan = make_plan(project, sources, in_part=True)
    results = {unit: found.sha256 for unit, found in bake(project, plan).done.items()}
    return _described(project, plan, sources, results)


class LockCheck(NamedTuple):
    """The differences between a lock and its project, and the parts that could not be compared."""

    changes: Sequence[str]
    unchecked: Sequence[str] = ()


def check_lock(project: Project, found: Lock) -> LockCheck:
    """Return the differences between a lock and the lock that would be written now. Nothing is compiled.

    Producers run, unless their texts are known from an earlier build, or a package that they need is missing.
    """
    sources, unchecked = read_sources(project), [*_producers_without_requirements(project)]
    changes = lock_comparison.plan_by_lock(found, project, sources).changes
    if changes or unchecked:
        return LockCheck(changes, unchecked)
    sources = with_producers(project, sources)
    plan = make_plan(project, sources)
    if changes := lock_comparison.differences_of_jobs(found, plan.jobs, plan.toolkit):
        return LockCheck(changes)
    now = _described(project, plan, sources, lock_comparison.locked_digests(found, plan.jobs))
    return LockCheck(lock_comparison.differences(found, now))


def _producers_without_requirements(project: Project) -> Iterator[str]:
    for rule in project.config.producer:
        if missing := installed_wheels.unmet(rule.requires):
            shown = ", ".join(map(installed_wheels.shown, missing))
            yield f"the texts of {rule.name} were not compared, because it needs packages: {shown}"


def _described(
    project: Project, plan: Plan, sources: ProjectSources, results: Mapping[Unit, str | None]
) -> Lock:
    everything = every_closure(project, sources, plan.toolkit, plan.recall, plan.jobs)
    lock = lock_comparison.make_lock(project, everything, plan.toolkit, plan.jobs, results)
    if not project.config.producer:
        return lock
    from ..lockfile.locked_texts import locked_producers  # lazy: only with producers

    return lock._replace(producers=locked_producers(project, sources))


def needed_files(project: Project, *, by_name: bool = False) -> list[str]:
    """Return every file of the project that its kernels can be built from: sources and headers.

    *by_name* leaves out headers that only a computed include could reach, and files of producers.
    """
    return [path for path in _reachable(project, by_name=by_name) if not lies_outside(path)]


def sdist_files(project: Project) -> dict[str, Path]:
    """Return the files that an sdist needs, and the lock: the path on the disk by the path in the sdist.

    Warns about files outside the project, because an sdist cannot have them.
    """
    found = _reachable(project)
    for path in filter(lies_outside, found):
        what = "lies outside the project: sdists do not have it, so kernels that include it fail there"
        project.warn(problem("header-outside-project", what, Location(path), NEARER).with_code())
    own = [lock_format.NAME] if os.path.isfile(project.root / lock_format.NAME) else []
    inside = (path for path in found if not lies_outside(path))
    tree = project.tree
    return {tree.path_in_sdist(path): tree.disk_path(path) for path in (*own, *inside)}


@_names_table
def _reachable(project: Project, *, by_name: bool = False) -> list[str]:
    try:
        found = reachable_files(project, read_sources(project), by_name=by_name)
        if by_name or not project.config.producer:
            return found
        from ..producing.produced_sources import files_for_producers  # lazy: only with producers

        return sorted({*found, *files_for_producers(project)})
    except HatchCubinError:
        if project.is_skipped:  # a bundle without kernels does not need correct sources
            return []
        raise


def _header(project: Project, toolkit: Toolkit) -> dict[str, Any]:
    toolchain = {"cuda_core": toolkit.core, **toolkit.compilers}
    return {"data_model": DATA_MODEL, "folder": project.bundle_folder, "toolchain": toolchain}
