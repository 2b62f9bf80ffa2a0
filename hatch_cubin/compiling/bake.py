"""Compile the modules whose code is missing from the cache, store the results, and explain errors."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING

from ..cache.entries import Cache, CacheEntry, Compiled
from ..errors import Location, Problem, ToolchainError, problem
from ..keys.edited_headers import EditedHeaders, header_stamps
from ..keys.jobs import Job, files_of
from ..planning.unit_plan import Module, Unit
from ..project.project import Project
from ..toolkit.toolkit import Toolkit
from . import cores, diagnostics, executor, precompiled_headers
from .claims import CompileClaims
from .compiler_paths import CompilePaths
from .diagnostics import Diagnostic, failure
from .inline_assembly import with_source_lines
from .outcome import code_of, outcome_of, why_wrong
from .results import Results, archs_of, repeat_warnings
from .source_warnings import TextFindings, result_warnings, text_findings
from .storing import Storing
from .tasks import folders_for, make_scratch, make_tasks, served_together

if TYPE_CHECKING:
    from .cluster.sample_check import Sample
    from .hints.failed_compile import FailedCompile

_EDITED = "was changed while the build compiled a source that includes this file"
_PATIENCE_S = (
    # The longest time, in seconds, to wait for another build that compiles the same module. The other build
    # may hang.
    300.0
)
_MOST_TRIED = 16


class Bake:
    """Compiles the units (modules for one arch) of a build that are missing from the cache."""

    def __init__(
        self, project: Project, jobs: Sequence[Job], cache: Cache, toolkit: Toolkit, results: Results
    ) -> None:
        self._project, self._cache, self._toolkit, self._results = project, cache, toolkit, results
        misses = (job for job in jobs if job.unit not in results.done)
        # The units are sorted, so that units with the same precompiled header are next to each other.
        self._misses = served_together(
            sorted(misses, key=lambda job: (job.unit.module.source.path, job.unit.arch)), toolkit
        )
        # The paths are made from all jobs, not only from cache misses, so that the paths do not depend on the
        # cache.
        self._paths = CompilePaths(project.tree, (root for job in jobs for root in job.search))
        self._workers = min(cores.worker_count(project.config), len(self._misses))
        self._tasks = make_tasks(project, self._misses, self._paths, toolkit, self._workers)
        patience_s = min(project.config.timeout_s, _PATIENCE_S)
        keys = [[job.keys.key for job in group] for group in self._misses]
        headers = (task.precompiled_header for task in self._tasks)
        groups = [None if header is None else header.id for header in headers]
        self._claims = CompileClaims(keys, cache, self._take_stored, patience_s, groups)
        self._plain_check = precompiled_headers.PlainCompileCheck()
        self._edits = EditedHeaders(project)
        shared = {
            task.precompiled_header.id: group[0]
            for task, group in zip(self._tasks, self._misses, strict=True)
            if task.precompiled_header
        }
        self._stamps = {number: header_stamps(project, job) for number, job in shared.items()}
        self._shown_warnings: set[str] = set()
        self._sample = _sample(project.config.recheck)
        self._findings: dict[Module, TextFindings] = {}
        modules = (job.unit.module for job in jobs)
        self._texts = {module.source.path: module.source.text for module in modules}

    def run(self) -> None:
        """Compile all missing units, until every unit has a result or an error."""
        units = len(self._results.done) + sum(map(len, self._misses))
        with contextlib.ExitStack() as stack:
            self._storing = Storing(self._cache, self._claims.done, len(self._misses))
            stack.callback(self._storing.close)
            setup = self._setup(stack)
            self._progress = stack.enter_context(self._project.show_progress(units, len(self._results.done)))
            for answer in stack.enter_context(contextlib.closing(self._answers(setup))):
                for job in self._misses[answer.id]:
                    self._progress.finished(job.unit.name)
                self._process_answer(self._misses[answer.id], answer)
                if self._sample is not None:
                    self._sample.note(answer)
            if self._sample is not None:
                self._storing.settle(0)
                self._compare(self._sample, setup)
            if self._results.failed:
                self._results.tried += self._try_other_archs(setup)

    def _answers(self, setup: executor.Setup) -> Generator[executor.Result]:
        """Yield the results of all tasks.

        The results come from processes on this machine, or from the workers of a cluster.
        """
        if (where := self._project.config.executor) is None:
            return executor.run(self._upcoming, setup, self._accepts)
        from .cluster import opening  # lazy import: few builds use a cluster

        first = [group[0] for group in self._misses]
        project, toolkit, paths = self._project, self._toolkit, self._paths
        work = opening.ClusterWork(
            project, first, toolkit, paths, self._upcoming, self._accepts, self._why_wrong, setup
        )
        return opening.results(work, where)

    def _why_wrong(self, answer: executor.Result) -> str | None:
        """Return why a result from another machine cannot be the result of the task; None if it can be."""
        for job in self._misses[answer.id] if answer.ok else ():
            if (wrong := why_wrong(job.unit, answer)) is not None:
                return f"{job.unit.name}: {wrong}"
        return None

    def _compare(self, sample: Sample, setup: executor.Setup) -> None:
        """Compile a sample of the cluster's results on this machine, and compare the results.

        If a worker has returned a different result, all results of this worker are removed from the cache.
        """
        differing = [*sample.differing(self._tasks, setup, self._not_compared)]
        workers = {worker for _number, worker in differing}
        for job in (job for group in self._misses for job in group):
            if self._results.workers.get(job.unit) in workers:
                self._cache.forget(job.keys.key)
        if differing:
            raise ToolchainError(*(self._differing_result(number, worker) for number, worker in differing))

    def _differing_result(self, number: int, worker: str) -> Problem:
        unit = self._misses[number][0].unit
        what = f"worker {worker} and this machine have compiled {unit.name} to different code"
        hint = (
            "all results of this worker were removed from the cache: "
            "check the worker, or build without the worker"
        )
        return problem("worker-result-differs", what, Location(unit.module.source.path), hint)

    def _not_compared(self, number: int, why: str) -> None:
        name = self._misses[number][0].unit.name
        what = (
            f"the result of a worker for {name} was not checked, because this machine could not compile "
            f"{name}: {why}"
        )
        self._project.warn(problem("sample-not-compared", what).with_code())

    def _try_other_archs(self, setup: executor.Setup) -> list[Unit]:
        """Compile failed sources for other archs, and return the archs that work, for hints."""
        wanted = archs_of(self._results, self._toolkit).candidates()[:_MOST_TRIED]
        like = {job.unit.module: job for group in self._misses for job in group}
        trials = [[replace(like[unit.module], unit=unit)] for unit in wanted]
        tasks = make_tasks(self._project, trials, self._paths, self._toolkit, self._workers)
        left = iter([replace(task, precompiled_header=None) for task in tasks])
        return [
            wanted[answer.id]
            for answer in executor.run(lambda _held, _others: next(left, None), setup)
            if isinstance(outcome_of(wanted[answer.id], answer, []), Compiled)
        ]

    def _setup(self, stack: contextlib.ExitStack) -> executor.Setup:
        # One job of each group is enough, because all jobs of a group read the same headers.
        first = [group[0] for group in self._misses]
        folders = folders_for(first, self._paths, self._toolkit, stack)
        kinds = {task.kind for task in self._tasks}
        assembler = self._toolkit.assembler if "ptx" in kinds else ""
        tile_assembler = self._toolkit.tile_assembler if kinds & executor.TILE_KINDS else ""
        needs_scratch = assembler or tile_assembler or any(task.precompiled_header for task in self._tasks)
        return executor.Setup(
            self._toolkit.libraries,
            folders,
            self._workers,
            self._project.config.timeout_s,
            scratch=make_scratch(stack) if needs_scratch else "",
            assembler=assembler,
            tile_assembler=tile_assembler,
        )

    def _upcoming(self, held: int | None, others: Sequence[int]) -> executor.Task | None:
        """Return the next task for a worker process; None if no task is available now.

        *held* is the id of the precompiled header that the worker process has already made. *others* are the
        ids of the precompiled headers that the other worker processes have made.
        """

        def choose(left: Mapping[int | None, Sized], elsewhere: Sequence[int]) -> int | None:
            return precompiled_headers.choose_header(left, held, [*others, *elsewhere])

        self._storing.settle(len(self._misses))
        # Before this build waits for another build, it stores all its results, because the other build may be
        # waiting for them.
        while (number := self._claims.take(choose)) is None:
            if not self._storing.settle(0):
                return None
        group, task = self._misses[number], self._tasks[number]
        for job in group:
            self._progress.started(job.unit.name)
        if task.precompiled_header is not None:
            count = self._claims.left_like(number) + 1
            pays = precompiled_headers.saves_time(task.precompiled_header.id, count, held, others)
            if not pays or not self._plain_check.allows(group[0].unit):
                return replace(task, precompiled_header=None)
        return self._prepared(task, group[0])

    def _accepts(self, answer: executor.Result) -> bool:
        """Return whether a compile without a precompiled header would certainly give the result *answer*."""
        group, header = self._misses[answer.id], self._tasks[answer.id].precompiled_header
        if not answer.ok or header is None:
            return True
        # `edited`: the header may have been edited shortly before it was precompiled, and restored
        # afterwards.
        edited = answer.shared and header_stamps(self._project, group[0]) != self._stamps[header.id]
        accepted = [
            self._plain_check.accepts(
                job.unit, code_of(job.unit, answer), shared=answer.shared, edited=edited
            )
            for job in group
        ]
        return all(accepted)

    def _take_stored(self, number: int) -> bool:
        """Use the cached results of a task; return False if the cache does not have all of them."""
        group = self._misses[number]
        hits = [hit for job in group if (hit := job.cached_result(self._cache)) is not None]
        if len(hits) < len(group):
            return False
        for job, hit in zip(group, hits, strict=True):
            self._progress.found()
            self._results.done[job.unit] = hit
        repeat_warnings(self._project, hits)
        return True

    def _process_answer(self, group: Sequence[Job], answer: executor.Result) -> None:
        path = group[0].unit.module.source.path
        log = (
            answer.log
            if answer.ok
            else with_source_lines(answer.log, answer.ptx.decode("utf-8", "replace"), path)
        )
        found = diagnostics.parse_log(log, path, self._paths.readable)
        edited = self._edits.find(group[0])
        kept: list[tuple[Job, Compiled]] = []
        for job in group:
            outcome = self._outcome(job, answer, found)
            if edited is not None:
                # The compiler may have read the edited header, but the cache key was made from the header
                # before the edit. A result that was made from the edited header must not be stored with the
                # key of the original header.
                outcome = self._with_advice(
                    job, [failure("file-edited-during-build", _EDITED, Location(edited), "build again")]
                )
            if (ignored := self._ignored_tile_code(job, outcome, found)) is not None:
                outcome = self._tile_code_error(ignored, job)
            if isinstance(outcome, Compiled):
                shown = result_warnings(self._project, job, outcome, answer.output, self._texts)
                warnings = (*self._text_findings(job).warnings, *shown, *self._warnings(job, found))
                kept.append((job, replace(outcome, warnings=warnings)))
            else:
                self._results.failed.append((job.unit, outcome))
        if kept:
            self._store_results(kept, answer)
        else:
            self._claims.done(answer.id)

    def _prepared(self, task: executor.Task, _job: Job) -> executor.Task:
        """Return a complete task.

        A subclass overrides this method to add data that a build reads only when the task starts.
        """
        return task

    def _outcome(
        self, job: Job, answer: executor.Result, found: Sequence[Diagnostic]
    ) -> Compiled | list[Diagnostic]:
        """Return the result of a unit, or its errors with hints."""
        outcome = outcome_of(job.unit, answer, found)
        return outcome if isinstance(outcome, Compiled) else self._with_advice(job, outcome)

    def _text_findings(self, job: Job) -> TextFindings:
        module = job.unit.module
        if job.linked:
            return TextFindings()
        # The search results do not depend on the arch, so the headers of a module are searched only once.
        if module not in self._findings:
            self._findings[module] = text_findings(self._project, job)
        return self._findings[module]

    def _ignored_tile_code(
        self, job: Job, outcome: Compiled | list[Diagnostic], found: Iterable[Diagnostic]
    ) -> Location | None:
        """Return the location of tile code that the compiler has ignored; None if there is no such code."""
        if any(each.number == diagnostics.IGNORED_TILE_CODE for each in found):
            return self._text_findings(job).tile_code or job.unit.module.location
        return self._text_findings(job).tile_code if isinstance(outcome, Compiled) else None

    def _with_advice(self, job: Job, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        from .advice import advise  # lazy import: most compiles do not fail

        return advise(found, self._failed_compile(job))

    def _tile_code_error(self, tile_code: Location, job: Job) -> list[Diagnostic]:
        from .hints.not_cuda import tile_code_error

        return [tile_code_error(tile_code, self._failed_compile(job))]

    def _failed_compile(self, job: Job) -> FailedCompile:
        from .hints.failed_compile import FailedCompile  # lazy import: most compiles do not fail

        version, own = self._toolkit.version, tuple(files_of([job]))
        tree, config = self._project.tree, self._project.config
        return FailedCompile(tree, config, job.unit.module, job.search, own, version, self._texts)

    def _warnings(self, job: Job, found: Iterable[Diagnostic]) -> tuple[str, ...]:
        """Return the compiler's warnings about the project's own files, which the user can edit."""
        own = (each for each in found if each.is_own and each.kind == "warning")
        hinted = (self._with_hint(job, each) for each in own)
        problems = (diagnostics.as_problem(each, each.hint, each.context) for each in hinted)
        return tuple(dict.fromkeys(map(Problem.with_code, problems)))

    def _with_hint(self, job: Job, warning: Diagnostic) -> Diagnostic:
        if warning.number is None:
            # lazy import: few warnings are about `extern` variables
            from .hints.other_sources import about_extern

            failed = self._failed_compile(job)
            path = warning.where.path if warning.where else failed.path
            told = diagnostics.about_shared_array(warning, failed.text_of(path))
            return told or replace(warning, hint=about_extern(warning, failed) or warning.hint)
        if warning.number in diagnostics.MISTAKES:
            return warning
        from .hints import macros  # lazy import: most compiles have no warnings

        failed = self._failed_compile(job)
        silencing = failed.silencing(warning.number)
        hint = "; ".join(filter(None, (macros.about_warning(warning, failed), silencing)))
        return replace(warning, hint=hint)

    def _store_results(self, kept: Sequence[tuple[Job, Compiled]], answer: executor.Result) -> None:
        for warning in (warning for _job, compiled in kept for warning in compiled.warnings):
            # Each warning is printed once, because it is often the same for every arch and variant.
            if warning not in self._shown_warnings:
                self._shown_warnings.add(warning)
                self._project.warn(warning)

        def pairs() -> list[CacheEntry]:
            return [self._cache.make_entry(job.keys.key, compiled, job.inputs) for job, compiled in kept]

        # Each result is stored at once, so that it is not lost if the build is interrupted.
        self._storing.start(answer.id, pairs)
        for job, compiled in kept:
            self._results.done[job.unit] = compiled
            self._results.seconds[job.unit] = answer.seconds
            if answer.worker:
                self._results.workers[job.unit] = answer.worker


def _sample(part: float) -> Sample | None:
    if not part:
        return None
    from .cluster.sample_check import Sample  # lazy import: few builds use a cluster

    return Sample(part)
