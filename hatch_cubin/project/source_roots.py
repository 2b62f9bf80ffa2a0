"""Locate the project's files on the disk, in the project's folder or in source roots.

A source root is a folder above the project to which pyproject.toml gives a name. In messages and for the
compiler, a source root looks like a folder in the project with the name of the root. An sdist contains copies
of the source roots.
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
MARK_OF_SDISTS = "PKG-INFO"
_COPIED_AWAY = (
    "if this is a copy of the project, the folder was not copied: build in the "
    "original folder, or from the sdist"
)
# The folder for source roots in sdists. Its name cannot be the name of a package, because setuptools would
# treat a folder such as `csrc` as a package.
_IN_SDISTS = "source-roots"


class SourceRoot(NamedTuple):
    """A source root: its name in the project, and its folder on the disk."""

    name: str
    folder: Path  # the folder's path with links resolved
    path_from_project: str
    # whether the source root is in an unpacked sdist, which contains only the files that kernels need
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """The project's folder, and the source roots of the project."""

    root: Path
    roots: tuple[SourceRoot, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The paths of the project's folder and of all source roots."""
        return self.root, *(each.folder for each in self.roots)

    def source_root_of(self, path: str) -> SourceRoot | None:
        """Return the source root that contains a project-relative *path*.

        The result is None if no source root contains *path*.
        """
        # a fast path, because this code runs for each file, and most projects do not have source roots
        if not self.roots:
            return None
        name = path.partition("/")[0]
        return next((each for each in self.roots if each.name == name), None)

    def disk_path(self, path: str) -> Path:
        """Return the location on the disk of a path in the project."""
        home = self.source_root_of(path)
        return self.root / path if home is None else home.folder / path[len(home.name) + 1 :]

    def path_from_project(self, path: str) -> str:
        """Return a path in the project as a path relative to the project's folder on the disk."""
        home = self.source_root_of(path)
        return path if home is None else home.path_from_project + path[len(home.name) :]

    def path_in_sdist(self, path: str) -> str:
        """Return the path in an sdist for a path in the project."""
        return path if self.source_root_of(path) is None else f"{_IN_SDISTS}/{path}"

    def path_of_sdist_file(self, place: str) -> str:
        """Return the path in the project for a path in an sdist."""
        path = place.removeprefix(f"{_IN_SDISTS}/")
        return place if self.source_root_of(path) is None else path

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return the path in the project for a path on the disk.

        The result begins with `..` if *path* is outside the project and its source roots.
        """
        path = os.path.normpath(path)
        for each in self.roots:
            if Path(path).is_relative_to(each.folder):
                return Path(each.name, os.path.relpath(path, each.folder)).as_posix()
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def real_name(self, path: str) -> str:
        """Return *path* with all links followed, as a path in the project."""
        return ProjectTree(Path(os.path.realpath(self.root)), self.roots).name_of(
            os.path.realpath(self.disk_path(path))
        )

    def is_inside(self, path: str) -> bool:
        """Return whether *path* is still in its source root or project after all links are followed."""
        home = self.source_root_of(path)
        folder = os.path.realpath(self.root) if home is None else home.folder
        return Path(os.path.realpath(self.disk_path(path))).is_relative_to(folder)


def find_tree(root: Path, declared: Iterable[tuple[str, str]], place: TableLocation) -> ProjectTree:
    """Return the tree of the project at *root*; a ConfigError lists all source roots that are wrong.

    If the project is an unpacked sdist, its source roots are inside the sdist. Folders above an unpacked
    sdist do not belong to the project.
    """
    is_sdist = os.path.isfile(root / MARK_OF_SDISTS)
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
            what = (
                f"{_KEY}: {one.name!r} is the folder {other.name!r} or is inside it: remove "
                f"one of these source roots"
            )
            problems.append(problem("source-roots-overlap", what, place.of(_KEY, one.name)))
    if problems:
        raise ConfigError(*problems)
    return ProjectTree(root, tuple(found))


def _located(root: Path, name: str, way: str, *, is_sdist: bool) -> SourceRoot:
    """Locate the source root *name*: inside an unpacked sdist, or else in the configured folder."""
    if is_sdist:
        way = f"{_IN_SDISTS}/{name}"
    project, folder = Path(os.path.realpath(root)), Path(os.path.realpath(root / way))
    if os.path.lexists(root / name):
        what = f"{name!r} is also a file or folder of the project: a source root needs a different name"
        raise SourceError(
            problem("source-root-name-taken", what, hint="rename the source root, or the file or folder")
        )
    if not is_sdist and (name == _IN_SDISTS or os.path.lexists(root / _IN_SDISTS)):
        what = f"the name {_IN_SDISTS!r} is reserved for the folder of source roots in an sdist"
        raise SourceError(problem("source-root-name-taken", what, hint="choose another name"))
    if is_sdist:
        if not folder.is_relative_to(project):
            what = f"{way!r} is a link to a place outside of the sdist"
            raise SourceError(problem("link-leads-outside", what))
        return SourceRoot(name, folder, way, is_partial=True)
    if not folder.is_dir():
        what = (
            f"there is no folder {way!r} above {project}, "
            "and the project is not an unpacked sdist, which would contain a copy of the folder"
        )
        beside = [path.name for path in folder.parent.glob("*") if path.is_dir()]
        meant = guess(folder.name, beside)
        in_full = meant and meant.replace("'", f"'{os.path.dirname(way)}/", 1)
        raise SourceError(problem("source-root-not-found", what, hint=in_full or _COPIED_AWAY))
    if folder.is_relative_to(project):
        what = f"{way!r} is in the project, but a source root must be a folder above the project"
        raise SourceError(problem("source-root-in-project", what))
    if project.is_relative_to(folder):
        what = f"{way!r} contains the project itself"
        raise SourceError(problem("source-root-contains-project", what))
    return SourceRoot(name, folder, way)
