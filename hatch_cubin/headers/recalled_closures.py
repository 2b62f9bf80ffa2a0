"""What an earlier build found outside the project for its closures, as long as that is as it was.

The project's own texts are read and followed in every build. What they lack leads outside, and what is
found there is recalled: it follows from what these texts include and define, from the table's macros, from
the search path, and from what there is. So it holds while each path that was looked at outside has the
content it had, or still no file, and while the project has no file where a header outside looked for one
without finding it. A folder whose files all have the size, the times and the inode they had is not read.
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
from .outside_project import AbsentPlaces, ClosureFiles, OutsideFolder, TriedPaths
from .resolve import FOLDERS, OutsideFolders, SearchFolder

_UNREAD = "unread"  # instead of a digest: the file was looked at under another name than it was read by
_TRIED = digest(["tried"])


class WalkStart(NamedTuple):
    """What leads outside: the closure on the project's own folders alone, and what an include can use."""

    own: Closure
    source: Scan
    macros: tuple[tuple[str, str], ...]
    pre_includes: tuple[str, ...]


class _KnownSearchPath(NamedTuple):
    """A search path: its name, its folders outside the project, and whether all known of them still holds."""

    name: str
    folders: list[OutsideFolder]
    holds: bool


class RecalledClosures:
    """Closures as an earlier build found them; *take* gives each line that it wrote, once."""

    def __init__(self, scans: ScanCache, take: Callable[[str], str | None]) -> None:
        self.outside = OutsideFolders(self._recall)
        self._scans = scans
        self._take = take
        self._began = time.time_ns()
        self._lines: dict[str, str] = {}  # of the closures that were asked for
        # Of each folder that is as it was: how many paths are known, and the digest of their states then.
        self._known: dict[SearchFolder, tuple[int, str]] = {}
        self._meanings: dict[str, str] = {}
        self._tried: list[TriedPaths] = []  # paths of the project that headers outside were looked for at
        self._numbers: dict[TriedPaths, int] = {}  # of those
        self._untouched: bool | None = None  # whether there is still nothing at those that are known
        self._ways: dict[Resolver, _KnownSearchPath] = {}
        self._summaries: dict[object, dict[str, str]] = {}  # of what is outside, which many closures share
        self._new = False

    def resolve(self, start: WalkStart, resolver: Resolver, walk: Callable[[], Closure]) -> Closure:
        """Return a closure as it is recalled, or else as *walk* finds it."""
        key, way = self._key(start, resolver), self._way(resolver)
        if key not in self._lines and way.holds and (line := self._take(key)):
            self._lines[key] = line
        if key in self._lines:
            return self._decoded(key, start.own, resolver)
        closure = walk()
        return self._kept(key, closure, start.own, resolver) or closure

    def _key(self, start: WalkStart, resolver: Resolver) -> str:
        own, search = start.own, self._way(resolver).name
        texts = sorted(f"{logical} {self._meaning(content)}" for logical, content in own.files.items())
        source = start.source[:2]
        return digest([compact([search, *start[2:], source, texts, own.at_root, sorted(own.missing)])])

    def _meaning(self, content: str) -> str:
        """Return a digest of what a text includes and defines: other edits of it lead nowhere else."""
        if content not in self._meanings:
            scan = self._scans.used.get(content)  # nobody has scanned what is too large
            self._meanings[content] = content if scan is None else digest([compact(scan[:2])])
        return self._meanings[content]

    def _way(self, resolver: Resolver) -> _KnownSearchPath:
        if resolver not in self._ways:
            roots = [root for root in resolver.search if root.tree]
            folders = [self.outside[root] for root in roots]  # which looks at all that is known of each
            holds = self._nothing_appeared(resolver.tree) and self._known.keys() >= set(roots)
            name = compact([(root.logical, root.tree) for root in resolver.search])
            self._ways[resolver] = _KnownSearchPath(name, folders, holds)
        return self._ways[resolver]

    def _recall(self, root: SearchFolder, folder: OutsideFolder) -> None:
        """Let a folder have what is known of it, if that is as it was."""
        if (line := self._take(_name(root))) is None:
            return
        before, seen = json.loads(line)
        tree = ProjectTree(root.path)
        try:
            states = folder.now(seen, tree)
            holds = _summed(states) == before or _are_equal(folder, seen, states, tree)
        except (OSError, SourceError):  # the walk will tell
            return
        if holds:
            self._known[root] = len(seen), before
            folder.states.update(zip(seen, states, strict=True))
            for relative, content in seen.items():
                if content not in {"", _UNREAD}:
                    folder.add(relative, content)

    def _nothing_appeared(self, tree: ProjectTree) -> bool:
        """Say whether the project still has no file where headers outside were looked for in vain."""
        if self._untouched is None:
            tried = [*map(tuple, json.loads(self._take(_TRIED) or "[]"))]
            try:
                paths = map(tree.disk_path, itertools.chain.from_iterable(tried))
                self._untouched = not any(disk.is_file(path, tree) for path in paths)
            except SourceError:
                self._untouched = False
            if self._untouched:
                self._number(tried)
        return self._untouched

    def _number(self, tried: Iterable[TriedPaths]) -> int:
        """Return the numbers of places that were tried, as bits; new ones get theirs."""
        bits = 0
        for places in tried:
            if places not in self._numbers:
                self._numbers[places] = len(self._tried)
                self._tried.append(places)
            bits |= 1 << self._numbers[places]
        return bits

    def _kept(self, key: str, closure: Closure, own: Closure, resolver: Resolver) -> Closure | None:
        """Remember a closure if all is known that it rests on; return it as it will be recalled."""
        tried = closure.absent - own.absent
        if closure.widened or any(tree.startswith(FOLDERS) for tree in closure.trees):
            return None
        if any(root.is_package and root.tree in closure.trees for root in resolver.search):
            return None  # which files a package has is not remembered
        if any(os.path.isabs(path) for places in tried for path in places):
            return None
        reached: dict[SearchFolder, list[str]] = {}
        for spot in closure.reached:
            reached.setdefault(spot.root, []).append(spot.relative)
        headers = [(self.outside[root], reached.get(root, ())) for root in resolver.search if root.tree]
        files = ClosureFiles(own.files, [(folder, folder.bits(each)) for folder, each in headers])
        if files != closure.files:  # a header outside leads to another one of the project
            return None
        bits = self._number(tried)
        numbers = (tuple(self._way(resolver).folders), tuple(each for _folder, each in files.outside))
        if numbers not in self._summaries:
            self._summaries[numbers] = closure.outside()
        self._new = True
        self._lines[key] = compact(
            [
                _of(own.files),
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
        summed, whole, outside, trees, missing, computed, guessed, at_root, headers, tried = line
        folders = self._way(resolver).folders
        numbers = (int(each, 16) for each in headers)
        same = summed == (now := _of(own.files))
        closure = Closure(
            files=ClosureFiles(own.files, list(zip(folders, numbers, strict=True))),
            trees=set(trees),
            missing=set(missing),
            absent=own.absent if tried == "0" else AbsentPlaces(own.absent, self._tried, int(tried, 16)),
            search=resolver.names,
            builds=resolver.builds,
            computed=computed,
            guessed=guessed,
            at_root=tuple(at_root),
            _digest=whole if same else "",
            _outside=outside,
        )
        if not same:  # one of the project's headers was edited, and leads where it led
            self._lines[key] = compact([now, closure.digest(), *line[2:]])
            self._new = True
        return closure

    @property
    def new(self) -> bool:
        """Whether this build knows more than it recalled."""
        folders = self.outside.folders.items()
        return self._new or any(
            self._known.get(root) != (len(folder.states), self._state_of(root, folder))
            for root, folder in folders
        )

    def contents(self) -> set[str]:
        """Return the digests of all headers that are known outside the project."""
        return {content for folder in self.outside.folders.values() for content in folder.contents().values()}

    def lines(self) -> dict[str, str]:
        """Return what is to be recalled."""
        folders = self.outside.folders.items()
        known = {
            _name(root): compact([self._state_of(root, folder), _seen(folder)]) for root, folder in folders
        }
        # A line that nobody asks for is written anew each time.
        tried = {_TRIED: compact(self._tried)} if self._tried else {}
        return {**self._lines, **known, **tried}

    def _state_of(self, root: SearchFolder, folder: OutsideFolder) -> str:
        """Return one digest of the states of a folder's files.

        If a file is so new that its state tells nothing, it is the digest that was recalled, or empty.
        """
        if disk.are_settled(folder.states.values(), self._began):
            return _summed(folder.states[path] for path in _seen(folder))
        return self._known.get(root, (0, ""))[1]


def compact(value: object) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def _summed(parts: Iterable[str]) -> str:
    return file_digest("\n".join(parts).encode())


def _name(root: SearchFolder) -> str:
    return digest(["folder", root.logical, root.tree])


def _of(files: Mapping[str, str]) -> str:
    """Return a digest of the project's own headers."""
    return _summed(f"{content} {logical}" for logical, content in sorted(files.items()))


def _seen(folder: OutsideFolder) -> dict[str, str]:
    """Return each path of a folder that was looked at, with the digest of its header if it was read."""
    contents = folder.contents()
    others = {path: _UNREAD if state else "" for path, state in folder.states.items() if path not in contents}
    return {**contents, **others}


def _are_equal(
    folder: OutsideFolder, seen: Mapping[str, str], states: Iterable[str], tree: ProjectTree
) -> bool:
    """Say whether the paths of a folder lead to what was *seen*: the same contents, or no file."""
    return all(
        bool(state) == bool(content) and (not content or _is_equal(folder, path, content, tree))
        for (path, content), state in zip(seen.items(), states, strict=True)
    )


def _is_equal(folder: OutsideFolder, path: str, content: str, tree: ProjectTree) -> bool:
    if content == _UNREAD:  # as long as it is the same file, it is compared under its other name
        return folder.are_same(path, os.path.normpath(path))
    return folder.digest_now(path, tree) == content
