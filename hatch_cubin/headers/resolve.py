"""Find the file that an include directive means, by searching folders in the same order as the compiler."""

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

PROJECT = "project"  # the logical name that the project's folder has in cache keys and messages
OWN = f"{PROJECT}/"  # the beginning of the logical names of the project's own files
FOLDERS = "folders "  # the first word of the text that the method *folders* returns
_NEVER_SEARCHED = frozenset({".git", ".hatch", "_cubins", "__pycache__"})
_HERE = re.compile(r"^(?:\./+)+")
_OF_PROCESSES = ("/proc/", "/dev/fd/", "/dev/std")
# In bytes: if an include could mean any file of a folder, larger files count as data without includes.
_SCANNED_BYTES = 8 << 20


class SearchFolder(NamedTuple):
    """A folder of the search path: its path, its logical name in cache keys, and its header tree."""

    path: Path
    logical: str
    tree: str = ""  # the name and version of a toolkit or wheel; empty for the project's own folders

    @property
    def is_package(self) -> bool:
        """Whether the folder belongs to a wheel with headers, so that its tree is named `name==version`."""
        return re.fullmatch(r"\S+==\S+", self.tree) is not None

    def within(self, relative: str) -> str:
        """Convert a path that is relative to this folder to a path that is relative to the project."""
        # The folder is the root of the file system, for an include with an absolute path.
        if not self.logical:
            return os.path.join(self.path, relative)
        return _HERE.sub("", posixpath.join(self.logical[len(OWN) :], relative))


class IncludeTarget(NamedTuple):
    """The files that an include directive can mean, and the paths in the project where no file was found."""

    places: tuple[tuple[SearchFolder, str], ...]
    absent: tuple[str, ...]


class HeaderFile:
    """A header or source that was found in a folder of the search path; there is one object per file."""

    __slots__ = ("logical", "read", "relative", "resolved", "root")

    def __init__(self, root: SearchFolder, relative: str) -> None:
        self.root = root
        self.relative = relative
        self.logical = f"{root.logical}/{relative}"
        # The digest of the file's content, and the file's includes and macros.
        self.read: tuple[str, Scan] | None = None
        self.resolved: FileIncludes | None = None

    @property
    def path(self) -> str:
        return os.path.join(self.root.path, self.relative)


class FileIncludes(NamedTuple):
    """The results of searching for the headers of all include directives in one file."""

    found: tuple[HeaderFile, ...]
    absent: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    computed: tuple[Include, ...]


class OutsideFolders:
    """The folders of the search path outside the project.

    The function *known* adds the recorded facts of an earlier build to each new folder object.
    """

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
    """Searches for included files: in the folder of the including file, and along one search path."""

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
        """Return the search folder that contains a project file, and the file's path in this folder."""
        home = self.tree.source_root_of(path)
        if home is None:
            return self.project, path
        return SearchFolder(home.folder, OWN + home.name), path[len(home.name) + 1 :]

    def file(self, root: SearchFolder, relative: str) -> HeaderFile:
        """Return the `HeaderFile` object for a file; there is only one object for each file."""
        if (file := self._files.get((root, relative))) is None:
            file = self._files[root, relative] = HeaderFile(root, relative)
        return file

    def resolve_file(self, file: HeaderFile, scanned: Scan) -> FileIncludes:
        """Return the results of searching for all headers that a file includes."""
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
            # A #include_next may also mean a header outside the project, so the header's name counts as
            # missing.
            last = include.searches_on and not any(place.tree for place, _relative in places)
            missing += [include.name] * (last or not others)
        return FileIncludes(tuple(found), tuple(absent), tuple(missing), tuple(computed))

    def find(self, include: Include, root: SearchFolder, includer: str) -> IncludeTarget:
        """Return the file that an include means; for `#include_next`, return all files that it may mean."""
        includer_folder = os.path.dirname(includer) if include.form == "quote" else None
        if includer_folder and ".." in includer_folder:
            includer_folder = "" if (tidy := _normalized(root.path, includer_folder)) == "." else tidy
        start = None if includer_folder is None else root
        key = (include.name, include.searches_on, start, includer_folder)
        if key not in self._found:
            self._found[key] = self._find(include, root, includer_folder)
        return self._found[key]

    def _find(self, include: Include, root: SearchFolder, includer_folder: str | None) -> IncludeTarget:
        """Search for an include in the same order as NVRTC.

        An include in quotes is first searched in *includer_folder*. Every include is then searched on the
        search path.
        """
        places: list[tuple[SearchFolder, str]] = []
        absent: list[str] = []
        candidates = self._candidates(include.name, root, includer_folder)
        for place, written in itertools.starmap(self._in_source_root, candidates):
            if differs_by_process(os.path.join(place.path, written)):
                what = (
                    f"cannot include {include.name!r}: "
                    "a path such as /proc/self/… leads to a different file in each process"
                )
                raise SourceError(
                    problem("include-differs-by-process", what, hint="include the file by its real path")
                )
            if self._is_file(place, written):
                # A path such as `s/../a.h` is not shortened, because it leads to a file only if the folder
                # `s` exists.
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
        """Return the folder and the path at which to search for an include in a project with source roots.

        The compiler sees source roots as folders inside the project, but resolves a path with `..` in the
        real folder of the source root. Raise SourceError for a path with `..` that leads to a different file
        in an sdist, because in an sdist all source roots are in one folder.
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
        what = (
            "is included by a path that leaves a source root with '..'; "
            "in an sdist, this path leads to a different file"
        )
        hint = (
            "add the header's folder to 'include-dirs' (which may list folders in source roots), "
            "and include the header without '..'"
        )
        if self.tree.source_root_of(named) is None:
            hint = (
                "add the header's folder to 'source-roots' and to 'include-dirs', "
                "and include the header without '..'"
            )
        return SourceError(problem("include-crosses-root", what, Location(named), hint))

    def read(self, file: HeaderFile) -> tuple[str, Scan]:
        """Return the digest of a header, and its includes and macros."""
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
        )  # The file's state is recorded before the file is read, so that later writes change the state.
        read = self.scans.of_file(path, self.tree)
        if content is None:
            folder.add(relative, read[0])
        return read

    def read_any(self, file: HeaderFile) -> tuple[str, Scan]:
        """Return the digest of any file, and its includes and macros.

        If the file is too large or unreadable, it counts as a file without includes.
        """
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
        """Return whether a file in a source root is a link to a file outside of the source root."""
        if root.tree or not root.logical or not self.tree.roots:
            return False
        own = root.within(relative)
        return self.tree.source_root_of(own) is not None and not self.tree.is_inside(own)

    def project_files(self, *folders: Path) -> Iterator[tuple[SearchFolder, str]]:
        """Yield every file in the project's own search folders and in *folders*, following links."""
        for parent, files in self._walk_folders(*folders):
            for path in map(Path(parent).joinpath, files):
                if path.is_file():
                    yield self.own(self.tree.name_of(path))

    def outside_files(self, root: SearchFolder) -> Iterator[tuple[SearchFolder, str]]:
        """For each file in the folder *root*, yield *root* and the path of the file in *root*."""
        for parent, inner, files in os.walk(root.path):
            inner.sort()
            for name in sorted(files):
                relative = os.path.relpath(os.path.join(parent, name), root.path).replace(os.sep, "/")
                if self._is_file(root, relative):
                    yield root, relative

    def folders(self, *folders: Path) -> str:
        """Return a digest of the names of all subfolders.

        The names matter because an include such as `s/../a.h` finds a file only if the folder `s` exists.
        """
        there = (self.tree.name_of(parent) for parent, _files in self._walk_folders(*folders))
        return f"{FOLDERS}{digest(sorted(there))[:16]}"

    def _walk_folders(self, *folders: Path) -> Iterator[tuple[str, list[str]]]:
        """Yield a folder and each of its subfolders once, with the names of the files in each folder."""

        def failed(exc: OSError) -> None:
            # folders that do not exist or are not readable are skipped, because the compiler cannot read them
            # either
            if not isinstance(exc, (FileNotFoundError, PermissionError)):
                raise disk.unreadable_error(exc, exc.filename, self.tree) from exc

        starts = [*(root.path for root in self.search if not root.tree), *folders]
        # the compiler sees source roots as folders inside the project, and so also inside the project's
        # parent folders
        if self.tree.roots:
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
    """Return whether a path leads to a different file in each process, such as `/proc/self/fd/3`."""
    if "/proc" not in path and "/dev" not in path:
        return False
    return f"/{os.path.normpath(path).lstrip('/')}".startswith(_OF_PROCESSES)


def content_digest(path: str | Path) -> str:
    """Return the digest of a file for a header closure; "unreadable" if the file cannot be read."""
    try:
        with file_access.open_plain(path) as file:
            return stream_digest(file)
    except OSError:
        return "unreadable"


def _reenters_folder(name: str) -> bool:
    """Return whether a path enters a folder and leaves it again, such as `s/../a.h` but not `../a.h`."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), 0) :]


def _normalized(root: Path, written: str) -> str:
    """Return the path *written* without `..` parts, or unchanged if the shorter path means another file."""
    tidy = os.path.normpath(written)
    same = ".." not in written or _are_same(root / written, root / tidy)
    return (tidy if same else written).replace(os.sep, "/")


def _are_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # the shortened path does not exist, because a folder in the original path is a link
        return False
