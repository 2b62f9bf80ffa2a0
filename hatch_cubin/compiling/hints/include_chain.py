"""Find the chain of includes that leads from a source to each header, with the line of each include."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from ...errors import Location, SourceError
from ...headers.includes import Resolver
from ...headers.resolve import SearchFolder
from ...project import disk
from ...project.scan import ScanCache, line_of_include
from ...project.source import Source
from ...project.source_roots import ProjectTree

_File = tuple[SearchFolder, str]


class Step(NamedTuple):
    """One include: the file and line of the #include, and the name in the #include."""

    where: Location
    name: str

    @property
    def is_own(self) -> bool:
        """Whether the include is in a file of the project."""
        return not self.where.path.startswith("<")


@functools.lru_cache(
    maxsize=4
)  # cached: the function may read hundreds of headers, and runs for each arch that fails to compile
def include_chains_from(
    source: Source, tree: ProjectTree, search: tuple[SearchFolder, ...]
) -> Mapping[str, tuple[Step, ...]]:
    """Return the shortest chain of includes to each header, by the name that messages show for the header."""
    resolver, scans = Resolver(tree, search), ScanCache()
    start = resolver.own(source.path)
    include_chains: dict[str, tuple[Step, ...]] = {source.path: ()}
    pending = deque([start])
    while pending:
        file = pending.popleft()
        name, text = _named(file, tree), source.text if file == start else _text(file, tree)
        for include in scans.of_text(text).includes:
            found_at = resolver.find(include, *file).places if include.form in {"quote", "angle"} else ()
            for found in found_at:
                if (header := _named(found, tree)) not in include_chains:
                    include_chains[header] = (
                        *include_chains[name],
                        Step(Location(name, line_of_include(include, text)), include.name),
                    )
                    pending.append(found)
    return include_chains


def _named(file: _File, tree: ProjectTree) -> str:
    root, relative = file
    if root.tree:
        return f"<{root.logical}>/{relative}"
    return tree.name_of(root.path / relative)


def _text(file: _File, tree: ProjectTree) -> str:
    try:
        return disk.read_file(file[0].path / file[1], tree).decode("utf-8", "replace")
    except SourceError:  # The header was removed after the compile, so hatch-cubin cannot read its includes.
        return ""
