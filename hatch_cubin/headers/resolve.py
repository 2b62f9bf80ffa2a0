"""Where an include leads: along the search path, in the order that the compiler has."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..common import file_access
from ..common.digest import digest, stream_digest
from ..errors import Location, SourceError, problem
from ..project import disk
from ..project.scan import Include, Scan, ScanCache
from ..project.source_roots import ProjectTree
from .outside_project import OutsideFolder

PROJECT = "project"  # the logical name of the project's folder
OWN = f"{PROJECT}/"  # what the logical names of the project's own files begin with
FOLDERS = "folders "  # what the name of all folders of the project begins with
_NEVER_SEARCHED = frozenset({".git", ".hatch", "_cubins", "__pycache__"})
_HERE = re.compile(r"^(?:\./+)+")
_OF_PROCESSES = ("/proc/", "/dev/fd/", "/dev/std")
_SCANNED_BYTES = 8 << 20  # in a folder that is taken in whole, a larger file is data


class SearchFolder(NamedTuple):
    """A folder of the search path: where it is, its name in keys, and the tree it belongs to."""

    path: Path
    logical: str
    tree: str = ""  # a toolkit's or wheel's name and build; empty for the project's own

    @property
    def is_package(self) -> bool:
        """Whether it is a header package's: the wheels of a toolkit have other names."""
        return re.fullmatch(r"\S+==\S+", self.tree) is not None

    def within(self, relative: str) -> str:
        """Return what a file of this folder, one of the project's own, is called in the project."""
        if not self.logical:  # an absolute path's
            return os.path.join(self.path, relative)
        return _HERE.sub("", posixpath.join(self.logical[len(OWN) :], relative))


class IncludeTarget(NamedTuple):
    """Where an include leads: to these files, past these places of the project, which have none."""

    places: tuple[tuple[SearchFolder, str], ...]
    absent: tuple[str, ...]


class FoundFile:
    """A file, as it was found in a folder of the search path: there is one object for each."""

    __slots__ = ("logical", "read", "relative", "root", "step")

    def __init__(self, root: SearchFolder, relative: str) -> None:
        self.root = root
        self.relative = relative
        self.logical = f"{root.logical}/{relative}"
        self.read: tuple[str, Scan] | None = None  # its digest and its scan
        self.step: FileIncludes | None = None

    @property
    def path(self) -> str:
        return os.path.join(self.root.path, self.relative)


class FileIncludes(NamedTuple):
    """Where the includes of one file lead: the same for all that include it."""

    found: tuple[FoundFile, ...]
    absent: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    computed: tuple[Include, ...]


class OutsideFolders:
    """The folders outside the project that a build looks into: as they are *known*, or anew."""

    def __init__(
        self, known: Callable[[SearchFolder, OutsideFolder], object] = lambda _root, _folder: None
    ) -> None:
        self.folders: dict[SearchFolder, OutsideFolder] = {}
        self._known = known

    def __getitem__(self, root: SearchFolder) -> OutsideFolder:
        if (folder := self.folders.get(root)) is None:
            folder = self.folders[root] = OutsideFolder(root.path, root.logical)
            self._known(root, folder)
        return folder


class IncludeSearch:
    """Looks for includes along one search path, beside the file that asks, and in the project."""

    def __init__(
        self,
        tree: ProjectTree,
        search: Iterable[SearchFolder],
        scans: ScanCache | None = None,
        outside: OutsideFolders | None = None,
    ) -> None:
        self.tree = tree
        self.project = SearchFolder(tree.root, PROJECT)
        self.search = tuple(search)
        self.scans = scans or ScanCache()
        self.outside = outside or OutsideFolders()
        self._found: dict[tuple[str, bool, SearchFolder | None, str | None], IncludeTarget] = {}
        self._spots: dict[tuple[SearchFolder, str], FoundFile] = {}

    def own(self, path: str) -> tuple[SearchFolder, str]:
        """Return the folder that a path of the project begins in, and the rest of the path."""
        home = self.tree.source_root_of(path)
        if home is None:
            return self.project, path
        return SearchFolder(home.folder, OWN + home.name), path[len(home.name) + 1 :]

    def spot(self, root: SearchFolder, relative: str) -> FoundFile:
        """Return what stands for a file."""
        if (spot := self._spots.get((root, relative))) is None:
            spot = self._spots[root, relative] = FoundFile(root, relative)
        return spot

    def step(self, spot: FoundFile, scanned: Scan) -> FileIncludes:
        """Return where the includes of a file lead."""
        if spot.read is None or scanned is not spot.read[1]:
            return self._step(spot, scanned)
        if spot.step is None:
            spot.step = self._step(spot, scanned)
        return spot.step

    def _step(self, spot: FoundFile, scanned: Scan) -> FileIncludes:
        found: list[FoundFile] = []
        absent: list[tuple[str, ...]] = []
        missing: list[str] = []
        computed: list[Include] = []
        for include in scanned.includes:
            if include.form not in {"quote", "angle"}:
                computed.append(include)
                continue
            places, tried = self.find(include, spot.root, spot.relative)
            others = [other for place in places if (other := self.spot(*place)) is not spot]
            found += others
            absent += [tried] * bool(tried)
            # One of the project's that has the next one's name may ask for the next one itself.
            last = include.searches_on and not any(place.tree for place, _relative in places)
            missing += [include.name] * (last or not others)
        return FileIncludes(tuple(found), tuple(absent), tuple(missing), tuple(computed))

    def find(self, include: Include, root: SearchFolder, includer: str) -> IncludeTarget:
        """Return where an include is found: the first place, or all where any later one may be meant."""
        beside = os.path.dirname(includer) if include.form == "quote" else None
        if beside and ".." in beside:
            beside = "" if (tidy := _tidy(root.path, beside)) == "." else tidy
        asked = (include.name, include.searches_on, root if beside is not None else None, beside)
        if asked not in self._found:
            self._found[asked] = self._find(include, root, beside)
        return self._found[asked]

    def _find(self, include: Include, root: SearchFolder, beside: str | None) -> IncludeTarget:
        """Look for an include in NVRTC's order: *beside* the includer if quoted, then along the path."""
        places: list[tuple[SearchFolder, str]] = []
        absent: list[str] = []
        for place, written in itertools.starmap(self._placed, self._candidates(include.name, root, beside)):
            if leads_to_a_process(os.path.join(place.path, written)):
                what = f"cannot include {include.name!r}: the compiler's process finds another file there"
                raise SourceError(
                    problem("include-differs-by-process", what, hint="include the file by its own path")
                )
            if self._is_file(place, written):
                # A name that goes into a folder and back leads somewhere only while that folder is there.
                as_it_is = not place.tree and _comes_back(include.name)
                named = written.replace(os.sep, "/") if as_it_is else _tidy(place.path, written)
                places.append((place, named))
                if not include.searches_on:
                    break
            elif not place.tree:
                absent.append(place.within(written))
        return IncludeTarget(tuple(places), tuple(absent))

    def _is_file(self, root: SearchFolder, relative: str) -> bool:
        if root.tree:
            return self.outside[root].is_file(relative, self.tree)
        return disk.is_file(os.path.join(root.path, relative), self.tree)

    def _candidates(
        self, name: str, root: SearchFolder, beside: str | None
    ) -> Iterator[tuple[SearchFolder, str]]:
        if anchor := os.path.isabs(name) and Path(name).anchor:
            yield SearchFolder(Path(anchor), ""), name[len(anchor) :]
            return
        if beside is not None:
            yield root, os.path.join(beside, name)
        for each in self.search:
            yield each, name

    def _placed(self, root: SearchFolder, written: str) -> tuple[SearchFolder, str]:
        """Return where the project has what is looked for in one of its folders, if it has source roots.

        To the compiler they lie in the project, but a `..` leads from where they really are. What it reaches
        has to be what it reaches in an sdist, where they lie beside each other.
        """
        if not self.tree.roots or root.tree or not root.logical:
            return root, written
        tree, name = self.tree, root.within(written)
        here, home = tree.disk_path(name), tree.source_root_of(name)
        path = tree.path_of_sdist_file(posixpath.normpath(tree.path_in_sdist(name)))
        if home is None:
            if path.startswith("../") and disk.is_file(here, tree):
                raise self._crossing(here)
            return root, written
        if ".." in written:
            there = tree.disk_path(path)
            is_here, is_there = disk.is_file(here, tree), disk.is_file(there, tree)
            if (is_here or is_there) and not (is_here and is_there and os.path.samefile(here, there)):
                raise self._crossing(here if is_here else there)
        if tree.source_root_of(path) != home:
            return self.own(path)
        return (root, written) if tree.source_root_of(root.within("")) == home else self.own(name)

    def _crossing(self, path: Path) -> SourceError:
        named = self.tree.name_of(os.path.realpath(path))
        what = "is reached by '..' across the border of a source root, and in an sdist that leads elsewhere"
        hint = "let a folder of 'include-dirs' find it, which may be one of a source root"
        if self.tree.source_root_of(named) is None:
            hint = "name its folder in 'source-roots', and let a folder of 'include-dirs' find it"
        return SourceError(problem("include-crosses-root", what, Location(named), hint))

    def read(self, spot: FoundFile) -> tuple[str, Scan]:
        """Return the digest and the scan of a header."""
        if spot.read is None:
            spot.read = self._read(spot.root, spot.relative)
        return spot.read

    def _read(self, root: SearchFolder, relative: str) -> tuple[str, Scan]:
        path = os.path.join(root.path, relative)
        if not root.tree:
            if self._leads_out(root, relative):
                raise disk.outside_link_error(self.tree, root.within(relative))
            return self.scans.of_file(path, self.tree)
        folder = self.outside[root]
        if (content := folder.content(relative)) and (known := self.scans.of_digest(content)):
            return content, known
        folder.is_file(relative, self.tree)  # before it is read: what is written since is another
        read = self.scans.of_file(path, self.tree)
        if content is None:
            folder.add(relative, read[0])
        return read

    def read_any(self, spot: FoundFile) -> tuple[str, Scan]:
        """Return the same of a file that may be no header; what is too large or unreadable is not scanned."""
        path = spot.path
        if self._leads_out(spot.root, spot.relative):
            raise disk.outside_link_error(self.tree, spot.root.within(spot.relative))
        try:
            if os.stat(path).st_size <= _SCANNED_BYTES:
                return self.read(spot)
        except (OSError, SourceError):
            pass
        return content_digest(path), Scan(())

    def _leads_out(self, root: SearchFolder, relative: str) -> bool:
        """Say whether a file of a source root is a link to a place outside of it."""
        if root.tree or not root.logical or not self.tree.roots:
            return False
        own = root.within(relative)
        return self.tree.source_root_of(own) is not None and not self.tree.is_inside(own)

    def everything(self, *folders: Path) -> Iterator[tuple[SearchFolder, str]]:
        """Yield every file in the project's own search folders and in *folders*; links are followed."""
        for parent, files in self._walked(*folders):
            for path in map(Path(parent).joinpath, files):
                if path.is_file():
                    yield self.own(self.tree.name_of(path))

    def all_of(self, root: SearchFolder) -> Iterator[tuple[SearchFolder, str]]:
        """Yield every file of one folder outside the project."""
        for parent, inner, files in os.walk(root.path):
            inner.sort()
            for name in sorted(files):
                relative = os.path.relpath(os.path.join(parent, name), root.path).replace(os.sep, "/")
                if self._is_file(root, relative):
                    yield root, relative

    def folders(self, *folders: Path) -> str:
        """Return a name for all folders there: `s/../a.h` leads somewhere only while there is an `s`."""
        there = (self.tree.name_of(parent) for parent, _files in self._walked(*folders))
        return f"{FOLDERS}{digest(sorted(there))[:16]}"

    def _walked(self, *folders: Path) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder once, and the names of what is in it, but folders."""

        def failed(exc: OSError) -> None:
            if not isinstance(exc, (FileNotFoundError, PermissionError)):  # nor can the compiler read those
                raise disk.unreadable_error(exc, exc.filename, self.tree) from exc

        starts = [*(root.path for root in self.search if not root.tree), *folders]
        if self.tree.roots:  # to the compiler they lie in the project, and so in what has that in it
            project = Path(os.path.realpath(self.tree.root))
            if any(project.is_relative_to(os.path.realpath(start)) for start in starts):
                starts += [each.folder for each in self.tree.roots]
        seen: set[str] = set()
        for start in starts:
            for parent, inner, files in os.walk(start, onerror=failed, followlinks=True):
                real = os.path.realpath(parent)
                if real in seen:
                    inner.clear()
                    continue
                seen.add(real)
                inner[:] = sorted(set(inner) - _NEVER_SEARCHED)
                yield parent, sorted(files)


def leads_to_a_process(path: str) -> bool:
    """Say whether a path is one that each process finds other files at, such as `/proc/self/fd/3`."""
    if "/proc" not in path and "/dev" not in path:
        return False
    return f"/{os.path.normpath(path).lstrip('/')}".startswith(_OF_PROCESSES)


def content_digest(path: str | Path) -> str:
    """Return the digest that a closure has for a file; the file is read in pieces."""
    try:
        with file_access.open_plain(path) as file:
            return stream_digest(file)
    except OSError:
        return "unreadable"


def _comes_back(name: str) -> bool:
    """Say whether a name goes into a folder and out again: `s/../a.h`, but not `../a.h`."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), 0) :]


def _tidy(root: Path, written: str) -> str:
    """Return a path without its `..`, unless that is another file because of a link."""
    tidy = os.path.normpath(written)
    same = ".." not in written or _are_same(root / written, root / tidy)
    return (tidy if same else written).replace(os.sep, "/")


def _are_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # what is tidied leads past a link, and to nothing
        return False
