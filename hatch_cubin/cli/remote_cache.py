"""`hatch-cubin cache push` and `pull`: upload a project's results to the shared store, or download them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..common.sizes import count
from ..errors import CheckError, ConfigError, Problem, problem
from .verb_base import Answer, open_project, require_compiler, size

if TYPE_CHECKING:
    from ..cache.entries import Cache
    from ..keys.jobs import Job
    from ..remote.shared_store import SharedStore

_Exchange = Callable[["SharedStore", "Cache", "Sequence[Job]"], tuple[dict[str, int], str]]


def push(args: argparse.Namespace) -> Answer:
    """Upload the project's compiled results that are in the cache folder but not in the shared store."""

    def give(remote: SharedStore, _cache: Cache, jobs: Sequence[Job]) -> tuple[dict[str, int], str]:
        remote.push([job.keys.key for job in jobs])
        return {}, f"{len(remote.pushed)} pushed"

    return _exchange_results(args, give)


def pull(args: argparse.Namespace) -> Answer:
    """Download the project's compiled results that are missing from the cache folder."""

    def take(remote: SharedStore, cache: Cache, jobs: Sequence[Job]) -> tuple[dict[str, int], str]:
        from ..remote import build_store

        lacking = [job for job in jobs if job.cached_result(cache) is None]
        build_store.fetch(remote, lacking)
        missing = sum(job.keys.key not in remote.fetched for job in lacking)
        counts = {"local": len(jobs) - len(lacking), "missing": missing}
        return counts, f"{counts['local']} cached, {len(lacking) - missing} fetched, {missing} missing"

    return _exchange_results(args, take)


def _exchange_results(args: argparse.Namespace, exchange: _Exchange) -> Answer:
    project = open_project(args)
    if project.config.remote_cache is None:
        what = "no shared store is configured"
        hint = 'add the URL of a store, for example: remote-cache = "https://cache.example.org/cubins"'
        missing = problem("no-shared-store", what, project.config.place.of(), hint)
        raise ConfigError(project.config.with_table(missing))
    require_compiler(project)
    from ..building import pipeline
    from ..remote import build_store

    plan, said = pipeline.make_plan(project), list[str]()
    with pipeline.open_cache(project) as cache:
        listening = replace(project, warn=said.append)
        remote = build_store.open_store(listening, cache, plan.jobs, plan.toolkit)
        if remote is None:
            raise CheckError(*_problems(said))
        counts, done = exchange(remote, cache, plan.jobs)
    facts: dict[str, Any] = {"units": len(plan.jobs), **counts, **remote.facts}
    units = count(len(plan.jobs), "unit")
    lines = [facts["url"], f"{units}: {done}, {size(facts['bytes'])}"]
    return Answer(facts, lines, _problems(said))


def _problems(said: Iterable[str]) -> list[Problem]:
    return [problem("shared-store-failed", each) for each in said]
