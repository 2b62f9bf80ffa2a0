"""Paths for the compiler that are the same in every build folder.

Debug information, `assert` and `__FILE__` put paths into the bytes. Linux can name an open folder by
the number of its descriptor. So the project and each header tree outside it get a descriptor whose number
depends on nothing but the tree's name. Before CUDA 13.4, debug information also holds when each header was
written, which differs with every checkout and installation. There the descriptors stand for copies of the
headers, which all have the same time.
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

_PROJECT_DESCRIPTOR = 77  # any number that is free in a fresh process
_DEEP = 16
_FIRST, _COUNT = 100, 800  # below the usual limit of 1024 open files


class Layout(NamedTuple):
    """Where copies stand in one folder: what each descriptor stands for, what has to be there, each file."""

    places: Mapping[int, str]
    folders: tuple[str, ...]
    files: Mapping[str, tuple[str, Path]]  # by place: the logical name, and what is copied


class CompilePaths:
    """How the project's folder and each header tree are called in a compile."""

    def __init__(self, tree: ProjectTree, search: Iterable[SearchFolder]) -> None:
        self._tree, self._project = tree, (project := tree.root)
        self._by_number = _named_by_number()
        self._numbers = {project: _PROJECT_DESCRIPTOR}
        self._logical = {project: PROJECT}
        # One folder may have two names: a wheel's own, and the toolkit's that it is a part of.
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
        """The folder that each descriptor has to stand for in the compiler's process."""
        return {number: str(path) for path, number in self._numbers.items()} if self._by_number else {}

    @property
    def are_scattered(self) -> bool:
        """Whether some of the project lies elsewhere than the compile's names say."""
        return self._by_number and bool(self._tree.roots)

    def joined(self, into: Path) -> Mapping[int, str]:
        """Link all of the project *into* a folder, its source roots too; return descriptors with that one."""
        folder = into.joinpath(*["in"] * _DEEP)  # a `..` leads nowhere from it
        folder.mkdir(parents=True)
        for place in self._project.iterdir():
            (folder / place.name).symlink_to(place)
        for each in self._tree.roots:
            (folder / each.name).symlink_to(each.folder)
        return {**self.descriptors, _PROJECT_DESCRIPTOR: str(folder)}

    def copies(self, into: Path, closures: Iterable[Closure], folders: Iterable[str]) -> Mapping[int, str]:
        """Copy the headers of *closures*, give all copies one time, and return descriptors for them.

        *folders* are those of the project in which includes begin: `../a.h` leads nowhere without them.
        """
        if not self.descriptors:
            return {}
        closures = [*{id(closure): closure for closure in closures}.values()]  # jobs share them
        names = dict.fromkeys(name for closure in closures for name in closure.files)
        layout = self.layout(names, folders)
        for folder in layout.folders:
            (into / folder).mkdir(parents=True, exist_ok=True)
        for closure in closures:
            for path, tree in self._trees:
                if tree in closure.trees:  # any of its files may be meant
                    shutil.copytree(path, into / layout.places[self._numbers[path]], dirs_exist_ok=True)
        for place, (_name, source) in layout.files.items():
            _copy(source, into / place)
        for parent, _folders, files in os.walk(into):
            for file in files:
                os.utime(os.path.join(parent, file), (0, 0))
        return {number: str(into / place) for number, place in layout.places.items()}

    def layout(self, names: Iterable[str], folders: Iterable[str]) -> Layout:
        """Return where copies of files stand, by their logical names, so that each finds all others.

        *folders* are those of the project in which includes begin. Absolute paths are left out, for they mean
        the same everywhere. KeyError where a name is in no folder: another file might be found in its place.
        """
        names = [name for name in names if not name.startswith("/")]
        levels = max(map(_levels_out, names), default=0)
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
        """Return the innermost folder that has the file of a logical name, and the file's path in it."""
        name = max((name for name in self._named if logical.startswith(f"{name}/")), default=logical, key=len)
        return self._named[name], logical[len(name) + 1 :]

    def _place(self, path: Path, levels: int) -> Path:
        """Return where a folder is copied to: into another one's copy if it lies in that one.

        It is so deep that files which lie so many levels out of it stay in one folder with it.
        """
        outermost = next(each for each in sorted(self._numbers) if path.is_relative_to(each))
        return Path(str(self._numbers[outermost]), *["in"] * levels, path.relative_to(outermost))

    @cached_property
    def readable(self) -> Mapping[str, str]:
        """What the user calls each folder that a diagnostic may name."""
        above = {} if self._by_number else {str(each.folder): OWN + each.name for each in self._tree.roots}
        return {self._name(path): logical for path, logical in self._logical.items()} | above

    def of_source(self, path: str) -> str:
        """Return the compile's name of a file of the project."""
        return f"{self._name(self._project)}/{path}" if self._by_number else str(self._tree.disk_path(path))

    def of_root(self, root: SearchFolder) -> str:
        """Return the compile's name of a folder of the search path."""
        if root.tree:
            return self._name(root.path)
        return self.of_source(root.logical.removeprefix(OWN))

    def _name(self, path: Path) -> str:
        return f"/proc/self/fd/{self._numbers[path]}" if self._by_number else str(path)


def _levels_out(name: str) -> int:
    """Return how many levels out of its folder a file can lie: 2 for `project/../../a.h`."""
    return name.split("/").count("..")


def _copy(source: Path, target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _named_by_number() -> bool:
    return sys.platform == "linux" and Path("/proc/self/fd").is_dir()
