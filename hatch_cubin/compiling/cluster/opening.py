"""Compile where the build's settings say: on the workers of a cluster, or here if they cannot do it."""

from __future__ import annotations

import importlib
import re
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
from .scheduler import Crew, NoneLeftError, Terms
from .shipped_files import Parcel, pack, travels
from .worker_side import Asked
from .workers import Fleet, said

_GROUP = "hatch_cubin.executors"
_LOCAL = ",local"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a build: a job for each task number, the next task, and how to compile here."""

    project: Project
    jobs: Sequence[Job]
    toolkit: Toolkit
    paths: CompilePaths
    upcoming: Next
    accepts: Callable[[Result], bool]
    misfit: Callable[[Result], str | None]
    setup: Setup


def results(work: Work, where: str) -> Generator[Result]:
    """Yield each task's result as it is done, by the workers that *where* leads to."""
    name = where.removesuffix(_LOCAL)
    if here := sum(not (job.linked or travels(job)) for job in work.jobs):
        count = f"{here} of {len(work.jobs)} compiles"
        work.project.inform(f"{count} stay here: what they include, others may not have")
    if not any(map(travels, work.jobs)):
        yield from executor.run(work.upcoming, work.setup, work.accepts)
        return
    staying: list[Task] = []

    def away() -> Task | None:
        while (task := work.upcoming(None, ())) is not None:
            if travels(work.jobs[task.id]):
                return replace(task, prelude=None)  # a precompiled header serves only one process
            staying.append(task)
        return None

    try:
        yield from _crew(work, name, away).results()
    except NoneLeftError as exc:
        if name == where:
            what = f"{name} has no worker that can compile what is missing"
            details, hint = (*exc.why, *exc.reasons), exc.hint or _hint(work, exc.reasons)
            raise ToolchainError(problem("no-usable-worker", what, hint=hint, details=details)) from None
        what = f"{name} has no worker that can compile what is missing: that is compiled here"
        work.project.warn(problem("no-usable-worker", what, details=exc.why).with_code())
        staying += exc.left
    left = deque(staying)
    yield from executor.run(
        lambda held, others: left.popleft() if left else work.upcoming(held, others), work.setup, work.accepts
    )


def _crew(work: Work, name: str, upcoming: Callable[[], Task | None]) -> Crew:
    project = work.project
    if not work.paths.descriptors:
        what = f"{project.as_written('HATCH_CUBIN_EXECUTOR')}: only Linux can have others compile"
        hint = "elsewhere, paths would differ from machine to machine"
        raise ToolchainError(problem("cluster-needs-linux", what, hint=hint))
    jobs = [job for job in work.jobs if travels(job)]
    parcel = pack(jobs, work.paths, folders_of(jobs))
    wanted = "system" if project.config.toolkit == "system" else None
    asked = Asked(identity.of(work.toolkit), wanted)
    slots = project.config.jobs or cores.count()
    terms = Terms(parcel.listing.digest, project.config.timeout_s, len(work.jobs), project.warn, work.misfit)
    return Crew(upcoming, _fleet_of(project, name, asked, parcel, slots), terms)


def _fleet_of(project: Project, name: str, asked: Asked, parcel: Parcel, slots: int) -> Fleet:
    try:
        return _fleet(name, asked, parcel, slots)
    except ConfigError as exc:  # about the user's own setting
        said = project.as_written("HATCH_CUBIN_EXECUTOR")
        raise ConfigError(*(each._replace(what=f"{said}: {each.what}") for each in exc.problems)) from exc


def _fleet(name: str, asked: Asked, parcel: Parcel, slots: int) -> Fleet:
    scheme, mark, rest = name.partition("://")
    if mark and scheme in {"dask", "tls"}:
        from .dask import DaskFleet

        return DaskFleet(name, f"tcp://{rest}" if scheme == "dask" else name, asked, parcel)
    from .plain_executor import PlainFleet

    made = _called(_of_scheme(scheme), name, name) if mark else _called(_of_module(name), name)
    whole = worker_side.Parcel(asked, parcel.listing, worker_side.packed([*parcel.blobs.values()]))
    return PlainFleet(name, made, whole, slots)


def _of_scheme(scheme: str) -> Callable[..., Any]:
    """Return the function that an installed package offers for a URL's scheme."""
    from importlib.metadata import entry_points

    known = entry_points(group=_GROUP)
    offers = {each.value: each for each in known if each.name == scheme}
    if len(offers) == 1:
        return _loaded(offers.popitem()[1].load, scheme)
    if offers:  # the chosen package gets the project
        what = f"several installed packages know {scheme}://"
        hint = f"uninstall all but one: {', '.join(sorted(offers))}"
        raise ConfigError(problem("ambiguous-executor", what, hint=hint))
    names = ", ".join(sorted({"dask", "tls", *(each.name for each in known)}))
    what = f"no installed package knows {scheme}://"
    hint = f"there are: {names}, and module:function"
    raise ConfigError(problem("unknown-executor", what, hint=hint))


def _of_module(name: str) -> Callable[..., Any]:
    module, _colon, function = name.partition(":")
    return _loaded(lambda: getattr(importlib.import_module(module), function), name)


def _loaded(load: Callable[[], Any], name: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = load()
    except (Exception, SystemExit) as exc:  # the user's code may raise anything
        what = f"{name} cannot be imported: {said(exc)}"
        address = re.search(r":[0-9]+$", name)  # users know a scheduler by its address
        hint = f"for a Dask scheduler, write dask://{name}" if address else None
        raise ConfigError(problem("executor-import-failed", what, hint=hint)) from exc
    return found


def _called(function: Callable[..., Any], name: str, *arguments: str) -> Executor:
    try:
        made = function(*arguments)
    except (Exception, SystemExit) as exc:  # the user's code may raise anything
        raise ConfigError(problem("executor-raised", f"{name} raised {said(exc)}")) from exc
    if not isinstance(made, Executor):
        kind = type(made).__name__
        what = f"{name} must return a concurrent.futures.Executor, not {kind}"
        raise ConfigError(problem("not-an-executor", what))
    return made


def _hint(work: Work, reasons: Iterable[str]) -> str:
    if any("this build" in reason for reason in reasons):
        return identity.remedy(identity.of(work.toolkit))
    return f"what was compiled is in the cache; '{_LOCAL}' behind the name compiles here what is left"
