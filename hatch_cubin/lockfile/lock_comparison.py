"""Make the lock file of a project, and later compare the project with its lock file."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..cache.records import RecalledResult
from ..common import file_access, read_limits
from ..common.digest import digest, file_digest
from ..errors import HatchCubinError
from ..headers import absent_includes
from ..headers.includes import Closure
from ..headers.resolve import FOLDERS, OWN, SearchFolder, content_digest
from ..keys.ingredients import settings_of
from ..keys.jobs import Job, ModuleWithHeaders, every_module, file_digests, outside_inputs
from ..keys.recall import Recall, recall_of_locked
from ..planning import unit_plan
from ..planning.unit_plan import Module, Unit
from ..project.project import Project, ProjectSources
from ..project.source import Source
from ..toolkit import requirements
from ..toolkit.toolkit import DATA_MODEL, Facts, Keys, Toolkit
from .lock_format import LockFile

# The fields of a module's entry in the lock file that are results; all other fields are settings of the
# project.
_RESULT_FIELDS = {"headers", "types", "units"}
_NAMES_OF_BUILDS = {"core": "cuda-core", "nvrtc": "NVRTC", "nvjitlink": "nvJitLink", "tileiras": "tileiras"}


class LockedPlan(NamedTuple):
    """The units (modules for one arch) that a lock file lists, and the reasons not to use the lock file."""

    toolkit: Toolkit
    jobs: tuple[Job, ...]
    recall: Recall
    notes: tuple[str, ...]
    changes: tuple[str, ...]  # The differences between the project and its lock file.
    # Possible differences from the lock file that only a build with a compiler can find.
    doubts: tuple[str, ...]


def make_lock(
    project: Project,
    all_modules: Sequence[ModuleWithHeaders],
    toolkit: Toolkit,
    jobs: Sequence[Job],
    results: Mapping[Unit, str | None],
) -> LockFile:
    """Make the content of a project's lock file from its *jobs* and the digests of the known *results*.

    *all_modules* are all modules with their headers, including modules that the build does not compile
    because another source includes the module's source. The caller adds the facts about producers (functions
    that generate sources) to the lock file's content.
    """
    files, built = file_digests(jobs), {job.unit.module.source.path for job in jobs}
    pairs = [(module, closure) for module, closure, _search in all_modules]
    headers = outside_inputs(jobs)
    return LockFile(
        generator=__version__,
        data_model=DATA_MODEL,
        toolkit=project.config.toolkit,
        header_packages=[*project.config.packages],
        builds=_builds(toolkit),
        wheels=requirements.versions(
            project.config,
            toolkit.major,
            filter(headers.get, headers),
            toolkit.extras,
        ),
        headers=headers,
        files=files,
        of_parts={path: content for path, content in _every_file(pairs) if path not in files},
        absent=absent_includes.absent_names(project.tree, absent_includes.tried_paths(pairs)),
        producers={},
        parts={
            module.full_name: settings_of(module)
            for module, _closure in pairs
            if module.source.path not in built
        },
        unsure=sorted(
            {module.source.path for module, closure, search in all_modules if is_unsure(closure, search)}
        ),
        modules=_modules(jobs, results),
    )


def _builds(toolkit: Toolkit) -> dict[str, Any]:
    """Return the versions of those tools of the toolkit that this project needs, for the lock file."""
    facts = toolkit.facts._replace(nvjitlink=toolkit.nvjitlink_if_loaded, tileiras=toolkit.tileiras_if_used)
    return {**facts._asdict(), "supported": [*facts.supported]}


def _every_file(closures: Iterable[tuple[Module, Closure]]) -> Iterator[tuple[str, str]]:
    for module, closure in closures:
        yield module.source.path, module.source.sha256
        own = closure.own.items()
        yield from ((logical[len(OWN) :], content) for logical, content in own if logical.startswith(OWN))


def _modules(jobs: Iterable[Job], results: Mapping[Unit, str | None]) -> dict[str, dict[str, Any]]:
    modules: dict[str, dict[str, Any]] = {}
    for job in jobs:
        module = job.unit.module
        entry = modules.setdefault(module.full_name, settings_of(module) | _header_facts(job))
        entry.setdefault("units", {})[str(job.unit.arch)] = [*job.keys.hex(), results.get(job.unit)]
    return modules


def _header_facts(job: Job) -> dict[str, Any]:
    """Return those facts about a module that depend on headers outside the project."""
    found = {} if job.unit.module.part_of else job.declared_types()
    types = {kernel: [*each] for kernel, each in found.items()}
    return {"headers": job.closure.digest()} | ({"types": types} if types else {})


def is_unsure(closure: Closure, search: Sequence[SearchFolder]) -> bool:
    """Return whether files that the lock file does not list can change which headers a source reads.

    A file that the lock file does not list can change which headers are found if a header has an absolute
    path, or if the name in an `#include MACRO` is not known.
    """
    outside = {root.tree for root in search if root.tree}
    return (
        any(logical.startswith("/") for logical in closure.own)
        or any(tree.startswith(FOLDERS) for tree in closure.trees)
        or (closure.guessed and closure.trees >= outside)
    )


def plan_by_lock(lock: LockFile, project: Project, sources: ProjectSources) -> LockedPlan:
    """Without loading CUDA libraries, return the units that the lock file of *project* lists."""
    toolkit = Toolkit(None, facts=Facts(**{**lock.builds, "supported": tuple(lock.builds["supported"])}))
    changes = [*_other_settings(lock, project)]
    planned = unit_plan.UnitPlan(())
    if not sources.is_complete:
        # Lazy import: needed only for producers (functions that generate sources).
        from .locked_texts import with_locked_texts

        sources, others = with_locked_texts(lock.producers, project, sources)
        changes += others
        if not sources.is_complete:
            return LockedPlan(toolkit, (), Recall(None), (), tuple(changes), ())
    changes += _other_files(lock, project, sources)
    try:
        modules = every_module(project, sources, toolkit)
        names = {module.full_name for module in modules}
        changes += [f"{name} is gone" for name in sorted({*lock.modules, *lock.parts} - names)]
        left = [module for module in modules if lock.parts.get(module.full_name) != settings_of(module)]
        planned = unit_plan.plan_units(left, toolkit.toolchain())
    except (
        HatchCubinError
    ) as exc:  # the error makes the lock file unusable; the build without the lock file reports the error
        changes += [problem.what for problem in exc.problems]
    changes += _other_units(lock, planned.units)
    recall = Recall(None) if changes or lock.unsure else recall_of_locked(project)
    jobs = () if changes else tuple(_jobs(lock, planned.units, toolkit, recall))
    doubts = tuple(f"the includes of {path} depend on the compiler's headers" for path in lock.unsure)
    return LockedPlan(toolkit, jobs, recall, planned.notes, tuple(dict.fromkeys(changes)), doubts)


def fits_table(lock: LockFile, project: Project) -> bool:
    """Return whether the lock file was made for the current settings `toolkit` and `header-packages`."""
    written = project.config.toolkit, [*project.config.packages]
    return (lock.toolkit, [*lock.header_packages]) == written


def _other_settings(lock: LockFile, project: Project) -> Iterator[str]:
    pairs = {
        "the version of hatch-cubin": (lock.generator, __version__),
        "the data model": (lock.data_model, DATA_MODEL),
        "toolkit": (lock.toolkit, project.config.toolkit),
        "header-packages": ([*lock.header_packages], [*project.config.packages]),
    }
    for name, (before, now) in pairs.items():
        if before != now:
            yield f"{name} was {_shown(before)}, and is now {_shown(now)}"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _other_files(lock: LockFile, project: Project, sources: Iterable[Source]) -> Iterator[str]:
    known = {source.path: source.sha256 for source in sources}
    files = {**lock.of_parts, **lock.files}
    yield from (f"{path} is new" for path in sorted(known.keys() - files.keys()))
    for path, content in files.items():
        now = known.get(path) or content_digest(project.tree.disk_path(path))
        if now != content:
            disk_path = project.tree.disk_path(path)
            exists = path in known or os.path.exists(disk_path)
            yield _change(path, disk_path, content) if exists else f"{path} is gone"
    for path in absent_includes.appeared_paths(project.tree, lock.absent):
        yield f"{path} is new, and an include may find this file"


def _change(path: str, disk_path: Path, locked: str) -> str:
    """Return how the file *path* differs from the file whose digest is in the lock file."""
    with contextlib.suppress(OSError):  # the file is not readable, or a producer returns its text
        lf = file_access.read(disk_path, read_limits.SOURCE).replace(b"\r\n", b"\n")
        if locked in {file_digest(lf), file_digest(lf.replace(b"\n", b"\r\n"))}:
            line = f"*{disk_path.suffix or disk_path.name} text eol=lf"
            return (
                f"{path} differs only in its line ends, LF or CRLF: write the line '{line}' in "
                ".gitattributes, save the file with LF, and then write the lock again"
            )
    return f"{path} is changed"


def _other_units(lock: LockFile, units: Iterable[Unit]) -> Iterator[str]:
    """Yield the units and settings that differ from the lock file.

    Archs that the project no longer builds are left out.
    """
    seen: set[Module] = set()
    for unit in units:
        module = unit.module
        locked = lock.modules.get(module.full_name)
        if locked is None:
            yield f"{module.full_name} is new"
        elif str(unit.arch) not in locked["units"]:
            yield f"{unit.name} is not in the lock"
        elif module not in seen:
            seen.add(module)
            before = {name: value for name, value in locked.items() if name not in _RESULT_FIELDS}
            now = settings_of(module)
            yield from (
                f"{name} of {module.full_name} is changed"
                for name in sorted({*before, *now})
                if before.get(name) != now.get(name)
            )


def _jobs(lock: LockFile, units: Iterable[Unit], toolkit: Toolkit, recall: Recall) -> Iterator[Job]:
    """Yield one job per unit (a module for one arch).

    Each job lists all files in the lock file as its headers, because the lock file does not say which job
    reads which file.
    """
    closure = Closure({OWN + path: content for path, content in lock.files.items()})
    for module, of_module in itertools.groupby(units, key=lambda unit: unit.module):
        if module.link:
            _ = toolkit.nvjitlink  # reading this attribute marks the tool as used
        elif module.source.is_ptx:
            _ = toolkit.ptxas  # reading this attribute marks the tool as used
        elif module.is_tile:
            _ = toolkit.tileiras  # reading this attribute marks the tool as used
        entry = lock.modules[module.full_name]
        module_digest = digest(["locked", json.dumps(entry, sort_keys=True)])
        recalled, declared = recall.units(module_digest), partial(dict[str, Any], entry.get("types", {}))
        for unit in of_module:
            key, program_key, sha256 = entry["units"][str(unit.arch)]
            keys, known = recalled.get(str(unit.arch), (None, None))
            if known is None or keys != Keys.of(key, program_key) or known.sha256 != sha256:
                known = expected_result(sha256)
            yield Job(
                unit, Keys.of(key, program_key), (), closure, toolkit, module_digest, known, (), declared
            )


def expected_result(sha256: str | None) -> RecalledResult | None:
    """Return requirements for a cached result: it must have the digest that is in the lock file."""
    return None if sha256 is None else RecalledResult(sha256, 0, "", "")


def with_locked_results(lock: LockFile, jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield *jobs* with the digests that the lock file contains for their results.

    Even an outdated lock file has the right digest for a cache key, because the key covers all inputs of the
    compile.
    """
    digests = _digests(lock)
    for job in jobs:
        sha256 = digests.get(job.keys.key.hex())
        if sha256 is None or (job.recorded is not None and job.recorded.sha256 == sha256):
            yield job
        else:
            yield replace(job, recorded=expected_result(sha256))


def units_that_differ(lock: LockFile, done: Iterable[tuple[Job, str]]) -> list[str]:
    """Return the names of the units in *done* whose results do not have the digests in the lock file."""
    digests = _digests(lock)
    return [job.unit.name for job, sha256 in done if digests.get(job.keys.key.hex()) not in {None, sha256}]


def _digests(lock: LockFile) -> dict[str, str | None]:
    """Return a mapping from cache key to digest for the compiled results in the lock file."""
    return {unit[0]: unit[2] for module in lock.modules.values() for unit in module["units"].values()}


def differences_of_jobs(lock: LockFile, jobs: Sequence[Job], toolkit: Toolkit) -> tuple[str, ...]:
    """Return how *jobs* differ from the lock file because of a new toolkit.

    The function assumes that the project has not changed.
    """
    other = [job.unit.name for job in jobs if _unit(lock, job)[0] != job.keys.key.hex()]
    before, now = lock.builds, _builds(toolkit)
    builds = [
        f"{name} was {_shown(before[field])}, and is now {_shown(now[field])}"
        for field, name in _NAMES_OF_BUILDS.items()
        if before[field] != now[field]
    ]
    return (*builds, *(f"{name} has a different cache key" for name in other))


def other_texts(lock: LockFile, jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return a sentence for each generated source text whose digest differs from the lock file."""
    locked = {text["sha256"] for entry in lock.producers.values() for text in entry["texts"].values()}
    sources = {job.unit.module.source.path: job.unit.module.source for job in jobs}
    return tuple(
        f"{path}: {source.produced.producer} has returned a different text for the same inputs: "
        "if an installed package has changed, write a new lock; "
        "if the function returns a different text at each call, correct the function"
        for path, source in sources.items()
        if source.produced and source.sha256 not in locked
    )


def _unit(lock: LockFile, job: Job) -> Sequence[str | None]:
    """Return a unit's entry in the lock file.

    All values are None if the unit does not have an entry.

    The entry may be missing although the project has not changed: a build does not compile a source that
    another source includes, so the lock file has no units of the included source. If this build rejects the
    including source, the build compiles the included source after all, although the lock file has no entry
    for it.
    """
    units = lock.modules.get(job.unit.module.full_name, {"units": {}})["units"]
    return units.get(str(job.unit.arch), (None, None, None))  # type: ignore[no-any-return]


def locked_digests(lock: LockFile, jobs: Iterable[Job]) -> dict[Unit, str | None]:
    """Map the unit of each job to the digest that the lock file contains for the unit's result."""
    return {job.unit: _unit(lock, job)[2] for job in jobs}


def differences(lock: LockFile, now: LockFile) -> list[str]:
    """Return a sentence for each field in which the contents of two lock files differ."""
    return [
        f"'hatch-cubin lock' would change the field {name.replace('_', '-')!r}"
        for name, before, after in zip(LockFile._fields, lock, now, strict=True)
        if before != after
    ]
