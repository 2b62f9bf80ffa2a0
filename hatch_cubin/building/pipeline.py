"""The whole build: plan the compiles of a project, run them, and return the files that go into the wheel."""

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
from ..cache import history, housekeeping
from ..cache.entries import Cache, Compiled, Content
from ..cache.records import RecalledResult, describe
from ..common import user_folders
from ..common.environment import REMOTE_WRITE
from ..compiling.call_options import settings_of_no_call
from ..compiling.kernels_in_headers import kernels_in_headers
from ..compiling.obtain import complete, look_up
from ..compiling.plan_warnings import (
    NEARER,
    archs_by_default,
    outside_headers,
    ptx_that_no_gpu_loads,
    replaced_settings,
    unread_macros,
)
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
from ..lockfile.lock_format import LockFile
from ..planning.unit_plan import Unit
from ..project.project import Project, ProjectSources, read_sources
from ..project.tile_kernels import kernel_kinds
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
    """Return *step*, changed so that hints to add a line to pyproject.toml name the table for the line."""

    @functools.wraps(step)
    def with_table(project: Project, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        try:
            return step(project, *arguments, **named)
        except HatchCubinError as exc:
            exc.problems = tuple(map(project.config.with_table, exc.problems))
            raise

    return with_table


class Plan(NamedTuple):
    """The compiles of a build (*jobs*), the compiler, and the records of earlier builds."""

    toolkit: Toolkit
    jobs: tuple[Job, ...]
    recall: Recall
    refused: tuple[Problem, ...] = ()  # errors of modules that cannot be compiled, such as unreadable headers
    headers: Mapping[str, str | None] | None = (
        None  # headers outside the project, if the lock file lists them
    )
    found: Mapping[Unit, Compiled] = MappingProxyType({})  # results that were already found in the cache
    remote: SharedStore | None = None  # the remote store, if requests were already sent to it
    lock: LockFile | None = None  # the content of the project's cubin.lock


def build(
    project: Project, *, noted: bool = True, require: Callable[[Project], object] | None = None
) -> dict[str, bytes]:
    """Compile what is missing from the cache, and return the files for the wheel (bytes by file name).

    The bill of materials (SBOM) is one of the returned files.

    If *noted* is true, record facts about the compiled results, so that later builds can reuse the facts. If
    the cache is temporary, *noted* must be false: later builds cannot use facts about this cache, and these
    facts would displace the facts of other builds.
    """
    files, _sources = build_with_sources(project, noted=noted, require=require)
    return files


def build_with_sources(
    project: Project, *, noted: bool = True, require: Callable[[Project], object] | None = None
) -> tuple[dict[str, bytes], list[str]]:
    """Return the files for the wheel, as `build` does, and the paths of the project's compiled files."""
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
    """Return the files for the wheel by name, and the paths of the project's files that were compiled.

    *hold* is a folder for links to cached results. If *hold* is given, a cached result is returned as the
    path of a link in this folder, and not as bytes.
    """
    if project.is_skipped:
        project.warn("HATCH_CUBIN_SKIP is set, so the wheel will not contain kernels")
        header = {"data_model": DATA_MODEL, "skipped": True, "toolchain": {}, **_fronts(project)}
        empty = layout.bundle_files([], header, 0)
        return empty, needed_files(project, by_name=True)
    # A foreign file in the bundle's folder is reported before anything is compiled.
    layout.refuse_foreign(project.root / project.bundle_folder)
    if project.config.pack:
        from ..compiling.packing import require_packer  # lazy import: needed only with the key `pack`

        require_packer(project)
    with _seldom_collected():
        plan = choose_plan(project, require, hold, in_part=True)
        results = bake(project, plan, noted=noted, hold=hold, packs=project.config.pack)
        built = (
            layout.BuiltUnit(job.unit, results.done[job.unit], job.keys, job.declared_types)
            for job in _shipped(plan)
        )
        headers = outside_inputs(plan.jobs) if plan.headers is None else plan.headers
        bill = sbom.bill(project, plan.jobs, plan.toolkit, headers)
        header = _header(project, plan.toolkit)
        files = layout.bundle_files(built, header, plan.toolkit.major, results.packed)
        return {**files, sbom.NAME: [bill]}, named_files(project, plan.jobs)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python collect garbage less often, because a collection is slow and useless for a large plan."""
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
    """Return the plan of a build: from cubin.lock if this file matches the project, else from the toolkit.

    *require* is a function that is called before the toolkit is used, and that may raise an error with an
    install command. *hold* is a folder for links to cached results. If *followed* is true, search for headers
    in the installed toolkit, even if the lock file is used.
    """
    project.warn_of_variables()
    project.warn_of_misplaced_keys()
    plan = _chosen_plan(project, require, hold, in_part=in_part, followed=followed)
    table = project.config.place.file
    if any(each.where is not None and each.where.path == table for each in plan.refused):
        # a mistake in pyproject.toml is reported before anything is compiled
        raise SourceError(*plan.refused)
    if not plan.refused:  # these warnings are wrong if only a part of the project is known
        for warning in outside_headers(project, plan.jobs):
            project.warn(warning.with_code())
        for notice in ptx_that_no_gpu_loads(project.config):
            project.inform(notice.with_code())
        checks = (
            archs_by_default,
            replaced_settings,
            settings_of_no_call,
            unread_macros,
            kernels_in_headers,
        )
        for check in checks:
            for notice in check(project, plan.jobs):
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
    texts = lock_comparison.other_texts(verdict.lock, plan.jobs)
    changes = (
        verdict.plan.changes
        or texts
        or lock_comparison.differences_of_jobs(verdict.lock, plan.jobs, plan.toolkit)
    )
    if changes:
        command = None if texts else locked_build.install_command(project)
        locked_build.refuse_if_locked(project, changes, command)
        locked_build.report_stale(project, changes)
    return plan._replace(
        jobs=tuple(lock_comparison.with_locked_results(verdict.lock, plan.jobs)), lock=verdict.lock
    )


def with_producers(project: Project, sources: ProjectSources) -> ProjectSources:
    """Return all sources of a project.

    Producers (Python functions that return sources) run only if no earlier build has saved the sources that
    they return.
    """
    if sources.is_complete:
        return sources
    from ..producing.produced_sources import complete  # lazy import: needed only for producers

    return complete(project, sources)


@_names_table
def make_plan(project: Project, sources: ProjectSources | None = None, *, in_part: bool = False) -> Plan:
    """Return the plan of a build without a lock file: every compile, with its headers and its cache keys.

    If *in_part* is true, modules with an unreadable header are left out; otherwise, such a header is an
    error.
    """
    sources = with_producers(project, read_sources(project) if sources is None else sources)
    has_ptx = any(source.is_ptx for source in sources)
    has_tile = any(kernel_kinds(source).tile for source in sources)
    extras = ["nvcc"] * has_ptx + ["tileiras"] * has_tile
    install = requirements.install_command(project.config, project.environ, extras)
    recall = recall_of(project)
    toolkit = Toolkit(project.config.toolkit, install, recall.facts)
    refused: list[Problem] | None = [] if in_part else None
    jobs = make_jobs(project, sources, toolkit, recall, refused)
    return Plan(toolkit, tuple(jobs), recall, tuple(refused or ()))


@_names_table
def bake(
    project: Project, plan: Plan, *, noted: bool = True, hold: Path | None = None, packs: bool = False
) -> Results:
    """Return the compiled code of every module for every arch.

    If compiles fail, raise one error that lists all failures. The results of all successful compiles stay in
    the cache.
    """
    results = attempt(project, plan, noted=noted, hold=hold, packs=packs)
    require(results, plan.toolkit, plan.refused)
    if plan.lock is not None:
        done = [(job, results.done[job.unit].sha256) for job in plan.jobs]
        locked_build.check_results(project, plan.lock, done)
    return results


def attempt(
    project: Project, plan: Plan, *, noted: bool = True, hold: Path | None = None, packs: bool = False
) -> Results:
    """Return the results of all compiles, including the failed compiles.

    If *packs* is true and all compiles succeed, the results are compressed together.
    """
    start = time.monotonic()
    user_folders.sweep()
    with contextlib.ExitStack() as at_the_end:
        with open_cache(project, hold) as cache:
            for doubt in (plan.toolkit.doubt, user_folders.fallback_warning()):
                if doubt is not None:
                    project.warn(doubt)
            for warning in housekeeping.shared_folder(project.cache_folder):
                project.warn(warning.with_code())
            remote = plan.remote or build_store.open_store(project, cache, plan.jobs, plan.toolkit)
            fetch = None if remote is None else partial(build_store.fetch, remote)
            results = look_up(plan.jobs, cache, plan.found, fetch)
            at_the_end.callback(write_report, project, results)
            complete(project, plan.jobs, cache, plan.toolkit, results)
            if remote is not None:
                _exchange_with_store(project, remote, plan.jobs, results)
            seconds = time.monotonic() - start
            if noted:  # facts are recorded even if `pack` fails, because the compiled results are correct
                at_the_end.callback(_note, project, plan, results, cache)
            if packs and not plan.refused and len(results.done) == len(plan.jobs):
                from ..compiling.packing import pack  # lazy import: needed only with the key `pack`

                results.packed = pack(project, _shipped(plan), results.done, cache, plan.recall)
        report(project, plan.jobs, results, seconds)
    return results


def _exchange_with_store(
    project: Project, remote: SharedStore, jobs: Iterable[Job], results: Results
) -> None:
    """Upload results that are missing from the remote store, if this build may write to the store."""
    done = [job for job in jobs if job.unit in results.done]
    if project.is_switched_on(REMOTE_WRITE):
        remote.push([job.keys.key for job in done])
    results.fetched = {job.unit for job in done if job.keys.key in remote.fetched}
    results.remote = remote.facts


def _note(project: Project, plan: Plan, results: Results, cache: Cache) -> None:
    """Record facts for later builds, and count the cache hits and cache misses of this build."""
    found = _found(plan, results, cache)
    if results.packed:
        from ..compiling.packing import recalled  # lazy import: needed only with the key `pack`

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
    """Return the compiles whose results go into the wheel: all except object files, which are only linked."""
    return [job for job in plan.jobs if not job.unit.module.part_of]


def failures(project: Project, results: Results, plan: Plan) -> Sequence[Problem]:
    """Return the problems of the compiles that failed."""
    try:
        _names_table(lambda _project: require(results, plan.toolkit, plan.refused))(project)
    except HatchCubinError as exc:
        return exc.problems
    return ()


def _found(plan: Plan, results: Results, cache: Cache) -> dict[str, Units]:
    """Return facts about each newly compiled module, for later builds to reuse."""
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
    described = kernel_parameters.describe_kernels(job.unit, compiled, job.declared_types)
    description = describe(compiled.kernels, compiled.warnings, described)
    return RecalledResult(compiled.sha256, compiled.size, record, description)


def open_cache(project: Project, hold: Path | None = None) -> Cache:
    """Return the project's cache.

    *hold* is a folder in which the cache makes links to cached results.
    """
    signing = None
    if project.uses_signatures:
        from ..cache.signing import signing_of  # lazy import: needed only for signatures

        signing = signing_of(project)
    return Cache(project.cache_folder, project.config.cache_size, project.warn, hold, signing)


def build_in_place(project: Project, rebuild: layout.RebuildCommand, *, linked: bool = False) -> None:
    """Build the kernels of an editable install, and write them into the source tree.

    The kernels are not compressed. The function also writes the file `editable.json`, by which the loader
    notices edits of the sources.

    *linked* is true if the editable install is a folder with links to the written files. If *linked* is true,
    `editable.json` contains the absolute path of the project's folder, because a relative path from the
    folder with the links would not lead to the project.
    """
    notes = {}
    project = replace(project, config=replace(project.config, pack=False))
    # the sources are read before the build, so that an edit during the build is noticed
    if not project.is_skipped:
        root = project.root.as_posix() if linked else None
        inputs = layout.EditableInputs(needed_files(project), project.config.place.content)
        notes = layout.describe_editable(project.tree, project.bundle_folder, inputs, rebuild, root)
    files = build(project)
    files.pop(sbom.NAME, None)
    folder = project.root / project.bundle_folder
    layout.write(files | notes, folder, project.root)


def make_lock(project: Project) -> LockFile:
    """Compile what is missing from the cache, and return the content of a new lock file."""
    sources = with_producers(project, read_sources(project))
    plan = make_plan(project, sources, in_part=True)
    results = {unit: found.sha256 for unit, found in bake(project, plan).done.items()}
    return _described(project, plan, sources, results)


class LockCheck(NamedTuple):
    """The differences between cubin.lock and the project, and parts of the project that were not compared."""

    changes: Sequence[str]
    unchecked: Sequence[str] = ()
    unstable: Sequence[str] = ()  # the generated texts that differ between two runs of their producers


def check_lock(project: Project, found: LockFile) -> LockCheck:
    """Return the differences between cubin.lock and a new lock file for the project, without compiling.

    Producers (Python functions that return sources) do not run if a package that they need is missing.
    """
    sources, unchecked = read_sources(project), [*_producers_without_requirements(project)]
    changes = lock_comparison.plan_by_lock(found, project, sources).changes
    if changes or unchecked:
        return LockCheck(changes, unchecked)
    sources = with_producers(project, sources)
    plan = make_plan(project, sources)
    if texts := lock_comparison.other_texts(found, plan.jobs):
        return LockCheck(texts, unstable=[*_unstable_texts(project, sources)])
    if changes := lock_comparison.differences_of_jobs(found, plan.jobs, plan.toolkit):
        return LockCheck(changes)
    now = _described(project, plan, sources, lock_comparison.locked_digests(found, plan.jobs))
    return LockCheck(lock_comparison.differences(found, now))


def _unstable_texts(project: Project, sources: ProjectSources) -> Iterator[str]:
    """Run the producers again, and yield a sentence for each text that differs between the two runs."""
    again = {source.path: source.text for source in with_producers(project, read_sources(project))}
    for source in sources:
        lines = itertools.zip_longest(source.text.split("\n"), again.get(source.path, "").split("\n"))
        differing = ((number, *pair) for number, pair in enumerate(lines, 1) if len({*pair}) > 1)
        for number, first, second in itertools.islice(differing, 1):
            yield (
                f"{source.path}:{number}: two runs of the producer returned different lines, "
                f"{first!r:.80} and {second!r:.80}"
            )


def _producers_without_requirements(project: Project) -> Iterator[str]:
    for rule in project.config.producer:
        if missing := installed_wheels.unmet(rule.requires):
            packages = ", ".join(map(installed_wheels.shown, missing))
            yield (
                f"the texts of the producer {rule.name} were not compared with the lock, "
                f"because the producer needs packages that are not installed: {packages}"
            )


def _described(
    project: Project, plan: Plan, sources: ProjectSources, results: Mapping[Unit, str | None]
) -> LockFile:
    everything = every_closure(project, sources, plan.toolkit, plan.recall, plan.jobs)
    lock = lock_comparison.make_lock(project, everything, plan.toolkit, plan.jobs, results)
    if not project.config.producer:
        return lock
    from ..lockfile.locked_texts import locked_producers  # lazy import: needed only for producers

    return lock._replace(producers=locked_producers(project, sources))


def needed_files(project: Project, *, by_name: bool = False) -> list[str]:
    """Return all files of the project that a compile may read: sources and headers.

    If *by_name* is true, leave out the files of producers, and headers that are included only by lines such
    as `#include HEADER`, in which HEADER is a macro.
    """
    return [path for path in _reachable(project, by_name=by_name) if not lies_outside(path)]


def sdist_files(project: Project) -> dict[str, Path]:
    """Return the files that an sdist needs to build the kernels, by their paths in the sdist.

    Warn about files outside the project, because an sdist cannot contain them.
    """
    found = _reachable(project)
    for path in filter(lies_outside, found):
        what = (
            "is outside the project, so sdists do not contain this header, "
            "and kernels that need the header do not compile from an sdist"
        )
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
        from ..producing.produced_sources import files_for_producers  # lazy import: needed only for producers

        return sorted({*found, *files_for_producers(project)})
    except HatchCubinError:
        if project.is_skipped:  # a build without kernels must not fail because of wrong sources
            return []
        raise


def _header(project: Project, toolkit: Toolkit) -> dict[str, Any]:
    toolchain = {"cuda_core": toolkit.core, **toolkit.compilers}
    header = {"data_model": DATA_MODEL, "folder": project.bundle_folder, "toolchain": toolchain}
    return {**header, **_fronts(project)}


def _fronts(project: Project) -> dict[str, Any]:
    """Return the manifest entry with the libraries (such as CuPy) that may load kernels from the wheel."""
    fronts = project.config.fronts(runs_producers=not project.is_skipped)
    return {"fronts": sorted(fronts)} if fronts else {}
