"""Find the file that an include means, along the search path, in the compiler's order."""

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
OWN = f"{PROJECT}/"  # the beginning of the logical names of the project's own files
FOLDERS = "folders "  # the beginning of the name that *folders* returns
_NEVER_SEARCHED = frozenset({".git", ".hatch", "_cubins", "__pycache__"})
_HERE = re.compile(r"^(?:\./+)+")
_OF_PROCESSES = ("/proc/", "/dev/fd/", "/dev/std")
_SCANNED_BYTES = 8 << 20  # if all files of a folder are added, a larger file is data


class SearchFolder(NamedTuple):
    """A folder of the search path: its path, its name in keys, and the tree that it belongs to."""

    path: Path
    logical: str
    tree: str = ""  # a toolkit's or wheel's name and build; empty for the project's own

    @property
    def is_package(self) -> bool:
        """Whether the folder is in a header package. The trees of toolkits have other names."""
        return re.fullmatch(r"\S+==\S+", self.tree) is not None

    def within(self, relative: str) -> str:
        """Return the path in the project of a file in this folder, which belongs to the project."""
        if not self.logical:  # the root folder, for an absolute path
            return os.path.join(self.path, relative)
        return _HERE.sub("", posixpath.join(self.logical[len(OWN) :], relative))


class IncludeTarget(NamedTuple):
    """The files that an include can mean, and the paths of the project where it was not found."""

    places: tuple[tuple[SearchFolder, str], ...]
    absent: tuple[str, ...]


class HeaderFile:
    """A file that was found in a folder of the search path. There is one object for each file."""

    __slots__ = ("logical", "read", "relative", "resolved", "root")

    def __init__(self, root: SearchFolder, relative: str) -> None:
        self.root = root
        self.relative = relative
        self.logical = f"{root.logical}/{relative}"
        self.read: tuple[str, Scan] | None = None  # its digest and its scan
        self.resolved: FileIncludes | None = None

    @property
    def path(self) -> str:
        return os.path.join(self.root.path, self.relative)


class FileIncludes(NamedTuple):
    """The results of the searches for all includes of one file."""

    found: tuple[HeaderFile, ...]
    absent: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    computed: tuple[Include, ...]


class OutsideFolders:
    """The folders outside the project that a build searches. *known* adds recorded facts to a new one."""

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
    """Searches for includes: beside the including file, along one search path, and in the project."""

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
        self._files: dict[tuple[SearchFolder, str], HeaderFile] = {}

    def own(self, path: str) -> tuple[SearchFolder, str]:
        """Return the folder of a project file, which is the project or a source root, and its path there."""
        home = self.tree.source_root_of(path)
        if home is None:
            return self.project, path
        return SearchFolder(home.folder, OWN + home.name), path[len(home.name) + 1 :]

    def file(self, root: SearchFolder, relative: str) -> HeaderFile:
        """Return the object for a file."""
        if (file := self._files.get((root, relative))) is None:
            file = self._files[root, relative] = HeaderFile(root, relative)
        return file

    def resolve_file(self, file: HeaderFile, scanned: Scan) -> FileIncludes:
        """Return the results of the searches for a file's includes."""
        if file.read is None or scanned is not file.read[1]:
            return self._resolve_includes(file, scanned)
        if file.resolved is None:
            file.resolved = self._resolve_includes(file, scanned)
        return file.resolved

    def _resolve_includes(self, file: HeaderFile, scanned: Scan) -> FileIncludes:
        found: list[HeaderFile] = []
        absent: list[tuple[str, ...]] = []
        missing: list[str] = []
        computed: list[Include] = []
        for include in scanned.includes:
            if include.form not in {"quote", "angle"}:
                computed.append(include)
                continue
            places, tried = self.find(include, file.root, file.relative)
            others = [other for place in places if (other := self.file(*place)) is not file]
            found += others
            absent += [tried] * bool(tried)
            # After the project's headers, #include_next may mean a header outside. So its name is missing.
            last = include.searches_on and not any(place.tree for place, _relative in places)
            missing += [include.name] * (last or not others)
        return FileIncludes(tuple(found), tuple(absent), tuple(missing), tuple(computed))

    def find(self, include: Include, root: SearchFolder, includer: str) -> IncludeTarget:
        """Return the file that an include means; for `#include_next`, all files that it may mean."""
        includer_folder = os.path.dirname(includer) if include.form == "quote" else None
        if includer_folder and ".." in includer_folder:
            includer_folder = "" if (tidy := _normalized(root.path, includer_folder)) == "." else tidy
        start = None if includer_folder is None else root
        key = (include.name, include.searches_on, start, includer_folder)
        if key not in self._found:
            self._found[key] = self._find(include, root, includer_folder)
        return self._found[key]

    def _find(self, include: Include, root: SearchFolder, includer_folder: str | None) -> IncludeTarget:
        """Search for an include in NVRTC's order: in *includer_folder* if quoted, then along the path."""
        places: list[tuple[SearchFolder, str]] = []
        absent: list[str] = []
        candidates = self._candidates(include.name, root, includer_folder)
        for place, written in itertools.starmap(self._in_source_root, candidates):
            if differs_by_process(os.path.join(place.path, written)):
                what = f"cannot include {include.name!r}: the compiler's process finds another file there"
                raise SourceError(
                    problem("include-differs-by-process", what, hint="include the file by its real path")
                )
            if self._is_file(place, written):
                # The name `s/../a.h` leads to a file only if the folder `s` exists. So it is not shortened.
                unchanged = not place.tree and _reenters_folder(include.name)
                named = written.replace(os.sep, "/") if unchanged else _normalized(place.path, written)
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
        self, name: str, root: SearchFolder, includer_folder: str | None
    ) -> Iterator[tuple[SearchFolder, str]]:
        if anchor := os.path.isabs(name) and Path(name).anchor:
            yield SearchFolder(Path(anchor), ""), name[len(anchor) :]
            return
        if includer_folder is not None:
            yield root, os.path.join(includer_folder, name)
        for each in self.search:
            yield each, name

    def _in_source_root(self, root: SearchFolder, written: str) -> tuple[SearchFolder, str]:
        """Return the folder and the path of an include in a project with source roots.

        To the compiler, source roots are folders of the project, but `..` starts at their real folders. Such
        a path must lead to the same file in an sdist, in which the source roots are beside each other.
        """
        if not self.tree.roots or root.tree or not root.logical:
            return root, written
        tree, name = self.tree, root.within(written)
        here, home = tree.disk_path(name), tree.source_root_of(name)
        path = tree.path_of_sdist_file(posixpath.normpath(tree.path_in_sdist(name)))
        if home is None:
            if path.startswith("../") and disk.is_file(here, tree):
                raise self._crossing_error(here)
            return root, written
        if ".." in written:
            there = tree.disk_path(path)
            is_here, is_there = disk.is_file(here, tree), disk.is_file(there, tree)
            if (is_here or is_there) and not (is_here and is_there and os.path.samefile(here, there)):
                raise self._crossing_error(here if is_here else there)
        if tree.source_root_of(path) != home:
            return self.own(path)
        return (root, written) if tree.source_root_of(root.within("")) == home else self.own(name)

    def _crossing_error(self, path: Path) -> SourceError:
        named = self.tree.name_of(os.path.realpath(path))
        what = "is reached by '..' across the border of a source root, and in an sdist that leads elsewhere"
        hint = "add its folder to 'include-dirs' (it may be in a source root), and include it without '..'"
        if self.tree.source_root_of(named) is None:
            hint = "add its folder to 'source-roots' and to 'include-dirs', and include it without '..'"
        return SourceError(problem("include-crosses-root", what, Location(named), hint))

    def read(self, file: HeaderFile) -> tuple[str, Scan]:
        """Return the digest and the scan of a header."""
        if file.read is None:
            file.read = self._read(file.root, file.relative)
        return file.read

    def _read(self, root: SearchFolder, relative: str) -> tuple[str, Scan]:
        path = os.path.join(root.path, relative)
        if not root.tree:
            if self._leads_out(root, relative):
                raise disk.outside_link_error(self.tree, root.within(relative))
            return self.scans.of_file(path, self.tree)
        folder = self.outside[root]
        if (content := folder.content(relative)) and (known := self.scans.of_digest(content)):
            return content, known
        folder.is_file(
            relative, self.tree
        )  # records the state before the read, so that later writes change it
        read = self.scans.of_file(path, self.tree)
        if content is None:
            folder.add(relative, read[0])
        return read

    def read_any(self, file: HeaderFile) -> tuple[str, Scan]:
        """Return the digest and the scan of any file. The scan is empty if it is too large or unreadable."""
        path = file.path
        if self._leads_out(file.root, file.relative):
            raise disk.outside_link_error(self.tree, file.root.within(file.relative))
        try:
            if os.stat(path).st_size <= _SCANNED_BYTES:
                return self.read(file)
        except (OSError, SourceError):
            pass
        return content_digest(path), Scan(())

    def _leads_out(self, root: SearchFolder, relative: str) -> bool:
        """Return whether a file of a source root is a link to a place outside of it."""
        if root.tree or not root.logical or not self.tree.roots:
            return False
        own = root.within(relative)
        return self.tree.source_root_of(own) is not None and not self.tree.is_inside(own)

    def project_files(self, *folders: Path) -> Iterator[tuple[SearchFolder, str]]:
        """Yield every file in the project's own search folders and in *folders*; links are followed."""
        for parent, files in self._walk_folders(*folders):
            for path in map(Path(parent).joinpath, files):
                if path.is_file():
                    yield self.own(self.tree.name_of(path))

    def outside_files(self, root: SearchFolder) -> Iterator[tuple[SearchFolder, str]]:
        """Yield every file of one folder outside the project."""
        for parent, inner, files in os.walk(root.path):
            inner.sort()
            for name in sorted(files):
                relative = os.path.relpath(os.path.join(parent, name), root.path).replace(os.sep, "/")
                if self._is_file(root, relative):
                    yield root, relative

    def folders(self, *folders: Path) -> str:
        """Return a digest of the names of all folders: `s/../a.h` leads to a file only if `s` exists."""
        there = (self.tree.name_of(parent) for parent, _files in self._walk_folders(*folders))
        return f"{FOLDERS}{digest(sorted(there))[:16]}"

    def _walk_folders(self, *folders: Path) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder once, with the names of the files in it."""

        def failed(exc: OSError) -> None:
            if not isinstance(exc, (FileNotFoundError, PermissionError)):  # nor can the compiler
                raise disk.unreadable_error(exc, exc.filename, self.tree) from exc

        starts = [*(root.path for root in self.search if not root.tree), *folders]
        if self.tree.roots:  # to the compiler, they are in the project and in the folders around it
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


def differs_by_process(path: str) -> bool:
    """Return whether a path leads to another file in each process, such as `/proc/self/fd/3`."""
    if "/proc" not in path and "/dev" not in path:
        return False
    return f"/{os.path.normpath(path).lstrip('/')}".startswith(_OF_PROCESSES)


def content_digest(path: str | Path) -> str:
    """Return the digest of a file, as closures have it. The file is read in pieces."""
    try:
        with file_access.open_plain(path) as file:
            return stream_digest(file)
    except OSError:
        return "unreadable"


def _reenters_folder(name: str) -> bool:
    """Return whether a name enters a folder and leaves it again: `s/../a.h`, but not `../a.h`."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), 0) :]


def _normalized(root: Path, written: str) -> str:
    """Return a path without its `..`, unless a link makes that another file."""
    tidy = os.path.normpath(written)
    same = ".." not in written or _are_same(root / written, root / tidy)
    return (tidy if same else written).replace(os.sep, "/")


def _are_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # because of a link, the shortened path does not exist
        return False
