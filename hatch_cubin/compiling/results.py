"""The results of all units of a build, and the error that lists all units that failed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..cache.entries import Compiled
from ..errors import CompileError, MissError, Problem, SourceError, problem
from ..planning.unit_plan import Module, Unit
from ..project.project import Project
from ..toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from ..bundle.packs import PackedBlocks
    from .diagnostics import Diagnostic
    from .hints.archs import Archs


@dataclass(slots=True)
class Results:
    """The outcome of every unit of a build: a result, an error, or a cache miss that is not allowed."""

    done: dict[Unit, Compiled] = field(default_factory=dict)
    seconds: dict[Unit, float] = field(default_factory=dict)
    # the address of the cluster worker that compiled a unit
    workers: dict[Unit, str] = field(default_factory=dict)
    failed: list[tuple[Unit, list[Diagnostic]]] = field(default_factory=list)
    missing: list[Unit] = field(default_factory=list)
    hits_required_by: str = "HATCH_CUBIN_REQUIRE_HITS"  # the variable or option that forbids misses
    archs_for_explain: str = ""  # the archs of a variable or option, which replace the table's archs
    # units for other archs that were compiled successfully, for hints
    tried: list[Unit] = field(default_factory=list)
    fetched: set[Unit] = field(default_factory=set)  # units whose results came from the remote store
    remote: Mapping[str, Any] | None = None  # a summary of the exchange with the remote store
    packed: PackedBlocks | None = None  # the packed blocks with all units, if the bundle is packed


def repeat_warnings(project: Project, hits: Iterable[Compiled]) -> None:
    """In a verbose build, print the compilers' warnings about units that were found in the cache."""
    if project.verbose:
        for warning in dict.fromkeys(each for hit in hits for each in hit.warnings):
            project.warn(warning)


def require(results: Results, toolkit: Toolkit, refused: Sequence[Problem] = ()) -> None:
    """Raise an error that lists all units that failed or were *refused*, or all forbidden cache misses."""
    if results.missing:
        archs: dict[Module, list[str]] = {}
        for unit in results.missing:
            archs.setdefault(unit.module, []).append(str(unit.arch))
        by = results.hits_required_by
        archs_option = results.archs_for_explain and f" --archs {shlex.quote(results.archs_for_explain)}"
        missing = (_unwanted(module, ", ".join(each), by, archs_option) for module, each in archs.items())
        raise MissError(*refused, *missing)
    if results.failed:
        raise CompileError(*refused, *_problems(results, toolkit))
    if refused:
        raise SourceError(*refused)


def _unwanted(module: Module, archs: str, switch: str, archs_option: str) -> Problem:
    path = module.source.path
    what = f"{module.name} for {archs} is not in the cache, but {switch} is set"
    hint = f"run 'hatch-cubin explain {shlex.quote(path)}{archs_option}' to see the reason"
    return problem("not-in-cache", what, module.location, hint, _origin(module))


def _origin(module: Module) -> tuple[str, ...]:
    produced = module.source.produced
    if produced is None:
        return ()
    return (f"{produced.producer} returned its text here; another text is another unit",)


def _problems(results: Results, toolkit: Toolkit) -> list[Problem]:
    """Return a problem for each different diagnostic, with hints about archs that compile."""
    from .diagnostics import merge  # lazy: needed only if a unit failed
    from .hints.merge_pasteable import merge_hints

    archs = archs_of(results, toolkit)
    pairs = [(archs.advise(each, unit.module), unit) for unit, found in results.failed for each in found]
    return merge_hints([each for each, _units in merge(pairs, toolkit.compiler_of)])


def archs_of(results: Results, toolkit: Toolkit) -> Archs:
    """Return the facts about which archs of the failed sources compile."""
    from .hints.archs import Archs  # lazy: needed only if a unit failed

    return Archs(results.failed, results.done, toolkit.supported, results.tried)
