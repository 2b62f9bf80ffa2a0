"""Functions for several verbs of the command line: add arguments, open a project, align columns."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.sizes import size
from ..errors import BundleError, Location, Problem, problem

if TYPE_CHECKING:
    from pathlib import Path

    from ..project.project import Project

__all__ = [
    "Answer",
    "archs_argument",
    "capability",
    "check_build",
    "jobs",
    "json_argument",
    "locked_argument",
    "open_project",
    "output_arguments",
    "project_arguments",
    "require_compiler",
    "size",
    "size_of",
    "table",
    "write_page",
]


# For each option: the environment variable with the same meaning. The option takes precedence.
_VARIABLES = {
    "--archs": "HATCH_CUBIN_ARCHS",
    "--executor": "HATCH_CUBIN_EXECUTOR",
    "--jobs": "HATCH_CUBIN_JOBS",
    "--locked": "HATCH_CUBIN_LOCKED",
    "--require-hits": "HATCH_CUBIN_REQUIRE_HITS",
}


class Answer(NamedTuple):
    """The result of a verb: facts for the JSON output, lines for the text output, and problems."""

    facts: Mapping[str, Any]
    lines: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()  # A verb with warnings but without problems exits with code 0.
    summary: Sequence[str] = ()  # The lines of Markdown for the summary of a GitHub Actions job.


def json_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option `--json`, which all verbs that print facts have."""
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options `--json` and `--markdown`, which exclude each other."""
    either = parser.add_mutually_exclusive_group()
    json_argument(either)
    either.add_argument(
        "--markdown", action="store_true", help="print the results as Markdown, for a pull request"
    )


def wheels_argument(parser: argparse.ArgumentParser, number: str = "+") -> None:
    """Add the argument with which the user names wheels, folders and packages.

    *number* is passed to argparse as `nargs`.
    """
    parser.add_argument(
        "wheels",
        metavar="WHEEL|DIR|PACKAGE",
        nargs=number,
        help="a wheel, a folder, or the import name of an installed package",
    )


def folder_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option `--project`, which names the project's folder."""
    parser.add_argument(
        "--project",
        metavar="DIR",
        default=os.curdir,
        help="the project's folder, by default the current folder",
    )


def project_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options `--project` and `--verbose`, which all verbs that read a project have."""
    folder_argument(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="print more about each step")


def archs_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option `--archs`, which replaces the archs of the project's table."""
    parser.add_argument(
        "--archs",
        metavar="LIST",
        type=_archs,
        help="compile for these archs instead of the project's archs, as in 'sm_90,compute_90'",
    )


def locked_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option `--locked`: with this option, a command fails if cubin.lock is outdated or missing."""
    parser.add_argument(
        "--locked", action="store_true", help="end with an error if cubin.lock is outdated or missing"
    )


def open_project(args: argparse.Namespace) -> Project:
    """Return the project that the user named. Options of the command line override environment variables."""
    from ..common.environment import WithOptions
    from ..frontends import open_project as frontend

    asked = {option: getattr(args, option[2:].replace("-", "_"), None) for option in _VARIABLES}
    options = {
        _VARIABLES[option]: (option, "1" if value is True else value)
        for option, value in asked.items()
        if value
    }
    with_options = WithOptions(os.environ, options)
    return frontend.open_project(args.project, with_options, sys.stderr, verbose=args.verbose)


def check_build(project: Project) -> None:
    """Raise ConfigError for a mistake in the project that makes builds fail, or makes wrong wheels."""
    from ..frontends import open_project as frontend

    frontend.check_build(project)


def require_compiler(project: Project) -> None:
    """Raise ToolchainError, with the command to install the compiler, if the compiler is not installed."""
    from ..frontends import open_project as frontend

    frontend.require_compiler(project)


def table(rows: Sequence[Sequence[object]], right: Collection[int] = ()) -> list[str]:
    """Return a table as lines of text. Numbers, and the columns in *right*, are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if number in right or isinstance(cell, (int, float)) else text.ljust(width)
            for number, (text, cell, width) in enumerate(zip(line, row, widths, strict=True))
        ).rstrip()
        for line, row in zip(cells, rows, strict=True)
    ]


def write_page(path: Path, text: str) -> None:
    """Write an HTML page to a file, or raise BundleError if the file cannot be written."""
    from ..common import file_access

    try:
        file_access.write(path, text)
    except OSError as exc:
        what = f"cannot be written: {exc.strerror}"
        raise BundleError(problem("file-not-writable", what, Location(str(path)))) from exc


def jobs(text: str) -> str:
    """Check that a text is a valid number of jobs, and return the text.

    If the text is not a valid number of jobs, raise argparse's error.
    """
    from ..config import value_checks

    return _checked(value_checks.jobs_of_variable, text)


def size_of(text: str) -> int:
    """Return the number of bytes of a size, or raise argparse's error if the text is not a size."""
    from ..config import value_checks

    try:
        return value_checks.size(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def capability(text: str) -> int:
    """Return a compute capability as a number, such as 89 for '8.9', or raise argparse's error."""
    match = re.fullmatch(r"(?:sm_)?([0-9]{1,2})\.?([0-9])[af]?", text)
    if match is None:
        from ..common import arch_names, gpu_names

        numbers = filter(None, map(arch_names.number_of, gpu_names.archs_meant(text)))
        meant = " or ".join(f"{number // 10}.{number % 10}" for number in dict.fromkeys(numbers))
        advice = f"did you mean {meant}?" if meant else "write a capability such as 8.9"
        raise argparse.ArgumentTypeError(f"{text!r} is not a compute capability: {advice}")
    return int(match[1]) * 10 + int(match[2])


def _archs(text: str) -> str:
    from ..config import value_checks

    return _checked(value_checks.archs_of_variable, text)


def _checked(check: Callable[[str], object], text: str) -> str:
    try:
        check(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    return text
