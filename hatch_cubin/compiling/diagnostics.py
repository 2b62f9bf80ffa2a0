"""Parse the compilers' logs: each diagnostic with its place, reported once for all archs. Does no I/O."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..common.sizes import count
from ..errors import Location, Problem, problem
from ..headers.resolve import OWN
from ..planning.unit_plan import Module, Unit

_NVRTC = re.compile(
    r"^(?:warning: )?(?P<path>.+?)\((?P<line>\d+)\): (?P<kind>(?i:(?:[a-z-]+ )?error|warning))"
    r"(?: #(?P<number>\d+)(?:-D)?)?: (?P<text>.*)$"
)
NO_KERNEL = "compiled to nothing: there is no kernel in it"
TIMED_OUT, CRASHED = "took longer than ", "the compiler crashed ("  # as the executor says
_NAME_MAP = "__nv_name_map"  # the file that NVRTC writes name expressions into
_PTXAS = re.compile(
    r"^ptxas .+?, line (?P<line>\d+); "
    r"(?P<kind>error|fatal|warning)\s*: (?P<text>.*)$"
)
_BARE = re.compile(
    r"^(?:nvrtc|ptxas|nvJitLink|Command-line)?:?\s*(?P<kind>(?:[a-z-]+ )?error|fatal|warning)"
    r"(?: #\d+(?:-D)?)?\s*:\s*(?P<text>.*)$",
    re.IGNORECASE,
)
_ON_LINE = re.compile(r" on line ([0-9]{1,9})$")  # ptxas could not parse the line at all
# Any other line that contains the word "error". Lines of a source that a compiler quotes are indented.
_OTHER = re.compile(r"^(?P<place>\S.*?):? *\berror(?: #\d+(?:-D)?)?\s*:\s*(?P<text>.*)$", re.IGNORECASE)
_REDEFINED = re.compile(r'incompatible redefinition of macro "(\w+)"')
OF_ITS_OWN = re.compile(r"extern declaration of the entity (\w+) is treated as a static definition")
# Numbers of warnings about code without a defined result: division by zero, an unset variable, and a
# function that ends without a return. No hint says how to silence them.
MISTAKES = frozenset({39, 549, 940})
_NOISE = re.compile(
    r"\d+ (?:catastrophic )?errors? detected in |compilation terminated|ERROR NVJITLINK|ptx assembly aborted"
    r"|Remark: The warnings can be suppressed|ERROR \d+: complete",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of a compiler."""

    kind: str  # "error" or "warning"
    where: Location | None
    text: str
    context: tuple[str, ...] = ()
    hint: str | None = None
    otherwise: str | None = None  # the hint if no arch of the source compiles
    number: int | None = None  # for warnings of a kind that can be silenced
    # The includes that lead to it, for the first source that has it.
    include_chain: tuple[str, ...] = field(default=(), compare=False)
    code: str = field(default="", compare=False)  # on the errors page; empty for a compiler's own message

    @property
    def is_own(self) -> bool:
        """Whether it is about a file of the project. Headers from elsewhere are called `<folder>/...`."""
        return self.where is None or not self.where.path.startswith("<")

    def followed_by(self, number: int) -> Diagnostic:
        """Return a copy of this diagnostic that also mentions how many others it represents."""
        more = (f"and {count(number, 'more error')} after it",) if number else ()
        return replace(self, context=(*self.context, *more))


def failure(
    code: str, text: str, where: Location | None, hint: str | None = None, context: tuple[str, ...] = ()
) -> Diagnostic:
    """Return an error in hatch-cubin's own words, with the code under which the errors page lists it."""
    return Diagnostic("error", where, text, context, hint, code=code)


Explanation = tuple[Diagnostic, "list[Diagnostic]"]  # one error for several, and the remaining ones


def parse_log(log: str, source: str, folders: Mapping[str, str]) -> list[Diagnostic]:
    """Return the diagnostics in *log*. *folders* has the user's name for each folder of the compile."""
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
    """Return a message about a line of PTX."""
    if not source.lower().endswith(".ptx"):  # inline assembly: the line is not in any file of the user
        return Diagnostic(kind, Location(source), f"{text} (in the generated PTX)")
    return Diagnostic(kind, Location(source, line), text)


def _warning(where: Location, text: str, number: int | None) -> Diagnostic:
    if match := _REDEFINED.match(text):  # the table's value is lost; silencing the warning would hide that
        hint = f"#ifndef {match[1]} before it, and #endif behind, keep the value that was given"
        return Diagnostic("warning", where, text, hint=hint)
    if match := OF_ITS_OWN.match(text):  # other sources' settings are ignored; silencing would hide it
        hint = (
            f"where another source defines {match[1]}, a module table links the two; else leave out 'extern'"
        )
        return Diagnostic("warning", where, text, hint=hint)
    return Diagnostic("warning", where, text, number=number)


def about_warning(warning: Diagnostic, text: str) -> str | None:
    """Return advice for a warning that should not be silenced. *text* is the text of its file."""
    match = OF_ITS_OWN.match(warning.text)
    if match and re.search(rf"\bextern\s+__shared__[^;]*\b{match[1]}\s*\[", text):
        by_launch = f"write {match[1]}[] for the size that a launch gives"
        return f"a launch does not change the size that is written here: leave out 'extern', or {by_launch}"
    return warning.hint


def redefined(found: Iterable[Diagnostic], names: Collection[str]) -> list[Diagnostic]:
    """Return an error for each warning about a second definition of one of the macros."""
    return [
        failure(
            "variant-redefined",
            f"{match[1]} is defined again: its variants would be one",
            each.where,
            each.hint,
        )
        for each in found
        if (match := _REDEFINED.match(each.text)) and match[1] in names
    ]


def merge(
    found: Iterable[tuple[Diagnostic, Unit]], compiler_of: Callable[[Module], str]
) -> list[tuple[Problem, list[Unit]]]:
    """Return one problem per distinct diagnostic, with the units that have it."""
    units: dict[Diagnostic, list[Unit]] = {}
    for diagnostic, unit in found:
        units.setdefault(diagnostic, []).append(unit)
    return [(_problem(diagnostic, having, compiler_of), having) for diagnostic, having in units.items()]


def _problem(diagnostic: Diagnostic, units: Sequence[Unit], compiler_of: Callable[[Module], str]) -> Problem:
    compiler = compiler_of(units[0].module)
    doing = "linking" if units[0].module.link else "compiling"
    modules = ", ".join(dict.fromkeys(unit.module.name for unit in units))
    archs = ", ".join(dict.fromkeys(str(unit.arch) for unit in units))
    details = (
        *diagnostic.context,
        *diagnostic.include_chain,
        f"while {doing} {modules} for {archs} ({compiler})",
    )
    return as_problem(diagnostic, diagnostic.hint, details)


def as_problem(diagnostic: Diagnostic, hint: str | None, details: tuple[str, ...]) -> Problem:
    """Return a diagnostic as a problem, with its own code or one for all messages of compilers."""
    what, where = diagnostic.text, diagnostic.where
    if diagnostic.kind == "warning":
        return problem("compiler-warning", what, where, hint, details)
    error = problem("compiler-error", what, where, hint, details)
    return error._replace(code=diagnostic.code or error.code)
