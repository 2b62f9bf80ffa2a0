"""Parse the logs of compilers into diagnostics (errors and warnings), and merge equal diagnostics."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..common.sizes import count
from ..errors import Location, LongLine, Problem, problem
from ..headers.resolve import OWN
from ..planning.unit_plan import Module, Unit

_NVRTC = re.compile(
    r"^(?:warning: )?(?P<path>.+?)\((?P<line>\d+)\): (?P<kind>(?i:(?:[a-z-]+ )?error|warning))"
    r"(?: #(?P<number>\d+)(?:-D)?)?: (?P<text>.*)$"
)
NO_KERNEL = "the compiled code does not contain a kernel"
# The beginnings of the messages that `executor.py` writes.
TIMED_OUT, CRASHED = "took longer than ", "the compiler crashed ("
_NAME_MAP = "__nv_name_map"  # the name of NVRTC's internal file with the template instantiations
_PTXAS = re.compile(
    r"^ptxas .+?, line (?P<line>\d+); "
    r"(?P<kind>error|fatal|warning)\s*: (?P<text>.*)$"
)
_BARE = re.compile(
    r"^(?:nvrtc|ptxas|nvJitLink|Command-line)?:?\s*(?P<kind>(?:[a-z-]+ )?error|fatal|warning)"
    r"(?: #\d+(?:-D)?)?\s*:\s*(?P<text>.*)$",
    re.IGNORECASE,
)
# the end of ptxas's message about a line of PTX that ptxas cannot parse
_ON_LINE = re.compile(r" on line ([0-9]{1,9})$")
# Matches any other line of a compiler log that contains the word "error". The pattern does not match source
# lines that a compiler quotes, because they are indented.
_OTHER = re.compile(r"^(?P<place>\S.*?):? *\berror(?: #\d+(?:-D)?)?\s*:\s*(?P<text>.*)$", re.IGNORECASE)
_REDEFINED = re.compile(r'incompatible redefinition of macro "(\w+)"')
OF_ITS_OWN = re.compile(
    r"extern declaration of the entity (?:[^ ]*::)?(\w+) is treated as a static definition"
)
# Compiler warnings about undefined behaviour: 39 is a division by zero, 549 an unset variable, and 940 a
# function without a return statement. hatch-cubin does not say how to silence these three warnings.
MISTAKES = frozenset({39, 549, 940})
# the warning that the compiler ignores tile code, because an option for tile code is not set
IGNORED_TILE_CODE = 20360
_NAMED = 5  # the largest number of modules that an error names, unless the output is verbose
_NOISE = re.compile(
    r"\d+ (?:catastrophic )?errors? detected in |compilation terminated|ERROR NVJITLINK|ptx assembly aborted"
    r"|Remark: The warnings can be suppressed|ERROR \d+: complete",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning of a compiler."""

    kind: str  # "error" or "warning"
    where: Location | None
    text: str
    context: tuple[str, ...] = ()
    hint: str | None = None
    # Another hint, which is shown instead of *hint* if the source does not compile for any arch.
    otherwise: str | None = None
    # The compiler's number for the warning; empty if users must not silence the warning.
    number: int | None = None
    # The chain of includes that leads from a source to the error. If several sources have the same error, the
    # chain starts at the first of these sources.
    include_chain: tuple[str, ...] = field(default=(), compare=False)
    # The error's code in docs/reference/errors.md. The code is empty for the compiler's own messages.
    code: str = field(default="", compare=False)

    @property
    def is_own(self) -> bool:
        """Whether this error or warning is about a file of the project.

        Headers from outside the project have paths like `<folder>/...`.
        """
        return self.where is None or not self.where.path.startswith("<")

    def followed_by(self, number: int) -> Diagnostic:
        """Return a copy of this error with a line that says how many more errors came after this error."""
        more = (f"and {count(number, 'more error')} after this error",) if number else ()
        return replace(self, context=(*self.context, *more))


def failure(
    code: str, text: str, where: Location | None, hint: str | None = None, context: tuple[str, ...] = ()
) -> Diagnostic:
    """Return an error whose text comes from hatch-cubin and not from a compiler.

    *code* is the error's name in docs/reference/errors.md.
    """
    return Diagnostic("error", where, text, context, hint, code=code)


# One error of hatch-cubin that replaces several errors of the compiler, and the errors that remain.
Explanation = tuple[Diagnostic, "list[Diagnostic]"]


def parse_log(log: str, source: str, folders: Mapping[str, str]) -> list[Diagnostic]:
    """Return the diagnostics in a compiler's *log*.

    *folders* maps folders that the compiler reads to the names that messages show instead.
    """
    for folder, logical in folders.items():
        own = f"{logical}/".startswith(OWN)
        log = log.replace(f"{folder}/", f"{logical}/"[len(OWN) :] if own else f"<{logical}>/")
    found: list[Diagnostic] = []
    for line in log.splitlines():
        if (new := _diagnostic(line, source)) is not None:
            found.append(new)
        elif found and line.strip() and not _NOISE.search(line):
            found[-1] = replace(found[-1], context=(*found[-1].context, line.rstrip()))
    return found


def _diagnostic(line: str, source: str) -> Diagnostic | None:
    if match := _NVRTC.match(line):
        where, text = Location(posixpath.normpath(match["path"]), int(match["line"])), match["text"]
        if where.path == _NAME_MAP:
            where, text = Location(source), f"instantiate: {text}"
        if match["kind"].lower() != "warning":
            return Diagnostic("error", where, text)
        return _warning(where, text, int(match["number"]) if match["number"] else None)
    if match := _PTXAS.match(line):
        kind = "warning" if match["kind"] == "warning" else "error"
        return _of_ptx(kind, source, int(match["line"]), match["text"])
    if (match := _BARE.match(line)) and not _NOISE.search(line):
        return _without_place(
            "warning" if match["kind"].lower() == "warning" else "error", match["text"], source
        )
    match = _OTHER.match(line)
    return Diagnostic("error", Location(source), f"{match['place']}: {match['text']}") if match else None


def _without_place(kind: str, text: str, source: str) -> Diagnostic:
    if text.startswith(TIMED_OUT):
        return failure("compiler-timeout", text, Location(source))
    if text.startswith(CRASHED):
        return failure("compiler-crashed", text, Location(source))
    if (named := _ON_LINE.search(text)) is not None:
        return _of_ptx(kind, source, int(named[1]), text)
    return Diagnostic(kind, Location(source), text)


def _of_ptx(kind: str, source: str, line: int, text: str) -> Diagnostic:
    """Return the diagnostic for a compiler message about a line of PTX."""
    # The error is in inline assembly. The compiler gives a line number of the generated PTX, which the user
    # cannot see.
    if not source.lower().endswith(".ptx"):
        return Diagnostic(kind, Location(source), f"{text} (in the generated PTX)")
    return Diagnostic(kind, Location(source, line), text)


def _warning(where: Location, text: str, number: int | None) -> Diagnostic:
    # No hint says how to silence the warning about a redefined macro, because the macro's value in
    # pyproject.toml has no effect.
    if match := _REDEFINED.match(text):
        hint = (
            f"put #ifndef {match[1]} before this definition and #endif after it, to keep the configured value"
        )
        return Diagnostic("warning", where, text, hint=hint)
    # No hint says how to silence the warning about an `extern` variable, because the variable does not get
    # the values that other sources assign.
    if match := OF_ITS_OWN.match(text):
        hint = (
            f"if another source defines {match[1]}, link both sources in a [[…module]] table; "
            "otherwise remove 'extern'"
        )
        return replace(failure("separate-variable", text, where, hint), kind="warning")
    return Diagnostic("warning", where, text, number=number)


def about_shared_array(warning: Diagnostic, text: str) -> Diagnostic | None:
    """Add a hint to a warning about an `extern __shared__` array that has a fixed size.

    *text* is the content of the file that the warning is about. Return None for a warning that is not about
    an `extern __shared__` array with a fixed size.
    """
    match = OF_ITS_OWN.match(warning.text)
    if match is None or not re.search(rf"\bextern\s+__shared__[^;]*\b{match[1]}\s*\[", text):
        return None
    hint = (
        "the size in this declaration is fixed and a launch cannot change it: "
        f"remove 'extern', or write {match[1]}[] to set the size at the launch"
    )
    return replace(warning, hint=hint, code="")


def redefined(found: Iterable[Diagnostic], names: Collection[str]) -> list[Diagnostic]:
    """Return an error for each compiler warning that the source redefines one of the macros *names*."""
    return [
        failure(
            "variant-redefined",
            f"the source defines the macro {match[1]} again, so all variants of the source would be equal",
            each.where,
            each.hint,
        )
        for each in found
        if (match := _REDEFINED.match(each.text)) and match[1] in names
    ]


def merge(
    found: Iterable[tuple[Diagnostic, Unit]], compiler_of: Callable[[Module], str]
) -> list[tuple[Problem, list[Unit]]]:
    """Merge equal diagnostics of several units: return each problem once, with a list of its units."""
    units: dict[Diagnostic, list[Unit]] = {}
    for diagnostic, unit in found:
        units.setdefault(diagnostic, []).append(unit)
    return [(_problem(diagnostic, having, compiler_of), having) for diagnostic, having in units.items()]


def _problem(diagnostic: Diagnostic, units: Sequence[Unit], compiler_of: Callable[[Module], str]) -> Problem:
    compiler = compiler_of(units[0].module)
    doing = "linking" if units[0].module.link else "compiling"
    modules = [*dict.fromkeys(unit.module.title for unit in units)]
    more = f" and {len(modules) - _NAMED} more" if len(modules) > _NAMED else ""
    archs = ", ".join(dict.fromkeys(str(unit.arch) for unit in units))
    whole, short = (
        f"while {doing} {names} for {archs} ({compiler})"
        for names in (", ".join(modules), ", ".join(modules[:_NAMED]) + more)
    )
    details = (*diagnostic.context, *diagnostic.include_chain, LongLine(whole, short))
    return as_problem(diagnostic, diagnostic.hint, details)


def as_problem(diagnostic: Diagnostic, hint: str | None, details: tuple[str, ...]) -> Problem:
    """Convert a diagnostic to a problem, the type of all errors and warnings that hatch-cubin prints."""
    what, where = diagnostic.text, diagnostic.where
    if diagnostic.kind == "warning":
        told = problem("compiler-warning", what, where, hint, details)
    else:
        told = problem("compiler-error", what, where, hint, details)
    return told._replace(code=diagnostic.code or told.code)
