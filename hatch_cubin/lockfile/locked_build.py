"""Decide from the lock file whether a build must fail, and which compiler it needs, if any."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..cache.entries import Cache, Compiled
from ..errors import Location, LockError, Problem, SignatureError, ToolchainError, problem
from ..keys.jobs import Job
from ..planning.unit_plan import Unit
from ..project.project import Project, ProjectSources, needed_extras
from ..remote import build_store
from ..toolkit import requirements
from . import lock_comparison, lock_format
from .lock_format import LockFile

if TYPE_CHECKING:
    from ..remote.shared_store import SharedStore

_WHY_MISSING = (
    "a build does not install a compiler if all units are in the cache when the build begins",
    "the cache was cleared, trimmed or damaged after the build began, or the build uses another cache",
)
_WHY_STALE = (
    "an isolated build installs no compiler if the lock fits and all units are cached when the build begins",
    "the project or an environment variable changed after the build began, or the build is not isolated",
)
# the errors about packages that a build front end installs
_NOT_INSTALLED = {"cuda-core-not-importable", "requirement-not-installed"}


class LockVerdict(NamedTuple):
    """The result of comparing a project's lock file with the project and with the cache."""

    lock: LockFile
    plan: lock_comparison.LockedPlan
    # all compiled results, if nothing has changed and all results are in the cache
    results: Mapping[Unit, Compiled] | None
    # the remote store, if it was searched for results that are missing in the cache
    remote: SharedStore | None
    missing: int  # the number of results that are missing in the cache, if nothing has changed
    faults: Sequence[str]  # problems with the cache folder


def evaluate(
    project: Project,
    sources: ProjectSources,
    hold: Path | None = None,
    patience_s: float | None = None,
    *,
    find_results: bool = True,
) -> LockVerdict | None:
    """Compare the project's lock file with the project and the cache; return None if there is no lock file.

    *hold* is a folder in which hard links to the cached results are made. *patience_s* is how long to wait
    for a remote store to supply results that are missing in the cache. If *find_results* is false, the
    function does not look up results in the cache, because the caller does not need results.
    """
    lock = lock_format.read(project.root)
    if lock is None:
        if project.is_switched_on(lock_format.SWITCH):
            what = f"there is no cubin.lock, and {project.as_written(lock_format.SWITCH)} is set"
            raise LockError(
                problem("lock-missing", what, hint="run 'hatch-cubin lock', and commit the lock file")
            )
        return None
    plan = lock_comparison.plan_by_lock(lock, project, sources)
    refuse_if_locked(project, plan.changes)
    is_usable = find_results and not plan.changes and not plan.doubts
    if not is_usable:
        return LockVerdict(lock, plan, None, None, 0, ())
    faults: list[str] = []
    results, remote = _results(project, plan, hold, patience_s, faults.append)
    missing = len(plan.jobs) - len(results)
    return LockVerdict(lock, plan, None if missing else results, remote, missing, faults)


def refuse_if_locked(project: Project, changes: Sequence[str], hint: str | None = None) -> None:
    """Raise LockError if the lock file is outdated and the user requires a build with the lock file."""
    if changes and project.is_switched_on(lock_format.SWITCH):
        switch = project.as_written(lock_format.SWITCH)
        setters = " and ".join(project.replaced_keys_of_units().values())
        what = f"is stale, and {switch} is set"
        if setters:
            what = f"does not match a build with {setters}, and {switch} is set"
        where = Location(lock_format.NAME)
        raise LockError(problem("lock-stale", what, where, hint or _hint(project), (*changes,)))


def _hint(project: Project) -> str:
    replaced = project.replaced_keys_of_units()
    if not replaced:
        return lock_format.HINT
    setters, keys = " and ".join(replaced.values()), " and ".join(map(repr, replaced))
    return (
        f"the lock is for the values in the table: build without {setters}; or write the value of {setters} "
        f"into {keys} of the table, and then run 'hatch-cubin lock' without {setters}"
    )


@contextlib.contextmanager
def explain_missing_compiler(project: Project, verdict: LockVerdict | None) -> Iterator[None]:
    """Explain the error if a build needs a compiler that the build did not list as a requirement."""
    try:
        yield
    except ToolchainError as exc:
        if verdict is None:
            raise
        command = install_command(project) or requirements.install_command(project.config, project.environ)
        if not verdict.missing:
            changes = verdict.plan.changes
            exc.problems = tuple(_with_changes(project, changes, each, command) for each in exc.problems)
            raise
        units, place = len(verdict.plan.jobs), project.cache_folder
        what = (
            f"{verdict.missing} of {units} units are not in the cache at {place}, "
            "and no compiler is installed to compile them"
        )
        hint = (
            "build again: an isolated build installs the compiler if units are missing when the build "
            f"begins; without isolation, run: {command}"
        )
        details = (*_WHY_MISSING, *verdict.faults, exc.problems[0].what)
        raise ToolchainError(
            problem("locked-units-missing", what, Location(lock_format.NAME), hint, details)
        ) from exc


def _with_changes(project: Project, changes: Sequence[str], error: Problem, command: str) -> Problem:
    """If packages are missing and the lock file is outdated, explain that both may have one cause."""
    # an error that has details already explains why an installed package cannot be imported
    if not changes or error.code not in _NOT_INSTALLED or error.details:
        return error
    hint = (
        f"build again: an isolated build installs all packages that it needs if {lock_format.NAME} does not "
        f"match the project when the build begins; without isolation, run: {command}"
    )
    return error._replace(details=(_stale(project, changes), *_WHY_STALE), hint=hint)


def check_results(project: Project, lock: LockFile, done: Sequence[tuple[Job, str]]) -> None:
    """Raise LockError if the user requires the lock file and results do not have the digests in it."""
    if project.is_switched_on(lock_format.SWITCH) and (
        others := lock_comparison.units_that_differ(lock, done)
    ):
        what = f"{len(others)} of {len(done)} results differ from the digests in the lock"
        raise LockError(
            problem(
                "results-differ-from-lock", what, Location(lock_format.NAME), lock_format.HINT, (*others,)
            )
        )


def install_command(project: Project) -> str | None:
    """Return the command that installs the wheels in the lock file; None if no lock file is usable."""
    lock = lock_format.read(project.root)
    if lock is None or not lock.wheels or not lock_comparison.fits_table(lock, project):
        return None
    extras = needed_extras(project)
    return requirements.locked_command(project.config, project.environ, lock.wheels, extras)


def report_stale(project: Project, changes: Sequence[str]) -> None:
    """Print that the lock file is outdated and why; the build continues without the lock file."""
    project.inform(f"{_stale(project, changes)}: {_hint(project)}")


def _stale(project: Project, changes: Sequence[str]) -> str:
    shown = changes[0] if len(changes) == 1 else f"{changes[0]}, and {len(changes) - 1} more"
    if setters := " and ".join(project.replaced_keys_of_units().values()):
        return f"{lock_format.NAME} does not match a build with {setters} ({shown})"
    return f"{lock_format.NAME} is stale ({shown})"


def _results(
    project: Project,
    plan: lock_comparison.LockedPlan,
    hold: Path | None,
    patience_s: float | None,
    warn: Callable[[str], object],
) -> tuple[Mapping[Unit, Compiled], SharedStore | None]:
    """Return the verified results, and the remote store that was searched (None if no store was searched)."""
    if hold is not None:
        (
            hold := hold / "locked"
            # A separate folder, because a build without the lock file uses the same file names.
        ).mkdir()
    signing, remote = None, None
    if project.uses_signatures:
        # Lazy import: this module is needed only for signatures.
        from ..cache.signing import Signing, signature_policy_of

        signing = Signing(policy=signature_policy_of(project))
    cache = Cache(project.cache_folder, None, warn, hold, signing)
    found: dict[Unit, Compiled] = {}
    try:
        found = _cached_results(cache, plan.jobs)
        absent = [job for job in plan.jobs if job.unit not in found]
        remote = (
            build_store.open_store(project, cache, plan.jobs, plan.toolkit, patience_s) if absent else None
        )
        if remote is not None:
            build_store.fetch(remote, absent)
            found |= _cached_results(cache, absent)
    # The wheel 'cryptography', which is needed to check signatures, is not installed yet.
    except SignatureError as exc:
        warn(exc.problems[0].what)
    return found, remote


def _cached_results(cache: Cache, jobs: Iterable[Job]) -> dict[Unit, Compiled]:
    return {job.unit: hit for job in jobs if (hit := job.cached_result(cache)) is not None}
