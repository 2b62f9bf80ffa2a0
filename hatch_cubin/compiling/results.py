"""The compiled code of all modules of a build, and the error that lists all modules that failed."""

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
    from .other_compilers import OtherCompiler

# The codes of warnings about kernels that are missing or do not work. Every build prints these warnings.
_REPEATED = (
    "[empty-kernel]",
    "[block-too-large]",
    "[cluster-too-large]",
    "[separate-variable]",
    "[stack-too-large]",
    "[template-not-instantiated]",
)


@dataclass(slots=True)
class Results:
    """The result of a build for each unit (a module for one arch): compiled code, error or cache miss."""

    done: dict[Unit, Compiled] = field(default_factory=dict)
    seconds: dict[Unit, float] = field(default_factory=dict)
    # The cluster worker that compiled each unit.
    workers: dict[Unit, str] = field(default_factory=dict)
    failed: list[tuple[Unit, list[Diagnostic]]] = field(default_factory=list)
    missing: list[Unit] = field(default_factory=list)
    # For missing units: the other version of the compiler whose results the cache contains.
    others: Mapping[Unit, OtherCompiler] = field(default_factory=dict)
    # The environment variable or option that makes a cache miss an error.
    hits_required_by: str = "HATCH_CUBIN_REQUIRE_HITS"
    empty_cache: str = ""  # the path of the cache folder, if the folder has no entries
    # The archs from an environment variable or option, which replace the archs in pyproject.toml.
    archs_for_explain: str = ""
    # Units for archs that the project does not list. The build compiles these units only for hints, so a
    # failure is not an error.
    tried: list[Unit] = field(default_factory=list)
    fetched: set[Unit] = field(default_factory=set)  # The units that the remote store supplied.
    # A summary of what was downloaded from and uploaded to the remote store.
    remote: Mapping[str, Any] | None = None
    # With the option `pack`: the compressed blocks with the code of all units.
    packed: PackedBlocks | None = None


def repeat_warnings(project: Project, hits: Iterable[Compiled]) -> None:
    """Print the warnings that earlier builds stored in the cache with the results *hits*.

    Unless the build is verbose, only warnings about kernels that are missing or do not work are printed.
    """
    for warning in dict.fromkeys(each for hit in hits for each in hit.warnings):
        if project.verbose or any(code in warning for code in _REPEATED):
            project.warn(warning)


def require(results: Results, toolkit: Toolkit, refused: Sequence[Problem] = ()) -> None:
    """Raise an error about all cache misses that the build does not allow, or about all failed compiles."""
    if results.missing:
        archs: dict[tuple[Module, OtherCompiler | None], list[str]] = {}
        for unit in results.missing:
            archs.setdefault((unit.module, results.others.get(unit)), []).append(str(unit.arch))
        missing = (
            _unwanted(module, ", ".join(each), results, toolkit)
            if other is None
            else _compiled_by_another(module, ", ".join(each), results, other)
            for (module, other), each in archs.items()
        )
        raise MissError(*refused, *missing)
    if results.failed:
        raise CompileError(*refused, *_problems(results, toolkit))
    if refused:
        raise SourceError(*refused)


def _unwanted(module: Module, archs: str, results: Results, toolkit: Toolkit) -> Problem:
    archs_option = results.archs_for_explain and f" --archs {shlex.quote(results.archs_for_explain)}"
    what = f"{module.title} for {archs} is not in the cache, but {results.hits_required_by} is set"
    command = f"hatch-cubin explain {shlex.quote(module.source.path)}{archs_option}"
    hint = f"run '{command}' where {toolkit.compiler_of(module)} is installed, as in this build"
    if results.empty_cache:
        hint = (
            f"the cache {results.empty_cache} is empty: run 'hatch-cubin bake' first, or set "
            "HATCH_CUBIN_CACHE_DIR to the absolute path of a cache that is filled already"
        )
    return problem("not-in-cache", what, module.location, hint, _origin(module))


def _compiled_by_another(module: Module, archs: str, results: Results, other: OtherCompiler) -> Problem:
    what = (
        f"the cache has {module.title} for {archs} only as code that {other.cached} compiled, but this build "
        f"uses {other.own}, and {results.hits_required_by} is set"
    )
    return problem("not-in-cache", what, module.location, other.hint, _origin(module))


def _origin(module: Module) -> tuple[str, ...]:
    produced = module.source.produced
    if produced is None:
        return ()
    detail = (
        f"{produced.producer} returned the text of this source: "
        "if this text differs from the text in an earlier build, the cache does not contain its result"
    )
    return (detail,)


def _problems(results: Results, toolkit: Toolkit) -> list[Problem]:
    """Return the build's errors without duplicates; hints list the archs that compile without errors."""
    from .diagnostics import merge  # lazy import: most builds have no errors
    from .hints.merge_pasteable import merge_hints

    archs = archs_of(results, toolkit)
    pairs = [(archs.advise(each, unit.module), unit) for unit, found in results.failed for each in found]
    return merge_hints([each for each, _units in merge(pairs, toolkit.compiler_of)])


def archs_of(results: Results, toolkit: Toolkit) -> Archs:
    """Return the archs for which each source compiles or fails, for the hints in errors of failed sources."""
    from .hints.archs import Archs  # lazy import: most builds have no errors

    return Archs(results.failed, results.done, toolkit.supported, results.tried)
