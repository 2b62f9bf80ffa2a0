"""Compile what the cache lacks: tasks out, results in, every failure worded."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import _diagnostics, _elf, _executor, _headers, _home, _names, _prelude, runtime
from ._advice import advise
from ._arch import Arch
from ._cache import Cache, Compiled
from ._cuda import Toolkit, compiler_options, preamble
from ._diagnostics import Diagnostic
from ._jobs import Job, changed_header
from ._paths import CompilePaths
from ._plan import Unit
from ._project import Project
from ._sources import ptx_entries
from ._turns import Turns
from .errors import CompileError, Location, MissError, Problem

_EDITED = "was changed while a source that includes it was compiled"
_PATIENCE_S = 300.0  # with a build that was stopped or hangs while it compiles what this one needs too
_FIRST_WITH_PRELUDES = (12, 9)  # of those that take a seed for random names: nothing stands before the source
_FIRST_WITHOUT_TIMES = (13, 4)  # of files, in debug information
_NO_KERNEL_HINT = (
    "a template is compiled only where 'instantiate' names it; device functions alone are no kernel"
)


@dataclass(slots=True)
class Results:
    """What is known of every unit: found in the cache, compiled in so many seconds, failed or missing."""

    done: dict[Unit, Compiled] = field(default_factory=dict)
    seconds: dict[Unit, float] = field(default_factory=dict)
    failed: list[tuple[Unit, list[Diagnostic]]] = field(default_factory=list)
    missing: list[Unit] = field(default_factory=list)


def obtain(project: Project, jobs: Sequence[Job], cache: Cache, toolkit: Toolkit) -> Results:
    """Return what came of every unit: its result, from the cache or compiled, or why there is none."""
    found = {job.unit: cache.get(job.keys.key) for job in jobs}
    results = Results({unit: hit for unit, hit in found.items() if hit is not None})
    misses = [job for job in jobs if job.unit not in results.done]
    _repeat_warnings(project, results.done.values())
    if cache.damaged:
        project.warn(f"damaged cache entries, built again: {cache.damaged}")
    if misses and project.asks("HATCH_CUBIN_REQUIRE_HITS"):
        results.missing = [job.unit for job in misses]
    elif misses:
        _compile(project, jobs, cache, toolkit, results)
        results.failed.sort(key=lambda item: (item[0].module.name, item[0].arch))
    return results


def _repeat_warnings(project: Project, hits: Iterable[Compiled]) -> None:
    """Say again what was heard when they were compiled, to those who want to hear everything."""
    if project.verbose:
        for warning in dict.fromkeys(each for hit in hits for each in hit.warnings):
            project.warn(warning)


def require(results: Results, toolkit: Toolkit) -> None:
    """Raise an error that names all that failed, or all that is missing."""
    if results.missing:
        raise MissError(*map(_unwanted, results.missing))
    if results.failed:
        raise CompileError(*_problems(results, toolkit))


def _unwanted(unit: Unit) -> Problem:
    path = unit.module.source.path
    what = f"{unit.name} is not in the cache, and HATCH_CUBIN_REQUIRE_HITS is set"
    return Problem(what, Location(path), f"'hatch-cubin explain {shlex.quote(path)}' says what differs")


def _compile(project: Project, jobs: Sequence[Job], cache: Cache, toolkit: Toolkit, results: Results) -> None:
    misses = [job for job in jobs if job.unit not in results.done]
    misses.sort(key=lambda job: (job.unit.module.source.path, job.unit.arch))  # those together that share
    # Named for all jobs, so that no name depends on what is cached already.
    paths = CompilePaths(project.root, (root for job in jobs for root in job.search))
    workers = min(project.config.jobs or _cores(), len(misses))
    tasks = _tasks(project, misses, paths, toolkit, workers)
    shares = any(task.prelude for task in tasks)
    patience_s = min(project.config.timeout_s, _PATIENCE_S)
    said: set[str] = set()

    def found_late(number: int, hit: Compiled) -> None:
        progress.found()
        results.done[misses[number].unit] = hit
        _repeat_warnings(project, [hit])

    def due() -> Iterator[_executor.Task | None]:
        for number in turns:
            if number is None:
                yield None
            else:
                progress.started(misses[number].unit.name)
                yield tasks[number]

    with contextlib.ExitStack() as stack:
        folders = _folders(misses, paths, toolkit, stack)
        scratch = _scratch(stack) if shares else ""
        limit_s = project.config.timeout_s
        setup = _executor.Setup(toolkit.libraries, folders, workers, limit_s, scratch=scratch)
        progress = stack.enter_context(project.units(len(jobs), len(results.done)))
        turns = Turns([job.keys.key for job in misses], cache, found_late, patience_s)
        for answer in stack.enter_context(contextlib.closing(_executor.run(due(), setup))):
            job = misses[answer.id]
            progress.finished(job.unit.name)
            path = job.unit.module.source.path
            found = _diagnostics.parse_log(answer.log, path, paths.readable)
            outcome = _outcome(job.unit, answer, found)
            if (edited := changed_header(project, job)) is not None:
                # Its bytes are of another header than its key: stored, they would be stale for ever.
                outcome = [Diagnostic("error", Location(edited), _EDITED, hint="build again")]
            if not isinstance(outcome, Compiled):
                folder_of = functools.partial(_headers.folder_of, project.root)
                advised = advise(outcome, folder_of, toolkit.version, project.config.toolkit)
                results.failed.append((job.unit, advised))
                turns.done(answer.id)
                continue
            outcome = replace(outcome, warnings=(*job.warnings, *_warnings(found)))
            for warning in outcome.warnings:
                if warning not in said:  # the same for every arch and variant
                    said.add(warning)
                    project.warn(warning)
            # Stored at once, so that an interrupted build goes on from here.
            cache.put(job.keys.key, outcome, job.keys.inputs)
            turns.done(answer.id)
            results.done[job.unit] = outcome
            results.seconds[job.unit] = answer.seconds


def _folders(
    jobs: Sequence[Job], paths: CompilePaths, toolkit: Toolkit, stack: contextlib.ExitStack
) -> Mapping[int, str]:
    """Return what the compiler's descriptors stand for: the folders, or copies without their times."""
    if toolkit.version >= _FIRST_WITHOUT_TIMES or not any(
        job.unit.module.options.get(name) for job in jobs for name in ("lineinfo", "debug")
    ):
        return paths.descriptors
    return paths.copies(Path(_scratch(stack)), (job.closure for job in jobs))


def _scratch(stack: contextlib.ExitStack) -> str:
    """Return a temporary folder that goes with *stack*."""
    folder = _home.make_temporary()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)


def _warnings(found: Iterable[Diagnostic]) -> tuple[str, ...]:
    """Return the compiler's warnings, but those about headers that are not the project's to change."""
    own = (each for each in found if each.where is None or not each.where.path.startswith("<"))
    problems = (
        Problem(each.text, each.where, each.hint, each.context) for each in own if each.kind == "warning"
    )
    return tuple(dict.fromkeys(map(str, problems)))


def _tasks(
    project: Project, jobs: Sequence[Job], paths: CompilePaths, toolkit: Toolkit, workers: int
) -> list[_executor.Task]:
    """Return a task for each job; those of one source and arch share their includes where that pays."""
    tasks = [_task(number, job, paths, toolkit) for number, job in enumerate(jobs)]
    if not paths.descriptors or toolkit.version < _FIRST_WITH_PRELUDES:
        return tasks
    first: dict[tuple[str, Arch], int] = {}
    for number, end in _prelude.shared_includes(jobs, project.root, workers).items():
        unit, search = jobs[number].unit, tuple(map(paths.of_root, jobs[number].search))
        shared = replace(unit, module=_prelude.without_variant(unit.module))
        prelude = _executor.Prelude(
            first.setdefault((unit.module.source.path, unit.arch), number),
            unit.module.source.text[:end].encode(),
            compiler_options(shared, toolkit, search),
            _prelude.behind_includes(unit.module, end).encode(),
        )
        tasks[number] = replace(tasks[number], prelude=prelude)
    return tasks


def _task(number: int, job: Job, paths: CompilePaths, toolkit: Toolkit) -> _executor.Task:
    unit, source = job.unit, job.unit.module.source
    options = compiler_options(unit, toolkit, tuple(map(paths.of_root, job.search)))
    text = source.text.encode()
    if source.is_ptx:
        return _executor.Task(number, "ptx", text, source.path.encode(), options)
    # Quoted includes are searched in the folder of the name; the line directive makes diagnostics,
    # __FILE__ and debug information say the project-relative path all the same.
    code = f'{preamble(unit, toolkit)}#line 1 "{source.path}"\n'.encode() + text
    kind = "c++ to ptx" if unit.arch.is_ptx else "c++"
    instantiate = tuple(name.encode() for name in unit.module.instantiate)
    return _executor.Task(number, kind, code, paths.of_source(source.path).encode(), options, instantiate)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _outcome(
    unit: Unit, result: _executor.Result, found: Sequence[Diagnostic]
) -> Compiled | list[Diagnostic]:
    """Return a result that can be loaded, its kernels named, or what is wrong with it."""
    source = unit.module.source
    if not result.ok:
        return [each for each in found if each.kind == "error"] or [_unreadable(result.log, source.path)]
    symbols = {runtime.normal_name(spelled): symbol for spelled, symbol in result.symbols.items()}
    wrong, hint = None, None
    if unit.arch.is_ptx and not source.is_ptx:
        kernels = ptx_entries(result.output.decode())
    else:
        try:
            cubin = _elf.read_cubin(result.output)
        except ValueError as exc:
            return [Diagnostic("error", Location(source.path), f"the compiler's result {exc}")]
        kernels = cubin.kernels
        if not cubin.loadable:
            wrong, hint = "the result is relocatable and cannot be loaded", None
    if not kernels and wrong is None:
        wrong = "compiled to nothing: there is no kernel in it"
        hint = None if source.is_ptx else _NO_KERNEL_HINT
    if wrong is not None:
        return [Diagnostic("error", Location(source.path), wrong, hint=hint)]
    data = source.text.encode() if source.is_ptx and unit.arch.is_ptx else result.output
    return Compiled(data, _names.spelled_names(kernels, symbols))


def _unreadable(log: str, path: str) -> Diagnostic:
    lines = log.strip().splitlines() or ["the compiler failed and said nothing"]
    return Diagnostic("error", Location(path), lines[0], tuple(lines[1:20]))


def _problems(results: Results, toolkit: Toolkit) -> Iterator[Problem]:
    """Word what failed: each diagnostic once, and the archs that would have worked."""
    failing: dict[str, set[Arch]] = defaultdict(set)
    working: dict[str, set[Arch]] = defaultdict(set)
    for unit, _found in results.failed:
        failing[unit.module.source.path].add(unit.arch)
    for unit in results.done:
        working[unit.module.source.path].add(unit.arch)
    pairs = [(each, unit) for unit, found in results.failed for each in found]
    for problem, units in _diagnostics.merge(pairs, toolkit.compiler_of):
        path = units[0].module.source.path
        good = [str(arch) for arch in sorted(working[path] - failing[path])]
        if good and problem.hint is None:
            archs = ", ".join(f'"{arch}"' for arch in good)
            yield replace(problem, hint=f'it compiles with [[source]] path = "{path}", archs = [{archs}]')
        else:
            yield problem
