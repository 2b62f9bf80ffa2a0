"""What came of every unit, and the error that names all that failed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..cache.entries import Compiled
from ..errors import CompileError, MissError, Problem, SourceError
from ..planning.unit_plan import Module, Unit
from ..project.project import Project
from ..toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from ..bundle.packs import Packed
    from .diagnostics import Diagnostic
    from .hints.archs import Archs


@dataclass(slots=True)
class Results:
    """What is known of every unit: found in the cache, compiled in so many seconds, failed or missing."""

    done: dict[Unit, Compiled] = field(default_factory=dict)
    seconds: dict[Unit, float] = field(default_factory=dict)
    workers: dict[Unit, str] = field(default_factory=dict)  # the addresses of other machines that compiled
    failed: list[tuple[Unit, list[Diagnostic]]] = field(default_factory=list)
    missing: list[Unit] = field(default_factory=list)
    hits_required_by: str = "HATCH_CUBIN_REQUIRE_HITS"  # or an option, as the user wrote it
    tried: list[Unit] = field(default_factory=list)  # what compiles and nobody asked for, to be offered
    fetched: set[Unit] = field(default_factory=set)  # what of those done came from the store behind the cache
    remote: Mapping[str, Any] | None = None  # what was exchanged with that
    packed: Packed | None = None  # the blocks of all of them, where they were asked for


def repeat_warnings(project: Project, hits: Iterable[Compiled]) -> None:
    """Repeat the warnings that hits gave when they were compiled, if the build is verbose."""
    if project.verbose:
        for warning in dict.fromkeys(each for hit in hits for each in hit.warnings):
            project.warn(warning)


def require(results: Results, toolkit: Toolkit, refused: Sequence[Problem] = ()) -> None:
    """Raise an error that names all that failed or was *refused*, or all that is missing."""
    if results.missing:
        archs: dict[Module, list[str]] = {}
        for unit in results.missing:
            archs.setdefault(unit.module, []).append(str(unit.arch))
        by = results.hits_required_by
        missing = (_unwanted(module, ", ".join(each), by) for module, each in archs.items())
        raise MissError(*refused, *missing)
    if results.failed:
        raise CompileError(*refused, *_problems(results, toolkit))
    if refused:
        raise SourceError(*refused)


def _unwanted(module: Module, archs: str, switch: str) -> Problem:
    path = module.source.path
    what = f"{module.name} for {archs} is not in the cache, and {switch} is set"
    return Problem(what, module.location, f"'hatch-cubin explain {shlex.quote(path)}' says what differs")


def _problems(results: Results, toolkit: Toolkit) -> list[Problem]:
    """Return what failed: each diagnostic once, with a hint about the archs that worked."""
    from .diagnostics import merge  # nothing of it is needed where all goes well
    from .hints.merge_pasteable import together

    archs = archs_of(results, toolkit)
    pairs = [(archs.advise(each, unit.module), unit) for unit, found in results.failed for each in found]
    problems = [problem for problem, _units in merge(pairs, toolkit.compiler_of)]
    return together(problems)


def archs_of(results: Results, toolkit: Toolkit) -> Archs:
    """Return what can be said of the archs of units that failed."""
    from .hints.archs import Archs  # nothing of it is needed where all goes well

    return Archs(results.failed, results.done, toolkit.supported, results.tried)
