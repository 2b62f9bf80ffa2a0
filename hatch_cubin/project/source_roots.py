"""Where the project's files are on the disk: in its folder, or in folders above it that the table names.

Such a source root has a name. Its files are called as if it lay in the project under that name, and the
compiler is shown the same. In an sdist it lies inside.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..config.toml_positions import Place
from ..config.value_checks import guess
from ..errors import ConfigError, Problem, SourceError, problem

_KEY = "source-roots"
_MARK_OF_SDISTS = "PKG-INFO"
_COPIED_AWAY = "a front end that copies the project away leaves it behind: build in place, or from the sdist"
_IN_SDISTS = "source-roots"  # no name that a package can have: setuptools would take `csrc` for one


class SourceRoot(NamedTuple):
    """A folder of sources: its name in the project, where it is, and the way there from the project."""

    name: str
    folder: Path  # without links on the way
    path_from_project: str
    is_partial: bool = False  # an sdist has no more of it than kernels need


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """The project's folder, with its source roots."""

    root: Path
    roots: tuple[SourceRoot, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that have all of its files."""
        return self.root, *(each.folder for each in self.roots)

    def source_root_of(self, path: str) -> SourceRoot | None:
        """Return the source root that a path of the project begins with."""
        if not self.roots:  # as in nearly every project, and asked for each file
            return None
        name = path.partition("/")[0]
        return next((each for each in self.roots if each.name == name), None)

    def disk_path(self, path: str) -> Path:
        """Return where a path of the project is on the disk."""
        home = self.source_root_of(path)
        return self.root / path if home is None else home.folder / path[len(home.name) + 1 :]

    def path_from_project(self, path: str) -> str:
        """Return the way to a path of the project from its own folder."""
        home = self.source_root_of(path)
        return path if home is None else home.path_from_project + path[len(home.name) :]

    def path_in_sdist(self, path: str) -> str:
        """Return where an sdist has a path of the project."""
        return path if self.source_root_of(path) is None else f"{_IN_SDISTS}/{path}"

    def path_of_sdist_file(self, place: str) -> str:
        """Return which path of the project an sdist has at a place."""
        path = place.removeprefix(f"{_IN_SDISTS}/")
        return place if self.source_root_of(path) is None else path

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """Return what a path on the disk is called in the project; outside of that it begins with `..`."""
        path = os.path.normpath(path)
        for each in self.roots:
            if Path(path).is_relative_to(each.folder):
                return Path(each.name, os.path.relpath(path, each.folder)).as_posix()
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def real_name(self, path: str) -> str:
        """Return what the place that a path leads to is called, links followed."""
        return ProjectTree(Path(os.path.realpath(self.root)), self.roots).name_of(
            os.path.realpath(self.disk_path(path))
        )

    def is_inside(self, path: str) -> bool:
        """Say whether a path of the project leads into the folder that its name says, links followed."""
        home = self.source_root_of(path)
        folder = os.path.realpath(self.root) if home is None else home.folder
        return Path(os.path.realpath(self.disk_path(path))).is_relative_to(folder)


def find_tree(root: Path, declared: Iterable[tuple[str, str]], place: Place) -> ProjectTree:
    """Return the project at *root* with its source roots; ConfigError names all that are wrong.

    An sdist has them in it. What lies where they were before is not its own.
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
            what = f"{_KEY}: {one.name!r} is {other.name!r}, or lies in it: one of the two is enough"
            problems.append(problem("source-roots-overlap", what, place.of(_KEY, one.name)))
    if problems:
        raise ConfigError(*problems)
    return ProjectTree(root, tuple(found))


def _located(root: Path, name: str, way: str, *, is_sdist: bool) -> SourceRoot:
    """Return a source root where it is: in an sdist inside, else where the table says."""
    if is_sdist:
        way = f"{_IN_SDISTS}/{name}"
    project, folder = Path(os.path.realpath(root)), Path(os.path.realpath(root / way))
    if os.path.lexists(root / name):
        what = f"there is {name!r} in the project too: which of them is meant?"
        raise SourceError(problem("source-root-name-taken", what, hint="give one of them another name"))
    if not is_sdist and (name == _IN_SDISTS or os.path.lexists(root / _IN_SDISTS)):
        what = f"{_IN_SDISTS!r} is where an sdist has source roots: nothing else can have that name"
        raise SourceError(problem("source-root-name-taken", what, hint="give it another name"))
    if is_sdist:
        if not folder.is_relative_to(project):
            what = f"{way!r} is a link to a place outside of the sdist"
            raise SourceError(problem("link-leads-outside", what))
        return SourceRoot(name, folder, way, is_partial=True)
    if not folder.is_dir():
        what = f"there is no folder {way!r} above {project}, and that is no sdist, which would have it inside"
        beside = [path.name for path in folder.parent.glob("*") if path.is_dir()]
        meant = guess(folder.name, beside)
        in_full = meant and meant.replace("'", f"'{os.path.dirname(way)}/", 1)
        raise SourceError(problem("source-root-not-found", what, hint=in_full or _COPIED_AWAY))
    if folder.is_relative_to(project):
        what = f"{way!r} lies in the project, which needs no root for it"
        raise SourceError(problem("source-root-in-project", what))
    if project.is_relative_to(folder):
        what = f"{way!r} has the project itself in it"
        raise SourceError(problem("source-root-contains-project", what))
    return SourceRoot(name, folder, way)
