"""Paths in the project at which a build searched for an included file, but did not find a file.

A lock file lists the absent paths, and a build with the lock file checks that no file exists there now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..planning.unit_plan import Module
from ..project.source_roots import ProjectTree
from .includes import Closure

# For each folder, the names of files that must not exist in the folder. A name with a `/` at its end may
# exist as a folder, but not as a file.
AbsentNames = Mapping[str, Sequence[str]]


def tried_paths(closures: Iterable[tuple[Module, Closure]]) -> set[str]:
    """Return each path at which a new file could change a header closure.

    A header closure is the set of all files that a source can read.
    """
    paths = set[str]()
    for module, closure in closures:
        paths.update(path for places in closure.absent for path in places)
        # The compiler first looks for a pre-included file in the folders of the search path, and then in the
        # project's folder.
        paths.update(f"{folder}/{name}" for name in closure.at_root for folder in module.include_dirs)
        on_machine = (os.path.join(os.sep, name) for name in module.pre_includes)
        paths.update(path for path in on_machine if not os.path.isfile(path))
    return paths


def absent_names(tree: ProjectTree, paths: Iterable[str]) -> dict[str, list[str]]:
    """Return a mapping from each folder to names of absent files and folders in it.

    As long as all the returned names are absent, no file exists at any of *paths*.
    """
    there = dict[str, bool]()
    names: dict[str, set[str]] = {}
    for path in paths:
        missing = path if os.path.isabs(path) else _first_missing(tree, path, there)
        folder, name = os.path.split(missing.removesuffix("/"))
        names.setdefault(folder.replace(os.sep, "/"), set()).add(name + "/" * missing.endswith("/"))
    return {folder: sorted(found) for folder, found in names.items()}


def _first_missing(tree: ProjectTree, path: str, there: dict[str, bool]) -> str:
    """Return the start of *path*, up to and including its first part that does not exist.

    The caller has checked that no file exists at *path*. If a folder exists at *path*, the result is *path*
    with a `/` at its end.
    """
    end = -1
    while (end := path.find(os.sep, end + 1)) >= 0:
        if (start := path[:end]) not in there:
            there[start] = os.path.exists(tree.disk_path(start))
        if not there[start]:
            return start
    return path + "/" * os.path.exists(tree.disk_path(path))


def appeared_paths(tree: ProjectTree, absent: AbsentNames) -> Iterator[str]:
    """Yield the paths that must not exist according to the lock file's list *absent*, but that exist now."""
    for folder, names in absent.items():
        for name in names:
            path = tree.disk_path(os.path.join(folder, name.removesuffix("/")))
            if os.path.exists(path) and not (name.endswith("/") and os.path.isdir(path)):
                yield f"{folder}/{name}" if folder else name
