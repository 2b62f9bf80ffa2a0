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
_ANNOTATED = 20  # lines of details
_MANY = 3  # this many problems with one cause are printed as one message
_SHOWN = 10  # this many of their places are printed
_INTERRUPTED = 130  # as shells count: 128 and the signal's number
_UNEXPECTED = "this error is unexpected, probably a bug in hatch-cubin: please report it with the lines above"
_LINE_ENDS = {
    ord("\n"): "\\n"
}  # in a name: other people may have chosen it, and no line may begin with their text


class Location(NamedTuple):
    """A place in a file of the project, written the way compilers write it."""

    path: str
    line: int | None = None

    def __str__(self) -> str:
        path = self.path.translate(_LINE_ENDS)
        return path if self.line is None else f"{path}:{self.line}"


class Problem(NamedTuple):
    """One thing that is wrong: what, where, what else is known, and what to do about it."""

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
        """Return the message with its code at the end of its first line, for users to search for."""
        return str(self._replace(what=f"{self.what} [{self.code}]") if self.code else self)

    def facts(self) -> dict[str, str | int | list[str] | None]:
        """Return the problem for JSON."""
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
    """Return a problem with the code under which docs/reference/errors.md lists it.

    A code names one kind of problem. It stays the same if the message *what* is reworded.
    """
    return Problem(what, where, hint, details, code)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once, by file and line. Problems without a line or a file come last."""
    return sorted(dict.fromkeys(problems), key=_place)


class HatchCubinError(Exception):
    """The base of all errors that the user can fix. It has every problem that was found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = tuple(dict.fromkeys(problems))

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class ConfigError(HatchCubinError):
    """The configuration table is wrong."""


class SourceError(HatchCubinError):
    """A source or a header is missing, unreadable or ambiguous."""


class ToolchainError(HatchCubinError):
    """The CUDA compiler is missing, too old, or does not support a setting."""


class CompileError(HatchCubinError):
    """Sources do not compile."""


class BundleError(HatchCubinError):
    """A bundle cannot be laid out, written or read."""


class MissError(HatchCubinError):
    """Units would have to be compiled, but only cache hits are allowed."""


class LockError(HatchCubinError):
    """A build must follow the lock, but cannot."""


class SignatureError(HatchCubinError):
    """Results cannot be signed, or signatures cannot be checked."""


class CheckError(HatchCubinError):
    """A check found something wrong, such as a damaged wheel or a stale lock."""


def render(error: HatchCubinError, outcome: str = "", *, verbose: bool = False) -> list[str]:
    """Return one message per cause, in order, then the count of problems.

    Only a *verbose* message lists every place of a cause.
    """
    ordered = in_order(error.problems)
    summary = [f"{PREFIX}{count(len(ordered), 'error')}{outcome}"] if outcome or ordered[1:] else []
    shown = len(ordered) if verbose else _SHOWN
    return [
        *(f"{PREFIX}error: {_as_one(group, shown).with_code()}" for group in _by_cause(ordered)),
        *summary,
    ]


def _by_cause(problems: Iterable[Problem]) -> Iterator[list[Problem]]:
    """Yield groups of problems: many that the same change fixes together, and all others alone."""

    def cause(problem: Problem) -> tuple[str | None, ...]:
        is_change = problem.hint is not None and " = " in problem.hint  # a line of the table
        return (problem.hint,) if is_change else (problem.what, problem.hint)

    groups: dict[tuple[str | None, ...], list[Problem]] = {}
    for problem in (problems := [*problems]):
        groups.setdefault(cause(problem), []).append(problem)
    for problem in problems:
        group = groups[cause(problem)]
        if len(group) < _MANY:
            yield [problem]
        elif problem is group[0]:
            yield group


def _as_one(group: list[Problem], shown: int) -> Problem:
    """Return one problem for a group: the first one, with the places of all others."""
    first, *others = group
    if not others:
        return first
    is_one = all(problem.what == first.what for problem in others)
    title = "more places" if is_one else "more errors that the same change solves"
    places = [
        str(each.where) if is_one and each.where else str(each._replace(hint=None, details=()))
        for each in others
    ]
    left = len(others) - shown
    more = [f"  … and {left} more: 'hatch-cubin bake --verbose' lists them"] if left > 0 else []
    listed = (f"{len(others)} {title}:", *(f"  {place}" for place in places[:shown]), *more)
    return first._replace(details=(*first.details, *listed))


def _place(problem: Problem) -> tuple[bool, str, bool, int]:
    path, line = (problem.where.path, problem.where.line) if problem.where else (None, None)
    return path is None, path or "", line is None, line or 0


@contextlib.contextmanager
def reported(
    display: Callable[[str], object], outcome: str = "", folder: str | None = None, *, verbose: bool = False
) -> Iterator[None]:
    """Turn a user's problems into messages and exit code 1, and an interrupt into exit code 130.

    Other exceptions pass through, except those whose traceback could control a terminal or CI service.

    *outcome* follows the count of problems, and says what they led to. Their places may be relative to
    *folder*. *verbose* messages list every place.
    """
    try:
        yield
    except KeyboardInterrupt:
        with Lossy(sys.stderr):
            display(f"{PREFIX}interrupted; what was compiled is in the cache")
        raise SystemExit(_INTERRUPTED) from None
    except HatchCubinError as exc:
        if is_on(os.environ, "HATCH_CUBIN_TRACEBACK"):
            _contain(exc, display)
            raise
        for message in render(exc, outcome, verbose=verbose):
            with Lossy(sys.stderr):
                display(message)
        annotate("error", in_order(exc.problems), folder)
        raise SystemExit(1) from None
    except Exception as exc:
        _contain(exc, display)
        raise


def _contain(error: Exception, display: Callable[[str], object]) -> None:
    """If the traceback of *error* contains commands for a terminal or CI, print it escaped, and exit."""
    import traceback  # slow to import

    if (trace := "".join(traceback.format_exception(error))) != plain(trace):
        with Lossy(sys.stderr):
            display(crash_report(error))
        raise SystemExit(1) from None


def crash_report(error: Exception) -> str:
    """Return the traceback of an error, escaped. For an unexpected error, add a request to report it."""
    import traceback  # slow to import

    trace = plain("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, HatchCubinError):
        return trace
    return f"{trace}\n{PREFIX}error: {_UNEXPECTED}"


def annotate(kind: str, problems: Iterable[Problem], folder: str | None = None) -> None:
    """Let GitHub Actions show problems at their lines. Elsewhere, do nothing."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from .common import github

    for problem in problems:
        path, line = problem.where or (None, None)
        text = str(problem._replace(where=None, details=problem.details[:_ANNOTATED]))
        place = None if path is None else plain(github.in_repository(path, folder))
        with Lossy(sys.stderr):
            write(sys.stderr, github.annotation(kind, text, place, line))
