"""Locate the project's files on the disk: in its folder, or in source roots.

A source root is a folder above the project to which the table gives a name. Messages and the compiler see its
files as if the root were a folder of the project with that name. An sdist contains its source roots.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..config.toml_positions import TableLocation
from ..config.value_checks import guess
from ..errors import ConfigError, Problem, SourceError, problem

_KEY = "source-roots"
_MARK_OF_SDISTS = "PKG-INFO"
_COPIED_AWAY = (
    "a front end that builds in a copy of the project leaves it out: build in place, or from the sdist"
)
# The folder for source roots in sdists. It cannot be a package's name: setuptools would take `csrc` for one.
_IN_SDISTS = "source-roots"


class SourceRoot(NamedTuple):
    """A folder of sources above the project: its name in the project, and where it is."""

    name: str
    folder: Path  # with links resolved
    path_from_project: str
    is_partial: bool = False  # in an sdist, which contains only the files that kernels need


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """The project's folder, with its source roots."""

    root: Path
    roots: tuple[SourceRoot, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The project's folder and the folders of its source roots."""
        return self.root, *(each.folder for each in self.roots)

    def source_root_of(self, path: str) -> SourceRoot | None:
        """Return the source root that a path of the project begins with."""
        if not self.roots:  # most projects have no source roots, and this runs for each file
            return None
        name = path.partition("/")[0]
        return next((each for each in self.roots if each.name == name), None)

    def disk_path(self, path: str) -> Path:
        """Return where a path of the project is on the disk."""
        home = self.source_root_of(path)
        return self.root / path if home is None else home.folder / path[len(home.name) + 1 :]

    def path_from_project(self, path: str) -> str:
        """Return a path of the project relative to the project's folder on the disk."""
        home = self.source_root_of(path)
        return path if home is None else home.path_from_project + path[len(home.name) :]

    def path_in_sdist(self, path: str) -> str:
        """Return the place of a path of the project in an sdist."""
        return path if self.source_root_of(path) is None else f"{_IN_SDISTS}/{path}"

    def path_of_sdist_file(self, place: str) -> str:
        """Return the path in the project of a file of an sdist."""
        path = place.removeprefix(f"{_IN_SDISTS}/")
        return place if self.source_root_of(path) is None else path

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return the path in the project of a path on the disk; it begins with `..` if it is outside."""
        path = os.path.normpath(path)
        for each in self.roots:
            if Path(path).is_relative_to(each.folder):
                return Path(each.name, os.path.relpath(path, each.folder)).as_posix()
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def real_name(self, path: str) -> str:
        """Return the path in the project of the file that a path leads to, with links followed."""
        return ProjectTree(Path(os.path.realpath(self.root)), self.roots).name_of(
            os.path.realpath(self.disk_path(path))
        )

    def is_inside(self, path: str) -> bool:
        """Return whether a path, with links followed, stays in the project or in its own source root."""
        home = self.source_root_of(path)
        folder = os.path.realpath(self.root) if home is None else home.folder
        return Path(os.path.realpath(self.disk_path(path))).is_relative_to(folder)


def find_tree(root: Path, declared: Iterable[tuple[str, str]], place: TableLocation) -> ProjectTree:
    """Return the project at *root* with its source roots; ConfigError has every source root that is wrong.

    In an sdist the source roots are inside. Folders above an unpacked sdist do not belong to it.
    """
    is_sdist = os.path.isfile(root / _MARK_OF_SDISTS)
    found: list[SourceRoot] = []
    problems: list[Problem] = []
    for name, way in declared:
        try:
            found.append(_located(root, name, way, is_sdist=is_sdist))
        except SourceError as exc:
            where = place.of(_KEY, name)
            problems += (each._replace(what=f"{_KEY}: {each.what}", where=where) for each in exc.problems)
    for one, other in itertools.permutations(found, 2):
        if one.folder.is_relative_to(other.folder) and (one.folder != other.folder or one.name > other.name):
            what = f"{_KEY}: {one.name!r} is the folder {other.name!r}, or is in it: one of the two is enough"
            problems.append(problem("source-roots-overlap", what, place.of(_KEY, one.name)))
    if problems:
        raise ConfigError(*problems)
    return ProjectTree(root, tuple(found))


def _located(root: Path, name: str, way: str, *, is_sdist: bool) -> SourceRoot:
    """Return the source root *name*: inside an sdist, otherwise the folder that the table gives."""
    if is_sdist:
        way = f"{_IN_SDISTS}/{name}"
    project, folder = Path(os.path.realpath(root)), Path(os.path.realpath(root / way))
    if os.path.lexists(root / name):
        what = f"the project has a file or folder {name!r} too: which one do you mean?"
        raise SourceError(problem("source-root-name-taken", what, hint="give one of them another name"))
    if not is_sdist and (name == _IN_SDISTS or os.path.lexists(root / _IN_SDISTS)):
        what = f"{_IN_SDISTS!r} is the folder for source roots in an sdist: nothing else can have this name"
        raise SourceError(problem("source-root-name-taken", what, hint="give it another name"))
    if is_sdist:
        if not folder.is_relative_to(project):
            what = f"{way!r} is a link to a place outside of the sdist"
            raise SourceError(problem("link-leads-outside", what))
        return SourceRoot(name, folder, way, is_partial=True)
    if not folder.is_dir():
        what = f"there is no folder {way!r} above {project}, which is not an sdist"
        beside = [path.name for path in folder.parent.glob("*") if path.is_dir()]
        meant = guess(folder.name, beside)
        in_full = meant and meant.replace("'", f"'{os.path.dirname(way)}/", 1)
        raise SourceError(problem("source-root-not-found", what, hint=in_full or _COPIED_AWAY))
    if folder.is_relative_to(project):
        what = f"{way!r} is in the project: a source root is for a folder above it"
        raise SourceError(problem("source-root-in-project", what))
    if project.is_relative_to(folder):
        what = f"{way!r} contains the project itself"
        raise SourceError(problem("source-root-contains-project", what))
    return SourceRoot(name, folder, way)
