"""Reuse the list of headers outside the project that an earlier build has found, if nothing has changed.

Every build reads the project's own files and follows their includes. If a file includes a header that is not
in the project, a build searches folders outside the project (toolkit and wheels) and records the result of
the search. The result of the search depends on the includes and macros in the project's files, on the macros
in the project's configuration, on the search path, and on the files outside the project. A recorded result of
the search for headers is valid only if the paths outside the project that the search has tried are unchanged:
files have the same content as before, and missing files are still missing. If a header outside the project
has tried to include a file that the project did not contain, the recorded result is valid only if the project
still does not contain this file. If the files of a folder still have their recorded sizes, times and inodes,
the files are not read again.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..common.digest import digest, file_digest
from ..errors import SourceError
from ..project import disk
from ..project.scan import Scan, ScanCache
from ..project.source_roots import ProjectTree
from .includes import Closure, Resolver
from .outside_project import AbsentPaths, ClosureFiles, OutsideFolder, TriedPaths
from .resolve import FOLDERS, OutsideFolders, SearchFolder

_UNREAD = "unread"  # "unread" instead of a digest means that the build read this file under another path
_TRIED = digest(["tried"])


class WalkStart(NamedTuple):
    """The input of a search for headers outside the project: the headers in the project, and the macros."""

    own: Closure
    source: Scan
    macros: tuple[tuple[str, str], ...]
    pre_includes: tuple[str, ...]


class _KnownSearchPath(NamedTuple):
    """A search path for headers: its name, and its folders outside the project.

    *is_valid* is true if the results of searches that earlier builds recorded are still valid.
    """

    name: str
    folders: list[OutsideFolder]
    is_valid: bool


class RecalledClosures:
    """The header closures that an earlier build recorded.

    The function *take* returns a line that an earlier build recorded, and removes the line from the record.
    """

    def __init__(self, scans: ScanCache, take: Callable[[str], str | None]) -> None:
        self.outside = OutsideFolders(self._recall)
        self._scans = scans
        self._take_line = take
        self._began = time.time_ns()
        self._lines: dict[str, str] = {}  # the recorded lines of the header closures that this build used.
        # For each unchanged folder outside the project: the number of recorded paths, and the recorded digest
        # of the files' states.
        self._known: dict[SearchFolder, tuple[int, str]] = {}
        self._scan_digests: dict[str, str] = {}
        # the paths in the project where headers outside the project searched for a file, but found no file
        self._tried: list[TriedPaths] = []
        self._numbers: dict[TriedPaths, int] = {}  # The position of each item in the list *_tried*.
        # Whether the recorded absent paths in the project still do not exist.
        self._still_absent: bool | None = None
        self._known_search_paths: dict[Resolver, _KnownSearchPath] = {}
        # digests of the headers outside the project, which many header closures share
        self._summaries: dict[object, dict[str, str]] = {}
        self._new = False

    def resolve(self, start: WalkStart, resolver: Resolver, walk: Callable[[], Closure]) -> Closure:
        """Return the recorded header closure if it is valid; otherwise, find the closure with *walk*."""
        key, known = self._key(start, resolver), self._known_search_path(resolver)
        if key not in self._lines and known.is_valid and (line := self._take_line(key)):
            self._lines[key] = line
        if key in self._lines:
            return self._decoded(key, start.own, resolver)
        closure = walk()
        return self._record(key, closure, start.own, resolver) or closure

    def _key(self, start: WalkStart, resolver: Resolver) -> str:
        own, search = start.own, self._known_search_path(resolver).name
        texts = sorted(f"{logical} {self._scan_digest(content)}" for logical, content in own.files.items())
        source = start.source[:2]
        return digest([compact([search, *start[2:], source, texts, own.at_root, sorted(own.missing)])])

    def _scan_digest(self, content: str) -> str:
        """Return a digest of the includes and macros in a file.

        If an edit of a file does not change this digest, the edit cannot change which headers are found.
        """
        if content not in self._scan_digests:
            scan = self._scans.used.get(content)  # None if the file is too large for a search for includes
            self._scan_digests[content] = content if scan is None else digest([compact(scan[:2])])
        return self._scan_digests[content]

    def _known_search_path(self, resolver: Resolver) -> _KnownSearchPath:
        if resolver not in self._known_search_paths:
            roots = [root for root in resolver.search if root.tree]
            # looking up a folder checks the recorded facts about this folder
            folders = [self.outside[root] for root in roots]
            is_valid = self._nothing_appeared(resolver.tree) and self._known.keys() >= set(roots)
            name = compact([(root.logical, root.tree) for root in resolver.search])
            self._known_search_paths[resolver] = _KnownSearchPath(name, folders, is_valid)
        return self._known_search_paths[resolver]

    def _recall(self, root: SearchFolder, folder: OutsideFolder) -> None:
        """Add the facts about a folder from an earlier build to *folder*, if these facts are still valid."""
        if (line := self._take_line(_folder_key(root))) is None:
            return
        before, seen = json.loads(line)
        tree = ProjectTree(root.path)
        try:
            states = folder.current_states(seen, tree)
            is_valid = _lines_digest(states) == before or _are_equal(folder, seen, states, tree)
        except (OSError, SourceError):  # the search for headers will report the same error
            return
        if is_valid:
            self._known[root] = len(seen), before
            folder.states.update(zip(seen, states, strict=True))
            for relative, content in seen.items():
                if content not in {"", _UNREAD}:
                    folder.add(relative, content)

    def _nothing_appeared(self, tree: ProjectTree) -> bool:
        """Return whether the project still has none of the files that outside headers tried to include."""
        if self._still_absent is None:
            tried = [*map(tuple, json.loads(self._take_line(_TRIED) or "[]"))]
            try:
                paths = map(tree.disk_path, itertools.chain.from_iterable(tried))
                self._still_absent = not any(disk.is_file(path, tree) for path in paths)
            except SourceError:
                self._still_absent = False
            if self._still_absent:
                self._number(tried)
        return self._still_absent

    def _number(self, tried: Iterable[TriedPaths]) -> int:
        """Return an integer that stands for the set of paths *tried*: the bit of each path's number is set.

        A path that does not have a number yet gets the next free number.
        """
        bits = 0
        for places in tried:
            if places not in self._numbers:
                self._numbers[places] = len(self._tried)
                self._tried.append(places)
            bits |= 1 << self._numbers[places]
        return bits

    def _record(self, key: str, closure: Closure, own: Closure, resolver: Resolver) -> Closure | None:
        """Record a header closure for later builds, and return the closure in its recorded form.

        The result is None if the header closure depends on a file or path that is not recorded.
        """
        tried = closure.absent - own.absent
        if closure.widened or any(tree.startswith(FOLDERS) for tree in closure.trees):
            return None
        if any(root.is_package and root.tree in closure.trees for root in resolver.search):
            return None  # the recorded facts do not include the list of all files of a header package
        if any(os.path.isabs(path) for places in tried for path in places):
            return None
        reached: dict[SearchFolder, list[str]] = {}
        for file in closure.reached:
            reached.setdefault(file.root, []).append(file.relative)
        headers = [(self.outside[root], reached.get(root, ())) for root in resolver.search if root.tree]
        files = ClosureFiles(own.files, [(folder, folder.bits(each)) for folder, each in headers])
        if files != closure.files:  # a header outside the project includes a header of the project
            return None
        bits = self._number(tried)
        folders = self._known_search_path(resolver).folders
        numbers = (tuple(folders), tuple(each for _folder, each in files.outside))
        if numbers not in self._summaries:
            self._summaries[numbers] = closure.outside()
        self._new = True
        self._lines[key] = compact(
            [
                _files_digest(own.files),
                closure.digest(),
                self._summaries[numbers],
                sorted(closure.trees),
                sorted(closure.missing),
                closure.computed,
                closure.guessed,
                closure.at_root,
                [f"{numbers:x}" for _folder, numbers in files.outside],
                f"{bits:x}",
            ]
        )
        return self._decoded(key, own, resolver)

    def _decoded(self, key: str, own: Closure, resolver: Resolver) -> Closure:
        line = json.loads(self._lines[key])
        files_digest, whole, outside, trees, missing, computed, guessed, at_root, headers, tried = line
        folders = self._known_search_path(resolver).folders
        numbers = (int(each, 16) for each in headers)
        same = files_digest == (now := _files_digest(own.files))
        closure = Closure(
            files=ClosureFiles(own.files, list(zip(folders, numbers, strict=True))),
            trees=set(trees),
            missing=set(missing),
            absent=own.absent if tried == "0" else AbsentPaths(own.absent, self._tried, int(tried, 16)),
            search=resolver.names,
            builds=resolver.builds,
            computed=computed,
            guessed=guessed,
            at_root=tuple(at_root),
            _digest=whole if same else "",
            _outside=outside,
        )
        if not same:  # a header of the project was edited, but the header's includes and macros are the same
            self._lines[key] = compact([now, closure.digest(), *line[2:]])
            self._new = True
        return closure

    @property
    def has_new_facts(self) -> bool:
        """Whether this build has found facts about headers that are not recorded yet."""
        folders = self.outside.folders.items()
        return self._new or any(
            self._known.get(root) != (len(folder.states), self._state_of(root, folder))
            for root, folder in folders
        )

    def contents(self) -> set[str]:
        """Return the digest of each header outside the project that this or an earlier build has read."""
        return {content for folder in self.outside.folders.values() for content in folder.contents().values()}

    def lines(self) -> dict[str, str]:
        """Return the lines of text that later builds read, as a mapping from each line's key to the line."""
        folders = self.outside.folders.items()
        known = {
            _folder_key(root): compact([self._state_of(root, folder), _contents_by_path(folder)])
            for root, folder in folders
        }
        # An empty line is not recorded, because a build that does not use every recorded line writes the file
        # again.
        tried = {_TRIED: compact(self._tried)} if self._tried else {}
        return {**self._lines, **known, **tried}

    def _state_of(self, root: SearchFolder, folder: OutsideFolder) -> str:
        """Return one digest of the states (size, times and so on) of all files of a folder.

        Two edits of a file in quick succession can give the file the same times, so a new digest is
        unreliable if a file of the folder was written shortly before the build began. The function then
        returns the digest that an earlier build recorded, or an empty text.
        """
        if disk.are_settled(folder.states.values(), self._began):
            return _lines_digest(folder.states[path] for path in _contents_by_path(folder))
        return self._known.get(root, (0, ""))[1]


def compact(value: object) -> str:
    """Return *value* as JSON text without blanks."""
    return json.dumps(value, separators=(",", ":"))


def _lines_digest(parts: Iterable[str]) -> str:
    return file_digest("\n".join(parts).encode())


def _folder_key(root: SearchFolder) -> str:
    return digest(["folder", root.logical, root.tree])


def _files_digest(files: Mapping[str, str]) -> str:
    """Return a digest of the names and contents of the project's own headers."""
    return _lines_digest(f"{content} {logical}" for logical, content in sorted(files.items()))


def _contents_by_path(folder: OutsideFolder) -> dict[str, str]:
    """Return a mapping from path to digest for all paths that the build looked up in *folder*.

    The digest is replaced by a marker if the file was not read, and is empty if the file is missing.
    """
    contents = folder.contents()
    others = {path: _UNREAD if state else "" for path, state in folder.states.items() if path not in contents}
    return {**contents, **others}


def _are_equal(
    folder: OutsideFolder, seen: Mapping[str, str], states: Iterable[str], tree: ProjectTree
) -> bool:
    """Return whether each file in *seen* has its recorded content, or is missing if recorded as missing."""
    return all(
        bool(state) == bool(content) and (not content or _is_equal(folder, path, content, tree))
        for (path, content), state in zip(seen.items(), states, strict=True)
    )


def _is_equal(folder: OutsideFolder, path: str, content: str, tree: ProjectTree) -> bool:
    if content == _UNREAD:  # the content of this file is compared under another path of the same file
        return folder.are_same(path, os.path.normpath(path))
    return folder.digest_now(path, tree) == content
