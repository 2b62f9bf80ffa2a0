"""Find the parameter types of `extern "C"` kernels in the source, if no macro or header can change them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from ..common.digest import file_digest
from ..headers.includes import Closure
from ..headers.resolve import OWN, SearchFolder
from ..planning.unit_plan import Module
from ..project import disk
from ..project.declared_kernels import ParameterTypes, TextNames, declared_types, names_of
from ..project.scan import ScanCache
from ..project.source_roots import ProjectTree


def types_of_module(
    module: Module, closure: Closure, search: tuple[SearchFolder, ...], tree: ProjectTree, scans: ScanCache
) -> Mapping[str, ParameterTypes]:
    """Return the parameter types of each kernel of a module.

    The result is empty if a header has changed since the search for headers, or if the headers that the
    compiler reads are not known exactly.
    """
    if closure.trees or closure.widened or "global__" not in module.source.text:
        return {}
    try:
        names = [*_own_names(closure, tree)]
    except _ChangedError:
        return {}
    names += (names_of(f"define {name} {value}") for name, value in module.macros)
    return declared_types(module.source.text, names, _macros_outside(closure, search, scans))


def types_of_linked_module(
    module: Module, of_object: Callable[[Module], Mapping[str, ParameterTypes]]
) -> Mapping[str, ParameterTypes]:
    """Return the parameter types of the kernels of a linked module (a module made of several sources).

    If two sources mention the same kernel, the result does not contain this kernel.
    """
    assert module.link is not None
    texts = [source.text for source in module.link.texts]
    texts += (each.source.text for each in module.link.objects)
    found = {name: types for each in module.link.objects for name, types in of_object(each).items()}
    return {
        name: types
        for name, types in found.items()
        if sum(name in names_of(text).words for text in texts) == 1
    }


class _ChangedError(Exception):
    """Raised if a header has changed since the search for headers."""


def _own_names(closure: Closure, tree: ProjectTree) -> Iterator[TextNames]:
    for logical, content in closure.own.items():
        path = tree.disk_path(logical[len(OWN) :]) if logical.startswith(OWN) else logical
        data = disk.read_file(path, tree)
        if file_digest(data) != content:
            raise _ChangedError
        yield names_of(data.decode("utf-8", "surrogateescape"))


def _macros_outside(closure: Closure, search: tuple[SearchFolder, ...], scans: ScanCache) -> set[str]:
    """Return the names of all macros that the headers outside the project may define."""
    found: set[str] = set()
    for logical, content in closure.files.items():
        if logical not in closure.own:
            scan = scans.of_digest(content)
            if scan is None:
                root = next(each for each in search if logical.startswith(f"{each.logical}/"))
                path = os.path.join(root.path, logical[len(root.logical) + 1 :])
                _content, scan = scans.of_file(path, ProjectTree(root.path))
            found.update(name for name, _value in scan.defines)
    return found
