"""Compile everything that is missing from the cache, without making a wheel.

The next build of the wheel finds all compiled results in the cache. If a compile fails, or if this command is
interrupted, the results that are already finished stay in the cache.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import ConfigError, Problem, problem
from ..verb_base import (
    Answer,
    archs_argument,
    check_build,
    jobs,
    json_argument,
    locked_argument,
    open_project,
    project_arguments,
    require_compiler,
    size,
)

if TYPE_CHECKING:
    from ...building.pipeline import Plan
    from ...building.sharding import Shard
    from ...keys.jobs import Job
    from ...project.project import Project


T = TypeVar("T")


_SLOWEST = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    project_arguments(parser)
    archs_argument(parser)
    locked_argument(parser)
    parser.add_argument("--jobs", metavar="N", type=jobs, help="run N compiles at the same time")
    parser.add_argument(
        "--only",
        metavar="GLOB",
        action="append",
        help="compile only sources or modules whose path or name matches this pattern",
    )
    parser.add_argument(
        "--shard",
        metavar="N/COUNT",
        type=_shard,
        help="divide the compiles between COUNT CI jobs, and run those of job N, as in '2/8'",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        action="append",
        help="with --shard: give each job equal work, by the times in a report (see HATCH_CUBIN_REPORT)",
    )
    parser.add_argument(
        "--executor",
        metavar="URL",
        type=_executor,
        help="compile on other machines, as in 'dask://host:8786'",
    )
    parser.add_argument(
        "--recheck",
        metavar="PART",
        type=_share,
        help="compile a share of the units, such as '1%%', on this machine too, and compare the results",
    )
    parser.add_argument(
        "--require-hits",
        action="store_true",
        help="compile nothing, and end with an error if anything is missing from the cache",
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Compile everything that is missing from the cache, and return the results."""
    if args.weights and not args.shard:
        raise ConfigError(problem("option-without-effect", "--weights changes nothing without --shard"))
    project = open_project(args)
    check_build(project)
    if args.recheck:
        project = _rechecked(project, args.recheck)
    from ...building import pipeline, report, sharding

    plan = pipeline.choose_plan(project, require_compiler, in_part=True, followed=bool(args.shard))
    facts: Mapping[str, Any] = {}
    if args.only:
        plan = _chosen(plan, [_in_project(project, glob) for glob in args.only])
    if args.shard:
        jobs, facts = sharding.share(project, plan.jobs, plan.toolkit, args.shard, args.weights or ())
        plan = plan._replace(jobs=jobs)
    results = pipeline.attempt(project, plan)
    found, problems = report.facts(results), pipeline.failures(project, results, plan)
    summary = _summary(found, problems) if os.environ.get("GITHUB_STEP_SUMMARY") else ()
    return Answer({**found, **facts}, problems=problems, summary=summary)


def _summary(found: Mapping[str, Any], problems: Sequence[Problem]) -> list[str]:
    """Return the summary for a CI job: how much was compiled, and which compiles took longest."""
    from ...wheels.reading.report import ReportSection, ReportTable
    from ..rendering import as_markdown, problem_parts

    units, counts = found["units"], ("hits", "compiled", "failed", "missing")
    row = [str(len(units)), *(str(found[name]) for name in counts)]
    parts = [ReportSection("units", (), ReportTable(["all", *counts], [row], numbers=range(5)))]
    slowest = sorted(units, key=lambda unit: -unit["seconds"])[:_SLOWEST]
    rows = [
        [unit["module"], unit["arch"], f"{unit['seconds']:.1f}", size(unit["bytes"])]
        for unit in slowest
        if unit["seconds"]
    ]
    if rows:
        head = ["module", "arch", "seconds", "size"]
        parts.append(
            ReportSection("longest compiles", (), ReportTable(head, rows, numbers=[2, 3], names=[0, 1]))
        )
    return as_markdown([*parts, *problem_parts(problems, ())])


def _rechecked(project: Project, part: float) -> Project:
    """Set the fraction of a cluster's results that this machine compiles again for comparison."""
    from dataclasses import replace

    if project.config.executor is None:
        what = "--recheck changes nothing without --executor"
        raise ConfigError(problem("option-without-effect", what))
    return replace(project, config=replace(project.config, recheck=part))


def _executor(text: str) -> str:
    from ...config import value_checks

    return _checked(value_checks.executor, text)


def _share(text: str) -> float:
    from ...config import value_checks

    return _checked(value_checks.share, text)


def _checked(check: Callable[[str], T], text: str) -> T:
    try:
        return check(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def _shard(text: str) -> Shard:
    from ...building.sharding import Shard

    return _checked(Shard.parse, text)


def _in_project(project: Project, glob: str) -> str:
    """Return a glob relative to the project's folder.

    The user may have written an absolute glob, or './' at the beginning of the glob.
    """
    if glob.startswith("./") or os.path.isabs(glob):
        return os.path.relpath(project.root / glob, project.root).replace(os.sep, "/")
    return glob


def _chosen(plan: Plan, globs: Sequence[str]) -> Plan:
    """Return the plan with only the sources and modules that match at least one of the globs."""
    from ...project.source import glob_regex

    rules = [glob_regex(glob) for glob in globs]
    meant = {job.unit for job in plan.jobs if _is_meant(job, rules)}
    meant |= {each.unit for job in plan.jobs if job.unit in meant for each in job.linked if each.unit}
    jobs = tuple(job for job in plan.jobs if job.unit in meant)
    if not jobs:
        known = ", ".join(dict.fromkeys(job.unit.module.source.path for job in plan.jobs))
        what = f"--only {' '.join(globs)} does not match any source or module"
        raise ConfigError(problem("only-matches-nothing", what, hint=f"sources: {known}"))
    return plan._replace(jobs=jobs)


def _is_meant(job: Job, rules: Sequence[re.Pattern[str]]) -> bool:
    module = job.unit.module
    names = (*module.sources, module.name, module.base)
    return any(rule.fullmatch(name) for rule in rules for name in names)
