"""Compile on the workers of the configured cluster, or on this machine if no worker can compile."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ConfigError, ToolchainError, problem
from ...keys.jobs import Job
from ...project.project import Project
from ...toolkit.toolkit import Toolkit
from .. import cores, executor
from ..compiler_paths import CompilePaths
from ..executor import Next, Result, Setup, Task
from ..tasks import folders_of
from . import identity, worker_side
from .scheduler import LeaseScheduler, NoWorkersLeftError, Terms
from .shipped_files import SourceArchive, can_be_sent, pack
from .worker_side import BuildRequirements
from .workers import Cluster, exception_text

_GROUP = "hatch_cubin.executors"
_LOCAL = ",local"


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """The compiles that a cluster runs for a build; the task with the number N compiles *jobs*[N]."""

    project: Project
    jobs: Sequence[Job]
    toolkit: Toolkit
    paths: CompilePaths
    upcoming: Next
    accepts: Callable[[Result], bool]
    why_wrong: Callable[[Result], str | None]
    setup: Setup


def results(work: ClusterWork, where: str) -> Generator[Result]:
    """Compile on the cluster with the address *where*, and yield the result of each task."""
    name = where.removesuffix(_LOCAL)
    if here := sum(not (job.linked or can_be_sent(job)) for job in work.jobs):
        count = f"{here} of {len(work.jobs)} compiles"
        work.project.inform(
            f"{count} run on this machine, because other machines may not have the included files"
        )
    if not any(map(can_be_sent, work.jobs)):
        yield from executor.run(work.upcoming, work.setup, work.accepts)
        return
    staying: list[Task] = []

    def next_for_cluster() -> Task | None:
        while (task := work.upcoming(None, ())) is not None:
            if can_be_sent(work.jobs[task.id]):
                # A precompiled header cannot be sent to a worker, because only the process that made it can
                # use it.
                return replace(task, precompiled_header=None)
            staying.append(task)
        return None

    try:
        yield from _scheduler(work, name, next_for_cluster).results()
    except NoWorkersLeftError as exc:
        if name == where:
            what = f"{name} has no worker that can compile for this build"
            details, hint = (*exc.why, *exc.reasons), exc.hint or _hint(work, exc.reasons)
            raise ToolchainError(problem("no-usable-worker", what, hint=hint, details=details)) from None
        what = f"{name} has no worker that can compile for this build, so this machine compiles the rest"
        work.project.warn(problem("no-usable-worker", what, details=exc.why).with_code())
        staying += exc.left
    left = deque(staying)
    yield from executor.run(
        lambda held, others: left.popleft() if left else work.upcoming(held, others), work.setup, work.accepts
    )


def _scheduler(work: ClusterWork, name: str, upcoming: Callable[[], Task | None]) -> LeaseScheduler:
    project = work.project
    if not work.paths.descriptors:
        what = f"{project.as_written('HATCH_CUBIN_EXECUTOR')}: only builds on Linux can use a cluster"
        hint = "on systems other than Linux, paths in the compiled code would differ from machine to machine"
        raise ToolchainError(problem("cluster-needs-linux", what, hint=hint))
    jobs = [job for job in work.jobs if can_be_sent(job)]
    archive = pack(jobs, work.paths, folders_of(jobs))
    wanted = "system" if project.config.toolkit == "system" else None
    requirements = BuildRequirements(identity.local_identity(work.toolkit), wanted)
    slots = project.config.jobs or cores.available_cores()
    terms = Terms(
        archive.listing.digest, project.config.timeout_s, len(work.jobs), project.warn, work.why_wrong
    )
    return LeaseScheduler(upcoming, _cluster_of(project, name, requirements, archive, slots), terms)


def _cluster_of(
    project: Project, name: str, requirements: BuildRequirements, archive: SourceArchive, slots: int
) -> Cluster:
    try:
        return _cluster(name, requirements, archive, slots)
    # The message names the setting, because the error is in the value that the user has set.
    except ConfigError as exc:
        said = project.as_written("HATCH_CUBIN_EXECUTOR")
        raise ConfigError(*(each._replace(what=f"{said}: {each.what}") for each in exc.problems)) from exc


def _cluster(name: str, requirements: BuildRequirements, archive: SourceArchive, slots: int) -> Cluster:
    scheme, mark, rest = name.partition("://")
    if mark and scheme in {"dask", "tls"}:
        from .dask import DaskCluster

        return DaskCluster(name, f"tcp://{rest}" if scheme == "dask" else name, requirements, archive)
    from .plain_executor import ExecutorCluster

    made = (
        _make_executor(_factory_of_scheme(scheme), name, name)
        if mark
        else _make_executor(_factory_of_module(name), name)
    )
    whole = worker_side.PackedArchive(
        requirements, archive.listing, worker_side.packed([*archive.blobs.values()])
    )
    return ExecutorCluster(name, made, whole, slots)


def _factory_of_scheme(scheme: str) -> Callable[..., Any]:
    """Return the function that an installed package provides for a URL scheme such as `dask`."""
    from importlib.metadata import entry_points

    known = entry_points(group=_GROUP)
    offers = {each.value: each for each in known if each.name == scheme}
    if len(offers) == 1:
        return _load_factory(offers.popitem()[1].load, scheme)
    # hatch-cubin does not choose one of the packages, because the chosen package would receive the project's
    # sources.
    if offers:
        what = f"several installed packages provide {scheme}://"
        hint = f"uninstall all of these packages except one: {', '.join(sorted(offers))}"
        raise ConfigError(problem("ambiguous-executor", what, hint=hint))
    names = ", ".join(sorted({"dask", "tls", *(each.name for each in known)}))
    what = f"no installed package provides {scheme}://"
    hint = f"possible values: {names}, or module:function"
    raise ConfigError(problem("unknown-executor", what, hint=hint))


def _factory_of_module(name: str) -> Callable[..., Any]:
    module, _colon, function = name.partition(":")
    return _load_factory(lambda: getattr(importlib.import_module(module), function), name)


def _load_factory(load: Callable[[], Any], name: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = load()
    except (Exception, SystemExit) as exc:  # The function that the user has named may raise any exception.
        what = f"{name} cannot be imported: {exception_text(exc)}"
        raise ConfigError(problem("executor-import-failed", what)) from exc
    return found


def _make_executor(function: Callable[..., Any], name: str, *arguments: str) -> Executor:
    try:
        made = function(*arguments)
    except (Exception, SystemExit) as exc:  # The function that the user has named may raise any exception.
        raise ConfigError(problem("executor-raised", f"{name} raised {exception_text(exc)}")) from exc
    if not isinstance(made, Executor):
        kind = type(made).__name__
        what = f"{name} must return a concurrent.futures.Executor, not {kind}"
        raise ConfigError(problem("not-an-executor", what))
    return made


def _hint(work: ClusterWork, reasons: Iterable[str]) -> str:
    if any("this build" in reason for reason in reasons):
        return identity.remedy(identity.local_identity(work.toolkit))
    return (
        f"finished results are in the cache; add '{_LOCAL}' to the cluster's name "
        "to compile the rest on this machine"
    )
