"""Give the compiler paths that are the same in every build folder.

Debug information, `assert` and `__FILE__` put paths into the compiled bytes. On Linux, an open folder has a
path with its descriptor number (`/proc/self/fd/77`). So the compiler process opens the project's folder and
each header tree outside the project under a descriptor number that depends only on the tree's name. Before
CUDA 13.4, debug information also contains the modification time of each header, which differs in every
checkout and installation. For these versions, the descriptors refer to copies in which all headers have the
same time.
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

_PROJECT_DESCRIPTOR = 77  # a number that new processes do not use
_DEEP = 16
_FIRST, _COUNT = 100, 800  # the range of numbers, below the usual limit of 1024 open files


class Layout(NamedTuple):
    """The positions of copied files in a folder.

    *places* are the folders for descriptor numbers, *folders* are the folders to create, *files* are the
    files to copy.
    """

    places: Mapping[int, str]
    folders: tuple[str, ...]
    files: Mapping[str, tuple[str, Path]]  # by position: the logical name, and the path of the file to copy


class CompilePaths:
    """The paths that the compiler sees for the project's folder and for each header tree."""

    def __init__(self, tree: ProjectTree, search: Iterable[SearchFolder]) -> None:
        self._tree, self._project = tree, (project := tree.root)
        self._by_number = sys.platform == "linux" and Path("/proc/self/fd").is_dir()
        self._numbers = {project: _PROJECT_DESCRIPTOR}
        self._logical = {project: PROJECT}
        # A folder may have two logical names: the name of the wheel, and the name of the wheel's toolkit.
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
        """The folder that the compiler process opens under each descriptor number."""
        return {number: str(path) for path, number in self._numbers.items()} if self._by_number else {}

    @property
    def are_scattered(self) -> bool:
        """Whether the project has source roots, which the compiler has to see inside the project's folder."""
        return self._by_number and bool(self._tree.roots)

    def joined(self, into: Path) -> Mapping[int, str]:
        """Make a folder with links to the project's files and to its source roots.

        Return the descriptors, with this folder as the project's folder.
        """
        # a deep folder, so that paths with `..` do not find other files
        folder = into.joinpath(*["in"] * _DEEP)
        folder.mkdir(parents=True)
        for place in self._project.iterdir():
            (folder / place.name).symlink_to(place)
        for each in self._tree.roots:
            (folder / each.name).symlink_to(each.folder)
        return {**self.descriptors, _PROJECT_DESCRIPTOR: str(folder)}

    def copies(self, into: Path, closures: Iterable[Closure], folders: Iterable[str]) -> Mapping[int, str]:
        """Copy all headers in *closures* with one time of change, and return descriptors for the copies.

        *folders* are the folders of the project from which files are included; they must exist, so that an
        include of `../a.h` works.
        """
        if not self.descriptors:
            return {}
        # each closure once, because jobs share closures
        closures = [*{id(closure): closure for closure in closures}.values()]
        names = dict.fromkeys(name for closure in closures for name in closure.files)
        layout = self.layout(names, folders)
        for folder in layout.folders:
            (into / folder).mkdir(parents=True, exist_ok=True)
        for closure in closures:
            for path, tree in self._trees:
                if tree in closure.trees:  # the compiler may read any file of this tree
                    shutil.copytree(path, into / layout.places[self._numbers[path]], dirs_exist_ok=True)
        for place, (_name, source) in layout.files.items():
            _copy(source, into / place)
        for parent, _folders, files in os.walk(into):
            for file in files:
                os.utime(os.path.join(parent, file), (0, 0))
        return {number: str(into / place) for number, place in layout.places.items()}

    def layout(self, names: Iterable[str], folders: Iterable[str]) -> Layout:
        """Return positions for copies of files, at which includes between the files still work.

        *names* are logical names of files. *folders* are the folders of the project from which files are
        included. Files with absolute paths are not copied, because their paths are the same everywhere. Raise
        KeyError if a file is not in any folder of the compile.
        """
        names = [name for name in names if not name.startswith("/")]
        # the largest number of `..` in a name: 2 for `project/../../a.h`.
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
        """Return the innermost folder that contains the file of a logical name, and the path in it."""
        name = max((name for name in self._named if logical.startswith(f"{name}/")), default=logical, key=len)
        return self._named[name], logical[len(name) + 1 :]

    def _place(self, path: Path, levels: int) -> Path:
        """Return the position for the copy of a folder.

        A folder that is inside another copied folder is copied into the copy of the other folder.

        The position is so deep that files up to *levels* levels above the folder are still inside the same
        tree.
        """
        outermost = next(each for each in sorted(self._numbers) if path.is_relative_to(each))
        return Path(str(self._numbers[outermost]), *["in"] * levels, path.relative_to(outermost))

    @cached_property
    def readable(self) -> Mapping[str, str]:
        """The name to show to the user for each folder that a compiler's message may mention."""
        above = {} if self._by_number else {str(each.folder): OWN + each.name for each in self._tree.roots}
        return {self._name(path): logical for path, logical in self._logical.items()} | above

    def of_source(self, path: str) -> str:
        """Return the path that the compiler sees for a file of the project."""
        return f"{self._name(self._project)}/{path}" if self._by_number else str(self._tree.disk_path(path))

    def of_root(self, root: SearchFolder) -> str:
        """Return the path that the compiler sees for a folder of the search path."""
        if root.tree:
            return self._name(root.path)
        return self.of_source(root.logical.removeprefix(OWN))

    def _name(self, path: Path) -> str:
        return f"/proc/self/fd/{self._numbers[path]}" if self._by_number else str(path)


def _copy(source: Path, target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
