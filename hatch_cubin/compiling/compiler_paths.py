"""Paths for the compiler that are the same in every build folder.

Debug information, `assert` and `__FILE__` put paths into the compiled bytes. Linux can name an open folder by
its descriptor number. So the project, and each header tree outside it, gets a descriptor whose number depends
only on the tree's name. Before CUDA 13.4, debug information also contains the modification time of each
header, which differs in every checkout and installation. For these versions the descriptors refer to copies
with the same time for all headers.
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

_PROJECT_DESCRIPTOR = 77  # any number that is not used in a new process
_DEEP = 16
_FIRST, _COUNT = 100, 800  # below the usual limit of 1024 open files


class Layout(NamedTuple):
    """The positions of copies in a folder: each descriptor's folder, the folders to create, and each file."""

    places: Mapping[int, str]
    folders: tuple[str, ...]
    files: Mapping[str, tuple[str, Path]]  # by position: the logical name, and the file to copy


class CompilePaths:
    """The names of the project's folder and of each header tree in a compile."""

    def __init__(self, tree: ProjectTree, search: Iterable[SearchFolder]) -> None:
        self._tree, self._project = tree, (project := tree.root)
        self._by_number = sys.platform == "linux" and Path("/proc/self/fd").is_dir()
        self._numbers = {project: _PROJECT_DESCRIPTOR}
        self._logical = {project: PROJECT}
        # A folder may have two names: the name of the wheel, and the name of the wheel's toolkit.
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
        """The folder that each descriptor refers to in the compiler's process."""
        return {number: str(path) for path, number in self._numbers.items()} if self._by_number else {}

    @property
    def are_scattered(self) -> bool:
        """Whether parts of the project are in other places than the names in the compile suggest."""
        return self._by_number and bool(self._tree.roots)

    def joined(self, into: Path) -> Mapping[int, str]:
        """Link the whole project with its source roots *into* a folder.

        Return descriptors that refer to it.
        """
        folder = into.joinpath(*["in"] * _DEEP)  # deep, so that `..` does not find anything
        folder.mkdir(parents=True)
        for place in self._project.iterdir():
            (folder / place.name).symlink_to(place)
        for each in self._tree.roots:
            (folder / each.name).symlink_to(each.folder)
        return {**self.descriptors, _PROJECT_DESCRIPTOR: str(folder)}

    def copies(self, into: Path, closures: Iterable[Closure], folders: Iterable[str]) -> Mapping[int, str]:
        """Copy the headers of *closures*, give all copies the same time, and return descriptors for them.

        *folders* are the folders of the project from which files are included: without them, `../a.h` is not
        found.
        """
        if not self.descriptors:
            return {}
        closures = [*{id(closure): closure for closure in closures}.values()]  # jobs share closures
        names = dict.fromkeys(name for closure in closures for name in closure.files)
        layout = self.layout(names, folders)
        for folder in layout.folders:
            (into / folder).mkdir(parents=True, exist_ok=True)
        for closure in closures:
            for path, tree in self._trees:
                if tree in closure.trees:  # any file of the tree may be read
                    shutil.copytree(path, into / layout.places[self._numbers[path]], dirs_exist_ok=True)
        for place, (_name, source) in layout.files.items():
            _copy(source, into / place)
        for parent, _folders, files in os.walk(into):
            for file in files:
                os.utime(os.path.join(parent, file), (0, 0))
        return {number: str(into / place) for number, place in layout.places.items()}

    def layout(self, names: Iterable[str], folders: Iterable[str]) -> Layout:
        """Return the positions for copies of files, by logical name, so that each file finds all others.

        *folders* are the folders of the project from which files are included. Absolute paths are left out
        because they mean the same everywhere. KeyError if a name is not in any folder: another file might be
        found in its place.
        """
        names = [name for name in names if not name.startswith("/")]
        # The levels above its folder that a file can be at: 2 for `project/../../a.h`.
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
        """Return the innermost folder that contains the file of a logical name, and the file's path in it."""
        name = max((name for name in self._named if logical.startswith(f"{name}/")), default=logical, key=len)
        return self._named[name], logical[len(name) + 1 :]

    def _place(self, path: Path, levels: int) -> Path:
        """Return the position for the copy of a folder. A folder inside another one is copied into its copy.

        The position is so deep that files up to *levels* levels above the folder still stay in one tree with
        it.
        """
        outermost = next(each for each in sorted(self._numbers) if path.is_relative_to(each))
        return Path(str(self._numbers[outermost]), *["in"] * levels, path.relative_to(outermost))

    @cached_property
    def readable(self) -> Mapping[str, str]:
        """The user's name for each folder that a diagnostic may mention."""
        above = {} if self._by_number else {str(each.folder): OWN + each.name for each in self._tree.roots}
        return {self._name(path): logical for path, logical in self._logical.items()} | above

    def of_source(self, path: str) -> str:
        """Return the name of a project file in the compile."""
        return f"{self._name(self._project)}/{path}" if self._by_number else str(self._tree.disk_path(path))

    def of_root(self, root: SearchFolder) -> str:
        """Return the name of a folder of the search path in the compile."""
        if root.tree:
            return self._name(root.path)
        return self.of_source(root.logical.removeprefix(OWN))

    def _name(self, path: Path) -> str:
        return f"/proc/self/fd/{self._numbers[path]}" if self._by_number else str(path)


def _copy(source: Path, target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
