"""Divide the compiles of a project between several CI jobs: each job compiles one part (a shard).

The shard of each compile depends only on the project and on reports of earlier builds, not on the cache,
because each CI job has a different cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..common import read_limits, user_folders
from ..common.natural_order import by_number
from ..compiling.precompiled_headers import header_path
from ..compiling.shards import Compile, assign_jobs, scaled_weights
from ..compiling.tasks import served_together
from ..errors import ConfigError, Location, problem
from ..keys.jobs import Job
from ..planning.unit_plan import Unit
from ..project.project import Project
from ..toolkit.toolkit import Toolkit, assembled_for

# Estimates of the time that a compile takes: _ANY milliseconds for each compile, _INSTANCE milliseconds for
# each template instantiation, and 1 millisecond for _SOURCE_BYTES of source or _HEADER_BYTES of headers.
_ANY, _INSTANCE, _SOURCE_BYTES, _HEADER_BYTES = 30, 50, 100, 5000
_LONGEST_S = 1e7  # a report with a longer compile is invalid
_HINT = "a build with HATCH_CUBIN_REPORT=FILE writes a report to this file"


class Shard(NamedTuple):
    """The number of a CI job (counted from 1), and the number of all CI jobs that divide the work."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard for a text such as '2/8', or raise ValueError if the text is invalid."""
        number, slash, count = text.partition("/")
        digits = all(part.isascii() and part.isdigit() and len(part) < 6 for part in (number, count))
        if not (slash and digits and 1 <= int(number) <= int(count)):
            last = int(count) if digits else 0
            valid = f"from 1/{last} to {last}/{last}" if last else "such as 2/8"
            raise ValueError(f"must be the number of a job and the number of all jobs, {valid}, not {text!r}")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


class Share(NamedTuple):
    """The compiles of one CI job, and facts about the compiles of all CI jobs for the JSON output."""

    jobs: tuple[Job, ...]
    facts: Mapping[str, Any]


def share(
    project: Project, jobs: Sequence[Job], toolkit: Toolkit, shard: Shard, reports: Sequence[str]
) -> Share:
    """Divide the compiles *jobs* into shards, and return the compiles that belong to *shard*.

    *reports* are files with the compile times of earlier builds.
    """
    in_order = sorted(jobs, key=lambda job: (by_number(job.unit.module.name), job.unit.arch))
    groups = {_name(group[0], toolkit): group for group in _compiled_together(in_order, toolkit)}
    headers = _Headers(project)
    guesses = {
        name: sum(_guess(each[0], headers) for each in served_together(group, toolkit))
        for name, group in groups.items()
    }
    known = _known(groups, reports, toolkit)
    if reports and (new := len(groups) - len(known)):
        project.inform(
            f"{new} of {len(groups)} compiles are not in the reports, so their times are estimated"
        )
    weight = scaled_weights(guesses, known)
    dealt = assign_jobs(
        (Compile(name, _family(group[0], toolkit), weight[name]) for name, group in groups.items()),
        shard.of,
    )
    loads = [0] * shard.of
    for name, number in dealt.items():
        loads[number] += weight[name]
    mine = {job.unit for name, group in groups.items() if dealt[name] == shard.number - 1 for job in group}
    part = loads[shard.number - 1] / max(1, sum(loads))
    project.inform(f"shard {shard}: {len(mine)} of {len(jobs)} units, {part:.1%} of the work")
    facts = {"number": shard.number, "of": shard.of, "weights": loads}
    return Share(tuple(job for job in jobs if job.unit in mine), {"shard": facts})


def _compiled_together(jobs: Sequence[Job], toolkit: Toolkit) -> list[list[Job]]:
    """Return groups of compiles that the same CI job must do, such as a link and the object files for it."""
    groups = served_together(jobs, toolkit)
    if not any(job.linked for job in jobs):
        return groups
    place = {job.unit: number for number, group in enumerate(groups) for job in group}
    # The groups that must be in the same part form a tree. For each group, this list contains the number of
    # its parent in the tree.
    first = [*range(len(groups))]

    def home(unit: Unit) -> int:
        number = place[unit]
        while first[number] != number:
            first[number] = number = first[first[number]]
        return number

    for job in jobs:  # links that share an object must be in the same part
        mine = {home(job.unit), *(home(each.unit) for each in job.linked if each.unit is not None)}
        for number in mine:
            first[number] = min(mine)
    joined: dict[int, list[Job]] = {}
    for job in jobs:
        joined.setdefault(home(job.unit), []).append(job)
    return [*joined.values()]


def _name(job: Job, toolkit: Toolkit) -> str:
    return f"{job.unit.module.name} for {assembled_for(job.unit, toolkit)}"


def _family(job: Job, toolkit: Toolkit) -> str:
    """Return a name that all variants of a source share, because variants can share a precompiled header."""
    return f"{job.unit.module.source.path} for {assembled_for(job.unit, toolkit)}"


def _known(groups: Mapping[str, Sequence[Job]], reports: Sequence[str], toolkit: Toolkit) -> dict[str, int]:
    """Return the compile times in milliseconds of those groups of compiles whose times are in a report."""
    names = {job.unit.module.name for group in groups.values() for job in group}
    seconds: dict[tuple[str, str], float] = {}
    for path in reports:
        found = _seconds(path)
        if found and names.isdisjoint(module for module, _arch in found):
            what = "is the report of another project: it contains no module of this project"
            raise ConfigError(problem("report-of-other-project", what, Location(path), _HINT))
        seconds |= {unit: took for unit, took in found.items() if took}
    took = {
        name: sum(
            max(seconds.get((job.unit.module.name, str(job.unit.arch)), 0.0) for job in each)
            for each in served_together(group, toolkit)
        )
        for name, group in groups.items()
    }
    return {name: round(1000 * longest) for name, longest in took.items() if longest}


def _seconds(path: str) -> dict[tuple[str, str], float]:
    """Return the compile times in a report by module and arch; the time of a cache hit is 0."""
    try:
        with user_folders.open_retained(Path(path), read_limits.INDEX) as file:
            report = json.loads(file.read())
        return {
            (str(unit["module"]), str(unit["arch"])): _positive(unit["seconds"]) for unit in report["units"]
        }
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise ConfigError(problem("file-not-readable", what, Location(path), _HINT)) from exc
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as exc:
        raise ConfigError(
            problem("not-a-build-report", "is not a build report", Location(path), _HINT)
        ) from exc


def _positive(value: Any) -> float:
    if not 0 <= (seconds := float(value)) < _LONGEST_S:
        raise ValueError(value)
    return seconds


def _guess(job: Job, headers: _Headers) -> int:
    module = job.unit.module
    own = len(module.source.text) // _SOURCE_BYTES + _INSTANCE * len(module.instantiate)
    return _ANY + own + headers.bytes_of(job) // _HEADER_BYTES


class _Headers:
    """Calculates the total size of the headers that a compile can read, in the same way on all machines."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._files: dict[str, int] = {}  # the size of each header
        self._closures: dict[int, int] = {}  # the total size of a set of headers, which many compiles share

    def bytes_of(self, job: Job) -> int:
        if id(job.closure) not in self._closures:
            self._closures[id(job.closure)] = sum(self._size(job, logical) for logical in job.closure.files)
        return self._closures[id(job.closure)]

    def _size(self, job: Job, logical: str) -> int:
        if logical not in self._files:
            try:
                size = header_path(job, self._project.tree, logical).stat().st_size
            except OSError:  # another process has removed the header, and the compile will report this
                size = 0
            self._files[logical] = size
        return self._files[logical]
