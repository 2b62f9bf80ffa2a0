"""Compare two wheels: removed kernels, register spills, registers, sizes.

Each side of the comparison is a wheel, a folder or an installed package. Without a second wheel, the first
wheel is compared with the wheel that the project in the current folder would build. With --fail-on, the exit
code is 1 if the second wheel is worse in any of the properties that the option lists. For kernels, --fail-on
accepts 'lost' (a kernel or its code for an arch is missing), 'signatures' (the arguments of a kernel
changed), 'spills', 'registers', 'stack' and 'shared'. For the wheel as a whole, --fail-on accepts only
'size'. A property can have a limit: 'size=5%' allows the wheel to grow by 5 %, and 'registers=8' allows each
kernel to use 8 more registers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...config import value_checks
from ...errors import BundleError, ConfigError, HatchCubinError, Location, Problem, problem
from ...wheels.comparing.comparison import ComparedWheel, compare_wheels, compared_wheel
from ...wheels.comparing.diff import FAIL_ON_KINDS, BundleDiff, FailLimit, exceeding
from ...wheels.comparing.diff_report import diff_sections, percent_change
from ...wheels.comparing.wheel_order import wrong_order
from ...wheels.reading.bundles import Bundle, expand_patterns, open_wheel
from ...wheels.reading.cuobjdump import fallback_reader
from ...wheels.reading.page import html_page
from ...wheels.reading.survey import survey, unreadable_units
from ..rendering import as_lines, as_markdown, problem_parts
from ..verb_base import (
    Answer,
    check_build,
    open_project,
    output_arguments,
    project_arguments,
    require_compiler,
    size,
    write_page,
)

_SHOWN = 10
_NO_PROJECT = "name two wheels, or the project to compare the wheel with: --project DIR"
_WORSE = {
    "lost": "kernels are missing after the change",
    "signatures": "kernels take other arguments than before",
    "spills": "kernels use more register spills than before",
    "registers": "kernels use more registers than before",
    "stack": "kernels use more stack than before",
    "shared": "kernels use more shared memory than before",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    what = "a wheel, a folder, or the import name of an installed package"
    parser.add_argument("before", metavar="WHEEL|DIR|PACKAGE", help=what)
    parser.add_argument(
        "after",
        metavar="WHEEL|DIR|PACKAGE",
        nargs="?",
        help="the wheel, folder or package to compare with; by default the wheel that the project builds",
    )
    parser.add_argument(
        "--fail-on",
        metavar="LIST",
        type=_limits,
        default=(),
        help=(
            "exit with code 1 if the comparison finds one of these regressions: "
            f"{','.join(FAIL_ON_KINDS)}; for example 'lost,size=5%%'"
        ),
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page for a browser")
    project_arguments(parser)
    output_arguments(parser)


def run(args: argparse.Namespace) -> Answer:
    """Compare the two wheels."""
    before, after = both = _sides(args)
    diffs = compare_wheels(before, after)
    problems = [each for side in both for facts in side.bundles.values() for each in unreadable_units(facts)]
    problems += _exceeded_limits(args.fail_on, before, after, diffs)
    parts = [*diff_sections(before, after, diffs)]
    if args.html is not None:
        title = " and ".join(os.path.basename(side.title) for side in both)
        bundles = [facts for side in both for facts in side.bundles.values()]
        try:
            write_page(args.html, html_page(title, bundles, {}, parts))
        except BundleError as exc:  # The comparison must be printed even if the HTML page cannot be written.
            problems += exc.problems
    sizes = {"before": before.bytes, "after": after.bytes}
    swapped = wrong_order(before, after)
    warnings = () if swapped is None else (swapped,)
    facts = {"before": before.path, "after": after.path, "bytes": sizes, "bundles": diffs}
    summary = as_markdown([*parts, *problem_parts(problems, warnings)])
    return Answer(facts, summary if args.markdown else as_lines(parts), problems, warnings, summary)


def _sides(args: argparse.Namespace) -> tuple[ComparedWheel, ComparedWheel]:
    """Return the two wheels to compare, or raise BundleError with the problems of both wheels."""
    sides: list[ComparedWheel] = []
    problems: list[Problem] = []
    for what in (args.before, args.after):
        try:
            sides.append(_of_project(args) if what is None else _side(what))
        except HatchCubinError as exc:
            problems += exc.problems
    if problems:
        raise BundleError(*problems)
    before, after = sides
    return before, after


def _side(what: str) -> ComparedWheel:
    """Read a wheel, folder or package to compare. A glob pattern must match exactly one path."""
    if len(meant := expand_patterns([what])) > 1:
        ambiguous = f"matches {len(meant)} files, but must match only one: {', '.join(meant)}"
        raise BundleError(problem("several-wheels", ambiguous, Location(what)))
    with open_wheel(meant[0]) as opened:
        return compared_wheel(
            opened.path, [survey(bundle, fallback_reader(os.environ)) for bundle in opened.bundles]
        )


def _of_project(args: argparse.Namespace) -> ComparedWheel:
    """Build the project, and return the compiled kernels as if they were in a wheel."""
    try:
        project = open_project(args)
    except ConfigError as exc:
        wrong = (
            each._replace(hint=_NO_PROJECT if each.code == "not-a-project" else each.hint)
            for each in exc.problems
        )
        raise ConfigError(*wrong) from exc
    check_build(project)
    from ...building import pipeline

    files = pipeline.build(project, require=require_compiler)
    bundle = Bundle(project.bundle_folder, dict.fromkeys(files), files.__getitem__)
    title = f"the project in {args.project}"
    return ComparedWheel(
        args.project, title, None, {project.package: survey(bundle, fallback_reader(os.environ))}
    )


def _exceeded_limits(
    limits: Sequence[FailLimit], before: ComparedWheel, after: ComparedWheel, diffs: Sequence[BundleDiff]
) -> Iterator[Problem]:
    """Yield a problem for each exceeded limit of --fail-on, with the size or the kernels that exceed it."""
    where = Location(after.path)
    for limit in limits:
        if limit.what == "size":
            was, now = _compared_sizes(before, after, diffs)
            if limit.is_passed(was, now):
                change = f"from {size(was)} to {size(now)}, {percent_change(was, now)}"
                what = f"the size has grown {change}, but --fail-on {limit.text} does not allow this"
                yield problem("wheel-grown", what, where)
        elif passed := [title for diff in diffs for title in exceeding(diff, limit)]:
            more = len(passed) - _SHOWN
            shown = (*passed[:_SHOWN], *([f"and {more} more"] if more > 0 else []))
            kernels_are_worse = _WORSE[limit.what]
            what = f"{kernels_are_worse}: {len(passed)}, but --fail-on {limit.text} does not allow this"
            yield problem("kernels-worse", what, where, details=shown)


def _compared_sizes(
    before: ComparedWheel, after: ComparedWheel, diffs: Sequence[BundleDiff]
) -> tuple[int, int]:
    """Return the sizes of two wheels, or of their compiled kernels if a folder or package is compared."""
    if before.bytes is not None and after.bytes is not None:
        return before.bytes, after.bytes
    sizes = [diff["bytes"] for diff in diffs]
    return sum(each["before"] or 0 for each in sizes), sum(each["after"] or 0 for each in sizes)


def _limits(text: str) -> list[FailLimit]:
    try:
        return [_limit(each.strip()) for each in text.split(",")]
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def _limit(text: str) -> FailLimit:
    """Return the limit in a text such as `spills`, `registers=8` or `size=5%`, or raise ValueError."""
    change, _, amount = text.partition("=")
    if change not in FAIL_ON_KINDS:
        meant = value_checks.guess(change, FAIL_ON_KINDS)
        raise ValueError(
            f"{change!r} is not one of {', '.join(FAIL_ON_KINDS)}" + (f": {meant}" if meant else "")
        )
    if not amount:
        return FailLimit(change, text)
    if change in ("lost", "signatures"):
        raise ValueError(f"write {change!r} without '={amount}', because a single kernel is already an error")
    if amount.endswith("%"):
        return FailLimit(change, text, _number(text, amount[:-1]), percent=True)
    counted = change in ("spills", "registers")
    return FailLimit(change, text, _number(text, amount) if counted else value_checks.size(amount))


def _number(text: str, amount: str) -> float:
    if not amount.replace(".", "", 1).isdecimal():
        raise ValueError(f"{text!r} needs a number after the '=', as in 'registers=8' or 'size=5%'")
    return float(amount)
