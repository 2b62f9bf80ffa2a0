"""List the files that units are compiled from: files of the project, of wheels, and of other header trees."""

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
    """A job, with only those of its attributes that this module reads."""

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
    """Return a mapping from path to digest for the sources that *jobs* compile."""
    modules = dict.fromkeys(job.unit.module for job in jobs)
    texts = (text for module in modules if module.link for text in module.link.texts)
    sources = (source for module in modules for source in (module.source, *module.equal))
    return {source.path: source.sha256 for source in (*sources, *texts)}


def header_files(jobs: Jobs) -> Mapping[str, str]:
    """Return a mapping from path to digest for the project's headers that *jobs* can read."""
    closures = distinct_closures(job.closure for job in jobs)
    return {path: closure.own[OWN + path] for closure in closures for path in own_files(closure)}


def linked_files(jobs: Jobs) -> Mapping[str, str]:
    """Return a mapping from path to digest for the project files that are linked without being compiled."""
    return {each.name: each.digest for job in jobs for each in job.linked if each.is_own}


def header_trees(jobs: Jobs) -> Mapping[str, str | None]:
    """Return the wheels (with versions) and other header trees whose headers *jobs* can read."""
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
    """Return the wheels whose files are linked into modules, with the wheels' versions."""
    return dict(each.wheel for job in jobs for each in job.linked if each.wheel)


def own_linked_files(module: Module) -> list[str]:
    """Return the paths of a linked module's PTX sources, and of the project's files in its setting `link`."""
    link = module.link
    if link is None:
        return []
    return [
        *(text.path for text in link.texts if not text.produced),
        *(each for each in link.files if ":" not in each),
    ]


def produced_paths(module: Module) -> list[str]:
    """Return the paths of a module's sources that scripts generated, and that do not exist on the disk."""
    texts = module.link.texts if module.link else ()
    return [source.path for source in (module.source, *module.equal, *texts) if source.produced]


def distinct_closures(closures: Iterable[Closure]) -> list[Closure]:
    """Return each header closure object only once, because many modules share the same object."""
    return [*{id(closure): closure for closure in closures}.values()]


def own_files(closure: Closure, excluded: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the paths of a closure's project files, except files with a logical name in *excluded*."""
    return [
        logical[len(OWN) :] for logical in closure.own if logical.startswith(OWN) and logical not in excluded
    ]
