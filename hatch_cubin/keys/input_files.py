"""List the inputs of jobs: files of the project, wheels, and other trees of headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Protocol

from ..headers.includes import Closure
from ..headers.outside_project import names_in
from ..headers.resolve import OWN, SearchFolder
from ..headers.search_path import wheels_of
from ..planning.unit_plan import Module, Unit

if TYPE_CHECKING:
    from ..toolkit.linker import Input


class _JobInputs(Protocol):
    """The parts of a job that this module reads."""

    @property
    def unit(self) -> Unit: ...
    @property
    def search(self) -> tuple[SearchFolder, ...]: ...
    @property
    def closure(self) -> Closure: ...
    @property
    def linked(self) -> tuple[Input, ...]: ...


Jobs = Sequence[_JobInputs]


def source_files(jobs: Jobs) -> Mapping[str, str]:
    """Return the digest of each source, by its path."""
    modules = dict.fromkeys(job.unit.module for job in jobs)
    texts = (text for module in modules if module.link for text in module.link.texts)
    return {source.path: source.sha256 for source in (*(each.source for each in modules), *texts)}


def header_files(jobs: Jobs) -> Mapping[str, str]:
    """Return the digest of each of the project's headers, by its path."""
    closures = distinct_closures(job.closure for job in jobs)
    return {path: closure.own[OWN + path] for closure in closures for path in own_files(closure)}


def linked_files(jobs: Jobs) -> Mapping[str, str]:
    """Return the digest of each file of the project that is linked without a compile, by its path."""
    return {each.name: each.digest for job in jobs for each in job.linked if each.is_own}


def header_trees(jobs: Jobs) -> Mapping[str, str | None]:
    """Return the wheels and other trees whose headers *jobs* can read, wheels with their versions."""
    by_search: dict[tuple[SearchFolder, ...], list[Closure]] = {}
    for job in {id(job.closure): job for job in jobs}.values():
        by_search.setdefault(job.search, []).append(job.closure)
    any_of = {tree for closures in by_search.values() for closure in closures for tree in closure.trees}
    used: dict[str, set[str]] = {}
    for search, closures in by_search.items():
        names = names_in(closure.files for closure in closures)
        for root in search:
            if root.tree and any(closure.reads(root) for closure in closures):
                own = (name for name in names if name.startswith(f"{root.logical}/"))
                used.setdefault(root.tree, set()).update(own)
    found: dict[str, str | None] = {}
    for tree, files in used.items():
        wheels = wheels_of(tree, None if tree in any_of else files)
        found.update(wheels)
        if not wheels:
            found[tree] = None
    return found


def linked_wheels(jobs: Jobs) -> Mapping[str, str | None]:
    """Return the wheels whose files are linked, with their versions."""
    return dict(each.wheel for job in jobs for each in job.linked if each.wheel)


def own_linked_files(module: Module) -> list[str]:
    """Return the paths of the project's files that a linked module lists, and of its PTX sources."""
    link = module.link
    if link is None:
        return []
    return [
        *(text.path for text in link.texts if not text.produced),
        *(each for each in link.files if ":" not in each),
    ]


def produced_paths(module: Module) -> list[str]:
    """Return the paths of a module's sources that scripts produced, which are not on the disk."""
    texts = module.link.texts if module.link else ()
    return [source.path for source in (module.source, *texts) if source.produced]


def distinct_closures(closures: Iterable[Closure]) -> list[Closure]:
    """Return each closure object once: many modules share one, and comparing their files would be slow."""
    return [*{id(closure): closure for closure in closures}.values()]


def own_files(closure: Closure, excluded: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the paths of the project's files in a closure, except the logical names in *excluded*."""
    return [
        logical[len(OWN) :] for logical in closure.own if logical.startswith(OWN) and logical not in excluded
    ]
