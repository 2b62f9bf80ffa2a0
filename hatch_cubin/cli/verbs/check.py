"""Check wheels before they are published.

Each wheel must contain a bundle (the folder _cubins with the compiled kernels). Each kernel must run on every
GPU that the wheel is for: the GPUs of the wheel's archs, or the GPUs that --gpu lists. The wheel must pass
'hatch-cubin verify', must not be larger than 'max-size', and its tags must be correct. The wheel must not
contain a path of the machine that built it, code that was compiled for a debugger, or GPU code outside the
bundle. The command reports all problems of all wheels. The option --table also checks the project's
configuration table in pyproject.toml; this check does not need a compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...common import arch_names
from ...common.arch_names import split_specs
from ...config import table_location
from ...config.config import Config, parse_config
from ...config.misplaced_keys import misplaced_keys
from ...config.value_checks import guess
from ...errors import ConfigError, HatchCubinError, Problem, problem
from ...frontends import open_project
from ...project.source import SUFFIXES, glob_regex, is_ptx
from ...wheels.checking.check import CheckResult, check, check_sections, exceptable_names
from ...wheels.reading.bundles import OpenedWheel, expand_patterns, open_wheel
from ...wheels.reading.cuobjdump import fallback_reader
from ...wheels.reading.report import ReportSection
from ..rendering import as_lines, as_markdown, problem_parts
from ..verb_base import Answer, capability, folder_argument, output_arguments, size_of, wheels_argument

_CAPABILITY = r"[0-9]{1,2}\.[0-9]"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    wheels_argument(parser, "*")
    parser.add_argument(
        "--table", action="store_true", help="check the project's configuration table, with or without wheels"
    )
    parser.add_argument(
        "--gpu",
        metavar="LIST",
        type=_capabilities,
        default=(),
        help="the GPUs that the wheels are for, as in '8.0,9.0'; by default the GPUs of the wheels' archs",
    )
    parser.add_argument(
        "--except",
        metavar="GLOB",
        dest="spared",
        action="append",
        default=[],
        help=(
            "do not report what GLOB matches: kernels or modules that do not run on all GPUs, "
            "and files that have GPU code outside the bundle"
        ),
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=size_of,
        help="the largest allowed size of a wheel, as in '100 MB'; by default the project's 'max-size'",
    )
    folder_argument(parser)
    output_arguments(parser)
    parser.set_defaults(refuse=parser.error)


def run(args: argparse.Namespace) -> Answer:
    """Check all wheels and the project's configuration table, and return all problems."""
    if not (args.wheels or args.table):
        taken = next((each for each in args.spared if os.path.exists(each)), None)
        if taken is not None:
            args.refuse(
                f"--except takes {taken} as its glob: write the wheel before --except, and a glob after it"
            )
        args.refuse("name a wheel, or write --table")
    if args.gpu and (more := [each for each in args.wheels if re.fullmatch(_CAPABILITY, each)]):
        listed = ",".join((*(f"{cc // 10}.{cc % 10}" for cc in args.gpu), *more))
        args.refuse(f"{more[0]} is not a wheel; write several values as one list: --gpu {listed}")
    table, wrong, warnings = _table(args.project) if args.table else (None, (), [])
    budget = args.max_size or (None if wrong else _budget(args.project))
    results: list[dict[str, Any]] = []
    shown = [] if table is None else [ReportSection(f"{table}: the table is correct")]
    problems = [*wrong]
    verdicts: list[CheckResult] = []
    excluded = () if table is None else _excluded(args.project)
    for what in expand_patterns(args.wheels):
        path, verdict, sections = _checked(what, args, budget, excluded)
        verdicts.append(verdict)
        results.append(_facts(what, path, verdict))
        shown += sections
        problems += verdict.problems
        warnings += verdict.warnings
    if args.wheels and not args.table and (archs := os.environ.get("HATCH_CUBIN_ARCHS")):
        what = (
            f"HATCH_CUBIN_ARCHS is set to {archs!r}: a build with this variable does not compile for 'archs'"
        )
        hint = "'hatch-cubin check --table WHEEL' compares the wheels with 'archs'"
        warnings.append(problem("archs-replaced", what, hint=hint))
    if table is not None:
        warnings += _archs_not_shipped(args.project, verdicts)
    known = exceptable_names(checked for verdict in verdicts for checked in verdict.bundles)
    unmatched = [glob for glob in args.spared if known and not any(map(glob_regex(glob).fullmatch, known))]
    warnings += (_matches_nothing(glob, known) for glob in unmatched)
    facts = {
        "ok": not problems,
        "table": table,
        "max_size": budget,
        "unmatched": unmatched,
        "results": results,
    }
    summary = as_markdown([*shown, *problem_parts(problems, warnings)])
    return Answer(facts, summary if args.markdown else as_lines(shown), problems, warnings, summary)


def _matches_nothing(glob: str, known: Iterable[str]) -> Problem:
    what = f"--except {glob!r} does not match any kernel or module"
    return problem("except-matches-nothing", what, hint=guess(glob, sorted(known)))


def _checked(
    what: str, args: argparse.Namespace, budget: int | None, excluded: Sequence[str]
) -> tuple[str, CheckResult, list[ReportSection]]:
    """Check a wheel, and return its path, the problems, and the sections of the report.

    If the wheel cannot be read, the result contains the error as a problem.
    """
    try:
        with open_wheel(what, companions=True) as opened:
            verdict = check(opened, args.gpu, budget, fallback_reader(os.environ), args.spared)
            sections = [*check_sections(opened.path, verdict), *_uncompiled_sources(opened, excluded)]
            return opened.path, verdict, sections
    except HatchCubinError as exc:
        problems = [*_with_hint_at_except(exc.problems, what, args.spared)]
        verdict = CheckResult(None, {}, (), problems, (), {})
        return what, verdict, check_sections(what, verdict)


def _uncompiled_sources(opened: OpenedWheel, excluded: Sequence[str]) -> Iterator[ReportSection]:
    """Yield a section with the sources in the wheel that are not compiled because of the key `exclude`.

    The key `exclude` decides which sources hatch-cubin compiles, but not which files the wheel contains. The
    globs *excluded* are relative to the project or to a package.
    """
    rules = [glob_regex(glob) for glob in excluded]
    members = opened.archive.namelist() if opened.archive else ()
    names = [
        name
        for name in members
        if name.endswith(SUFFIXES)
        and any(rule.fullmatch(path) for rule in rules for path in _possible_paths(name))
    ]
    if names:
        yield ReportSection(
            f"{opened.path}: these sources are not compiled because of 'exclude', but they are in the wheel",
            [
                *names,
                "to leave these sources out of the wheel, exclude them in the build backend's settings too",
            ],
        )


def _possible_paths(member: str) -> tuple[str, str, str]:
    """Return the paths that a file of a wheel may have in the project, and the file's path in its package."""
    return member, f"src/{member}", member.partition("/")[2]


def _excluded(folder: str) -> Sequence[str]:
    settings, place, _backend = table_location.find_table(folder)
    return parse_config(settings, place, os.environ).exclude


def _with_hint_at_except(problems: Iterable[Problem], what: str, spared: Sequence[str]) -> Iterator[Problem]:
    """Add a hint if the argument *what* is not a wheel, but probably a second glob for `--except`."""
    is_glob = spared and not what.endswith(".whl")
    for each in problems:
        if is_glob and each.code == "no-such-wheel":
            again = f"--except takes one glob: to except {what!r} too, add --except {shlex.quote(what)}"
            yield each._replace(hint=again)
        else:
            yield each


def _facts(what: str, path: str, verdict: CheckResult) -> dict[str, Any]:
    return {
        "named": what,
        "path": path,
        "ok": not verdict.problems,
        "bytes": verdict.bytes,
        "largest": verdict.largest,
        "bundles": verdict.bundles,
        "warnings": [
            {name: told for name, told in warning.facts().items() if name != "line"}
            for warning in verdict.warnings
        ],
    }


def _table(folder: str) -> tuple[str | None, Sequence[Problem], list[Problem]]:
    """Return the location of the project's table (None if there are problems), the problems and warnings."""
    try:
        settings, place, _backend = table_location.find_table(folder)
        missing = open_project.missing_requirement(folder)
        parse_config(settings, place, os.environ)
    except ConfigError as exc:
        return None, exc.problems, []
    if missing:
        return None, missing, []
    warnings = [*misplaced_keys(place)]
    # Perhaps the project cannot be opened, for example because hatchling is not installed.
    with contextlib.suppress(ConfigError):
        project = open_project.open_project(folder, os.environ, None, verbose=False)
        warnings += open_project.build_warnings(project)
        from ...frontends import ignored_sources

        warnings += ignored_sources.warnings(project)
    return f"{place.file} {place}", (), warnings


def _archs_not_shipped(folder: str, verdicts: Sequence[CheckResult]) -> Iterator[Problem]:
    """Yield a warning if the project's table lists archs for which the wheels contain no code.

    Code for sm_90a counts as code for sm_90, because tileiras makes code for sm_90a if sm_90 is listed.
    """
    settings, place, _backend = table_location.find_table(folder)
    environ = {**os.environ, "HATCH_CUBIN_ARCHS": ""}  # use the table, not the variable
    config = parse_config(settings, place, environ)
    kernels = [kernel for verdict in verdicts for bundle in verdict.bundles for kernel in bundle["kernels"]]
    shipped = {arch for kernel in kernels for arch in kernel["archs"]}
    shipped |= {arch.removesuffix("a") for arch in shipped if arch.startswith("sm_")}
    targets = arch_names.expand([each for each in config.archs if each not in arch_names.GROUPS], (), ())
    needs_ptx = _needs_ptx(config, verdicts, shipped)
    archs = [str(arch) for arch, _named in targets if needs_ptx or not arch.is_ptx]
    missing = [arch for arch in archs if arch not in shipped]
    if kernels and missing:
        what = f"no checked wheel contains code for {', '.join(missing)}, which 'archs' lists"
        hint = (
            "perhaps HATCH_CUBIN_ARCHS was set in the build, or the tables of sources have their own 'archs'"
        )
        yield problem("arch-not-shipped", what, place.of("archs"), hint)


def _needs_ptx(config: Config, verdicts: Iterable[CheckResult], shipped: Iterable[str]) -> bool:
    """Return whether the wheels should contain PTX for each PTX arch that the table lists.

    The archs *shipped* have code in the wheels. Tile kernels do not have PTX, and linked modules may have
    none. The PTX of a PTX source is for the arch that the source names, and not for the listed arch.
    """
    linked = {rule.name for rule in config.module}
    sources = [
        source
        for verdict in verdicts
        for module, source in verdict.sources_without_tile_code.items()
        if module.partition("[")[0] not in linked
    ]
    if all(map(is_ptx, sources)):
        return bool(sources) and not any(arch.startswith("compute_") for arch in shipped)
    return True


def _budget(folder: str) -> int | None:
    """Return `max-size` from the table of the project in *folder*, or None if there is no such table."""
    if not os.path.exists(os.path.join(folder, "pyproject.toml")):
        return None
    with contextlib.suppress(table_location.NoTableError):
        settings, place, _backend = table_location.find_table(folder)
        return parse_config(settings, place, os.environ).max_size
    return None


def _capabilities(text: str) -> list[int]:
    return [*dict.fromkeys(capability(each) for each in split_specs(text) or [text])]
