"""The errors that a user can cause and fix, and how they are printed."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from .common.environment import is_on
from .common.sizes import count
from .common.streams import Lossy, one_message, plain, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PREFIX = "hatch-cubin: "
_ANNOTATED = 20  # the largest number of lines of details in a GitHub annotation
MANY = 3  # problems with the same cause are printed as one message if there are at least this many
_SHOWN = 10  # the largest number of locations in a message about many problems
_BAKE = "'hatch-cubin bake --verbose'"  # the command that lists all locations of a build's problems
_INTERRUPTED = 130  # the usual exit code after an interrupt: 128 plus the signal's number
_UNEXPECTED = "this error is unexpected, probably a bug in hatch-cubin: please report it with the lines above"
# A file's name may contain a line end. The line end is escaped, because a CI service could read the rest of
# the name as a command.
_LINE_ENDS = {ord("\n"): "\\n"}


class Location(NamedTuple):
    """A location in a file of the project, in the form that compilers print: `path:line`."""

    path: str
    line: int | None = None

    def __str__(self) -> str:
        path = self.path.translate(_LINE_ENDS)
        return path if self.line is None else f"{path}:{self.line}"


class LongLine(str):
    """A line of details that has a short form, which is printed unless the output is verbose."""

    __slots__ = ("short",)
    short: str

    def __new__(cls, line: str, short: str) -> LongLine:  # noqa: PYI034 - Self needs Python 3.11
        """Return the line *line*, which has the short form *short*."""
        made = super().__new__(cls, line)
        made.short = short
        return made


class Problem(NamedTuple):
    """One mistake that the user can fix: the message, the location in a file, details, and a hint."""

    what: str
    where: Location | None = None
    hint: str | None = None
    details: tuple[str, ...] = ()
    code: str = ""

    def __str__(self) -> str:
        what = self.what.translate(_LINE_ENDS)
        head = what if self.where is None else f"{self.where}: {what}"
        hint = () if self.hint is None else (f"hint: {self.hint}",)
        return one_message("\n  ".join((head, *self.details, *hint)))

    def with_code(self) -> str:
        """Return the message with the problem's code after the first line: users can search for the code."""
        return str(self._replace(what=f"{self.what} [{self.code}]") if self.code else self)

    def shortened(self) -> Problem:
        """Return the problem with the short forms of long lines in its details."""
        details = (line.short if isinstance(line, LongLine) else line for line in self.details)
        return self._replace(details=tuple(details))

    def facts(self) -> dict[str, str | int | list[str] | None]:
        """Return the problem as a dict for the JSON output."""
        path, line = self.where or (None, None)
        return {
            "code": self.code,
            "what": self.what,
            "path": path,
            "line": line,
            "details": [*self.details],
            "hint": self.hint,
        }


def problem(
    code: str,
    what: str,
    where: Location | None = None,
    hint: str | None = None,
    details: tuple[str, ...] = (),
) -> Problem:
    """Return a problem; docs/reference/errors.md lists the problem under *code*.

    A code names one kind of problem. The code stays the same if the text of the message (*what*) is reworded.
    """
    return Problem(what, where, hint, details, code)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems without duplicates, sorted by file and line. A problem without a line comes last."""
    return sorted(dict.fromkeys(problems), key=_place)


class HatchCubinError(Exception):
    """The base class of all errors that the user can fix. One error contains every problem that was found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = tuple(dict.fromkeys(problems))

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class ConfigError(HatchCubinError):
    """The project's configuration of hatch-cubin has a mistake."""


class SourceError(HatchCubinError):
    """A source or a header is missing, unreadable or ambiguous."""


class ToolchainError(HatchCubinError):
    """The CUDA compiler is missing, too old, or does not support a setting."""


class CompileError(HatchCubinError):
    """Sources do not compile."""


class BundleError(HatchCubinError):
    """A bundle (the folder of compiled kernels in a package) cannot be written or read."""


class MissError(HatchCubinError):
    """Compiled code is missing from the cache, and the user allows only cache hits."""


class LockError(HatchCubinError):
    """A build must follow the lock file `cubin.lock`, but cannot."""


class SignatureError(HatchCubinError):
    """Results cannot be signed, or signatures cannot be checked."""


class CheckError(HatchCubinError):
    """A check found a mistake, such as a damaged wheel or an outdated lock file."""


def render(
    error: HatchCubinError, outcome: str = "", *, verbose: bool = False, lister: str = _BAKE
) -> list[str]:
    """Return the messages to print for an error: one message for each cause, then the count of problems.

    A message about several problems lists at most ten locations, and says that *lister*, a command or an
    option, lists the others. If *verbose* is true, a message lists all locations and complete lines.
    """
    ordered = in_order(each if verbose else each.shortened() for each in error.problems)
    summary = [f"{PREFIX}{count(len(ordered), 'error')}{outcome}"] if outcome or ordered[1:] else []
    shown = len(ordered) if verbose else _SHOWN
    return [
        *(f"{PREFIX}error: {_as_one(group, shown, lister).with_code()}" for group in _by_cause(ordered)),
        *summary,
    ]


def _by_cause(problems: Iterable[Problem]) -> Iterator[list[Problem]]:
    """Yield groups of problems.

    Three or more problems with the same cause become one group. If only one or two problems have the same
    cause, each of them is alone in a group.
    """

    def cause(problem: Problem) -> tuple[str | None, ...]:
        # is the hint a line for pyproject.toml?
        is_change = problem.hint is not None and " = " in problem.hint
        return (problem.hint,) if is_change else (problem.what, problem.hint)

    groups: dict[tuple[str | None, ...], list[Problem]] = {}
    for problem in (problems := [*problems]):
        groups.setdefault(cause(problem), []).append(problem)
    for problem in problems:
        group = groups[cause(problem)]
        if len(group) < MANY:
            yield [problem]
        elif problem is group[0]:
            yield group


def _as_one(group: list[Problem], shown: int, lister: str) -> Problem:
    """Return the first problem of a group, with the locations of the other problems in its details."""
    first, *others = _distinct(group)
    if not others:
        return first
    is_one = all(problem.what == first.what for problem in others)
    title = f"more place{'s' * (len(others) > 1)}" if is_one else "more errors that the same change solves"
    places = [
        str(each.where) if is_one and each.where else str(each._replace(hint=None, details=()))
        for each in others
    ]
    left = len(others) - shown
    more = [f"  … and {left} more: {lister} lists them"] if left > 0 else []
    listed = (f"{len(others)} {title}:", *(f"  {place}" for place in places[:shown]), *more)
    return first._replace(details=(*first.details, *listed))


def _distinct(group: Iterable[Problem]) -> list[Problem]:
    """Leave out each problem that has the text and the location of an earlier problem."""
    distinct: dict[tuple[str, Location | int], Problem] = {}
    for number, each in enumerate(group):
        distinct.setdefault((each.what, each.where or number), each)
    return [*distinct.values()]


def _place(problem: Problem) -> tuple[bool, str, bool, int]:
    path, line = (problem.where.path, problem.where.line) if problem.where else (None, None)
    return path is None, path or "", line is None, line or 0


@contextlib.contextmanager
def reported(
    display: Callable[[str], object],
    outcome: str = "",
    folder: str | None = None,
    *,
    verbose: bool = False,
    lister: str = _BAKE,
) -> Iterator[None]:
    """Print the messages of a HatchCubinError, and exit with code 1 (after an interrupt: with code 130).

    An exception that is not a HatchCubinError is not caught, unless its traceback contains text that a
    terminal or a CI service would read as a command.

    *outcome*, such as "; no wheel was built", is printed after the number of problems. The paths in the
    problems are relative to *folder*. If *verbose* is true, each message lists all locations of its problem.
    Otherwise, long messages say that *lister*, a command or an option, lists all locations.
    """
    try:
        yield
    except KeyboardInterrupt:
        with Lossy(sys.stderr):
            display(f"{PREFIX}interrupted; the results that were finished are in the cache")
        raise SystemExit(_INTERRUPTED) from None
    except HatchCubinError as exc:
        if is_on(os.environ, "HATCH_CUBIN_TRACEBACK"):
            _contain(exc, display)
            raise
        for message in render(exc, outcome, verbose=verbose, lister=lister):
            with Lossy(sys.stderr):
                display(message)
        annotate("error", in_order(exc.problems), folder)
        raise SystemExit(1) from None
    except Exception as exc:
        _contain(exc, display)
        raise


def _contain(error: Exception, display: Callable[[str], object]) -> None:
    """If a traceback contains commands for a terminal or CI service, print an escaped traceback and exit."""
    import traceback  # slow to import

    if (trace := "".join(traceback.format_exception(error))) != plain(trace):
        with Lossy(sys.stderr):
            display(crash_report(error))
        raise SystemExit(1) from None


def crash_report(error: Exception) -> str:
    """Return the escaped traceback of an error; for a bug of hatch-cubin, add a request to report the bug."""
    import traceback  # slow to import

    trace = plain("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, HatchCubinError):
        return trace
    return f"{trace}\n{PREFIX}error: {_UNEXPECTED}"


def annotate(kind: str, problems: Iterable[Problem], folder: str | None = None) -> None:
    """On GitHub Actions, print annotations that show problems next to the lines that cause them."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from .common import github

    for problem in problems:
        path, line = problem.where or (None, None)
        details = problem.shortened().details[:_ANNOTATED]
        text = str(problem._replace(where=None, details=details))
        place = None if path is None else plain(github.in_repository(path, folder))
        with Lossy(sys.stderr):
            write(sys.stderr, github.annotation(kind, text, place, line))
