"""Give the compiler paths that are the same in every build folder.

Debug information, `assert` and `__FILE__` put the paths of files into compiled code. On Linux, a process can
open a folder and then reach the folder by a path such as `/proc/self/fd/77`, which contains only the number
of the file descriptor. The compiler process opens the project's folder with a fixed descriptor number. The
file descriptor of a header library (such as CUDA's headers) has a number that depends only on the library's
name. Before CUDA 13.4, debug information also contains the modification time of each header, which differs in
every checkout and installation. With CUDA before 13.4, the compiler process opens copies of the folders, in
which all headers have the same modification time.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..common.digest import digest
from ..headers.includes import Closure
from ..headers.resolve import OWN, PROJECT, SearchFolder
from ..project.source_roots import ProjectTree

# The number of the file descriptor for the project's folder. New processes do not use the number 77.
_PROJECT_DESCRIPTOR = 77
_DEEP = 16
# The range of file descriptors for folders of headers. The range is below the usual limit of 1024 open files.
_FIRST, _COUNT = 100, 800


class Layout(NamedTuple):
    """Where to copy headers inside a new folder; all paths in the layout are relative to this folder.

    *places* maps the number of each file descriptor to the folder that the compiler process opens. *folders*
    are the folders to create, and *files* are the files to copy.
    """

    places: Mapping[int, str]
    folders: tuple[str, ...]
    # Maps the path of each copied header to the header's name in cache keys, and to the original file.
    files: Mapping[str, tuple[str, Path]]


class CompilePaths:
    """The paths that the compiler sees for the project's folder and for each header library."""

    def __init__(self, tree: ProjectTree, search: Iterable[SearchFolder]) -> None:
        self._tree, self._project = tree, (project := tree.root)
        self._by_number = sys.platform == "linux" and Path("/proc/self/fd").is_dir()
        self._numbers = {project: _PROJECT_DESCRIPTOR}
        self._logical = {project: PROJECT}
        # A folder of headers may have two names in cache keys: the name of its wheel, and the name of its
        # CUDA toolkit.
        self._named = {PROJECT: project}
        self._trees = {(project, "")}
        for root in sorted(set(search), key=lambda root: root.logical):
            if root.tree:
                self._numbers.setdefault(root.path, self._free(root.logical))
                self._logical.setdefault(root.path, root.logical)
                self._named[root.logical] = root.path
                self._trees.add((root.path, root.tree))

    def _free(self, logical: str) -> int:
        number = _FIRST + int(digest([logical])[:8], 16) % _COUNT
        while number in self._numbers.values():
            number += 1
        return number

    @property
    def descriptors(self) -> Mapping[int, str]:
        """A mapping from the number of each file descriptor to the folder that the compiler process opens."""
        return {number: str(path) for path, number in self._numbers.items()} if self._by_number else {}

    @property
    def are_scattered(self) -> bool:
        """Whether the compiler needs a folder with links to the project's files and to the `source-roots`."""
        return self._by_number and bool(self._tree.roots)

    def joined(self, into: Path) -> Mapping[int, str]:
        """Make a folder with links to the project's files and to the folders in `source-roots`.

        Return a copy of the mapping `descriptors` in which the project's file descriptor leads to the new
        folder.
        """
        # The folder has many parents, so that an include with `..` does not find other files.
        folder = into.joinpath(*["in"] * _DEEP)
        folder.mkdir(parents=True)
        for place in self._project.iterdir():
            (folder / place.name).symlink_to(place)
        for each in self._tree.roots:
            (folder / each.name).symlink_to(each.folder)
        return {**self.descriptors, _PROJECT_DESCRIPTOR: str(folder)}

    def copies(self, into: Path, closures: Iterable[Closure], folders: Iterable[str]) -> Mapping[int, str]:
        """Copy all headers that the compiles can read (*closures*), and set the modification times to 0.

        *folders* are the project's folders with files that include headers. All *folders* must exist in the
        copy: an include of `../a.h` works only if the folder of the including file exists. The compiler
        process opens some of the copied folders, each with a fixed file descriptor number. Return a mapping
        from the file descriptor numbers to the paths of the copied folders.
        """
        if not self.descriptors:
            return {}
        # Many compiles share one set of headers, so each set is copied only once.
        closures = [*{id(closure): closure for closure in closures}.values()]
        names = dict.fromkeys(name for closure in closures for name in closure.files)
        layout = self.layout(names, folders)
        for folder in layout.folders:
            (into / folder).mkdir(parents=True, exist_ok=True)
        for closure in closures:
            for path, tree in self._trees:
                if tree in closure.trees:  # The compiler may read any file of this library of headers.
                    shutil.copytree(path, into / layout.places[self._numbers[path]], dirs_exist_ok=True)
        for place, (_name, source) in layout.files.items():
            _copy(source, into / place)
        for parent, _folders, files in os.walk(into):
            for file in files:
                os.utime(os.path.join(parent, file), (0, 0))
        return {number: str(into / place) for number, place in layout.places.items()}

    def layout(self, names: Iterable[str], folders: Iterable[str]) -> Layout:
        """Return where to copy header files so that relative includes between the copies work.

        *names* are the names that cache keys use for header files. *folders* are those folders of the project
        whose files contain `#include` lines. Header files with absolute paths are not copied, because these
        paths are the same in every build folder. Raise KeyError if a header file is not in any folder that
        the compiler process opens.
        """
        names = [name for name in names if not name.startswith("/")]
        # The largest number of `..` in a path, such as 2 in `project/../../a.h`.
        levels = max((name.split("/").count("..") for name in names), default=0)
        places = {path: self._place(path, levels) for path in self._numbers}
        files: dict[str, tuple[str, Path]] = {}
        for name in names:
            folder, relative = self._home_of(name)
            source = self._tree.disk_path(relative) if folder == self._project else folder / relative
            files[str(places[folder] / relative)] = (name, source)
        begun = (places[self._project] / folder for folder in folders)
        return Layout(
            {number: str(places[path]) for path, number in self._numbers.items()},
            tuple(dict.fromkeys(map(str, (*places.values(), *begun)))),
            files,
        )

    def _home_of(self, logical: str) -> tuple[Path, str]:
        """Return the folder that contains a file, and the file's path inside this folder."""
        name = max((name for name in self._named if logical.startswith(f"{name}/")), default=logical, key=len)
        return self._named[name], logical[len(name) + 1 :]

    def _place(self, path: Path, levels: int) -> Path:
        """Return where to copy the folder *path*.

        If *path* is inside a larger folder that is also copied, the copy of *path* is inside the copy of the
        larger folder.

        The copy has at least *levels* parent folders, so that an include with this many `..` stays inside the
        copied tree.
        """
        outermost = next(each for each in sorted(self._numbers) if path.is_relative_to(each))
        return Path(str(self._numbers[outermost]), *["in"] * levels, path.relative_to(outermost))

    @cached_property
    def readable(self) -> Mapping[str, str]:
        """A mapping from the folders in compiler messages to the names that the user sees instead."""
        above = {} if self._by_number else {str(each.folder): OWN + each.name for each in self._tree.roots}
        return {self._name(path): logical for path, logical in self._logical.items()} | above

    def of_source(self, path: str) -> str:
        """Return the path that the compiler sees for a file of the project."""
        return f"{self._name(self._project)}/{path}" if self._by_number else str(self._tree.disk_path(path))

    def of_root(self, root: SearchFolder) -> str:
        """Return the path that the compiler sees for a folder in which it searches for headers."""
        if root.tree:
            return self._name(root.path)
        return self.of_source(root.logical.removeprefix(OWN))

    def _name(self, path: Path) -> str:
        return f"/proc/self/fd/{self._numbers[path]}" if self._by_number else str(path)


def _copy(source: Path, target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
