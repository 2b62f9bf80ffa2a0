"""Find sources that do not define kernels and that other sources include."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..planning.unit_plan import Module
from ..project import disk
from ..project.source import may_have_kernel
from ..project.source_roots import ProjectTree


def drop_included_sources(
    modules: Sequence[Module], tree: ProjectTree, named_files: Callable[[Module], set[str]]
) -> tuple[list[Module], list[str]]:
    """Return the modules to build, and a message for each source that is left out as a part of other sources.

    *named_files* returns the files of the project that a module's source names in `#include` lines.
    """
    alone = [module for module in modules if not (module.link or module.part_of)]
    sources = {module.source.path: module for module in alone}
    includers: dict[str, str] = {}
    for module in modules:
        if module.link:  # *modules* also contains the objects of a linked module
            continue
        for path in (named_files(module) & sources.keys()) - {module.source.path}:
            includers.setdefault(path, module.source.path)
    parts = {path: by for path, by in includers.items() if _is_part(sources[path], tree, named_files)}
    left = [each for each in modules if each.link or each.part_of or each.source.path not in parts]
    if not left:  # all sources include each other, which is a mistake that the compiler reports
        return list(modules), []
    notes = [
        f"{path} is not compiled as a module, because this file has no kernel and {includer} includes it"
        for path, includer in parts.items()
    ]
    return left, notes


def _is_part(module: Module, tree: ProjectTree, named_files: Callable[[Module], set[str]]) -> bool:
    if module.instantiate or module.variant:
        return False
    headers = (
        disk.read_file(tree.disk_path(path), tree).decode("utf-8", "replace") for path in named_files(module)
    )
    macros = (text for macro in module.macros for text in macro)
    return not any(map(may_have_kernel, (module.source.text, *headers, *macros)))
