"""Find the headers that a source can read, and their digest, before anything is compiled.

A header too many costs a compile at most; a header too few means a stale kernel. So every branch of every
conditional is followed. An include that the text does not tell (`#include MACRO`) stands for all it could be.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .._digest import digest, stream_digest
from ..errors import SourceError
from . import disk
from .scan import (
    ANYTHING,
    CALL,
    FAR,
    UNKNOWABLE,
    WORD,
    Include,
    Scan,
    Scans,
    ask_for_anything,
    called,
    meanings,
    parse_operand,
)

_NEVER_SEARCHED = frozenset({".git", ".hatch", "_cubins", "__pycache__"})
_SCANNED_BYTES = 8 << 20  # in a folder that is taken in whole, a larger file is data


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of the search path: where it is, its name in keys, and the tree it belongs to."""

    path: Path
    logical: str
    tree: str = ""  # a toolkit's or wheel's name and build; empty for the project's own


@dataclass(slots=True)
class Closure:
    """Every file that a source can read, by logical path, and every tree of which it may read any file."""

    files: dict[str, str] = field(default_factory=dict)
    widened: set[str] = field(default_factory=set)  # those of the files that no include names
    trees: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)  # what no folder of the search path has
    # Paths that were tried in the project in vain, for each include.
    absent: set[tuple[str, ...]] = field(default_factory=set, compare=False)
    search: tuple[str, ...] = ()  # the folders of the search path, in its order
    builds: dict[str, str] = field(default_factory=dict)  # of each tree of the search path, for people
    computed: bool = False  # whether macros decide what is included
    guessed: bool = False  # whether some of that cannot be told from the texts
    _digest: str = field(default="", init=False, repr=False, compare=False)

    @property
    def includes(self) -> bool:
        """Whether anything is included at all."""
        return bool(self.files or self.trees or self.missing)

    def summary(self) -> dict[str, str]:
        """Return the digest of each of the user's headers, and one for all headers of each other tree."""
        trees: dict[str, list[str]] = {}
        for logical, content in sorted(self.files.items()):
            tree = logical if logical.startswith(("project/", "/")) else logical.partition("/")[0]
            trees.setdefault(tree, []).extend((logical, content))
        return {tree: parts[1] if tree == parts[0] else digest(parts) for tree, parts in trees.items()}

    def digest(self) -> str:
        """Return one digest of a complete closure, the same in any folder; empty without headers.

        The search path is part of it: in another order, the same include can find another of the files.
        """
        if self.includes and not self._digest:  # made once, for every unit asks: there may be many headers
            files = (part for item in sorted(self.files.items()) for part in item)
            self._digest = digest([*files, "trees", *sorted(self.trees), "search", *self.search])
        return self._digest


class Found(NamedTuple):
    """Where an include leads: to these files, past these places of the project, which have none."""

    places: tuple[tuple[Root, str], ...]
    absent: tuple[str, ...]


class Resolver:
    """Resolves closures over one search path."""

    def __init__(self, project: Path, search: Iterable[Root], scans: Scans | None = None) -> None:
        self.project = Root(project, "project")
        self.search = tuple(search)
        self._scans = scans or Scans()
        self._found: dict[tuple[str, bool, Root | None, str | None], Found] = {}

    def resolve(
        self, path: str, text: str, macros: Sequence[tuple[str, str]], pre_includes: Iterable[str]
    ) -> Closure:
        """Return the closure of the project's source *path*."""
        walk = _Walk(self, meanings(macros))
        asked = self._scans.of_text(text)
        first = [Include(_at_root(name), "angle") for name in pre_includes]
        if ask_for_anything(macros):
            first.append(ANYTHING)
        walk.visit(self.project, path, Scan((*first, *asked.includes), asked.defines))
        walk.settle()
        walk.closure.search = tuple(root.logical for root in self.search)
        walk.closure.builds = {root.logical.partition("/")[0]: root.tree for root in self.search if root.tree}
        return walk.closure

    def find(self, include: Include, root: Root, includer: str) -> Found:
        """Return where an include is found: the first place, or all where any later one may be meant."""
        beside = os.path.dirname(includer) if include.form == "quote" else None
        asked = (include.name, include.every, root if beside is not None else None, beside)
        if asked not in self._found:
            self._found[asked] = self._find(include, root, beside)
        return self._found[asked]

    def _find(self, include: Include, root: Root, beside: str | None) -> Found:
        """Look for an include in NVRTC's order: *beside* the includer if quoted, then along the path."""
        places: list[tuple[Root, str]] = []
        absent: list[str] = []
        for place, written in self._candidates(include.name, root, beside):
            path = os.path.join(place.path, written)
            if disk.is_file(path, self.project.path):
                places.append((place, _tidy(place.path, written)))
                if not include.every:
                    break
            elif not place.tree:
                absent.append(path)
        return Found(tuple(places), tuple(absent))

    def _candidates(self, name: str, root: Root, beside: str | None) -> Iterator[tuple[Root, str]]:
        if anchor := os.path.isabs(name) and Path(name).anchor:
            yield Root(Path(anchor), ""), name[len(anchor) :]
            return
        if beside is not None:
            yield root, os.path.join(beside, name)
        for each in self.search:
            yield each, name

    def read(self, path: str) -> tuple[str, Scan]:
        """Return the digest and the scan of a header."""
        return self._scans.of_file(path, self.project.path)

    def read_any(self, path: str) -> tuple[str, Scan]:
        """Return the same of a file that may be no header; what is too large or unreadable is not scanned."""
        try:
            if os.stat(path).st_size <= _SCANNED_BYTES:
                return self.read(path)
        except (OSError, SourceError):
            pass
        return content_digest(path), Scan(())

    def everything(self, *folders: Path) -> Iterator[tuple[Root, str]]:
        """Yield every file in the project's own search folders and in *folders*; links are followed."""

        def failed(exc: OSError) -> None:
            if not isinstance(exc, (FileNotFoundError, PermissionError)):  # nor can the compiler read those
                raise disk.unreadable(exc, Path(exc.filename), self.project.path) from exc

        own = [root.path for root in self.search if not root.tree]
        seen: set[str] = set()
        for start in (*own, *folders):
            for parent, inner, files in os.walk(start, onerror=failed, followlinks=True):
                real = os.path.realpath(parent)
                inner[:] = [] if real in seen else sorted(set(inner) - _NEVER_SEARCHED)
                for path in [] if real in seen else map(Path(parent).joinpath, sorted(files)):
                    if path.is_file():
                        yield self.project, os.path.relpath(path, self.project.path).replace(os.sep, "/")
                seen.add(real)


def content_digest(path: str | Path) -> str:
    """Return the digest that a closure has for a file; the file is read in pieces."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for ever
            return "unreadable"
        with open(path, "rb") as file:
            return stream_digest(file)
    except OSError:
        return "unreadable"


def _at_root(name: str) -> str:
    """Return where the compiler finds a pre-included file: its process works in the root folder."""
    return path if os.path.isfile(path := os.path.join(os.sep, name)) else name


def _tidy(root: Path, written: str) -> str:
    """Return a path without its `..`, unless that is another file because of a link."""
    tidy = os.path.normpath(written)
    same = ".." not in written or os.path.samefile(root / written, root / tidy)
    return (tidy if same else written).replace(os.sep, "/")


class _Walk:
    """One source's walk over its headers: what was visited, and what its macros can stand for."""

    def __init__(self, resolver: Resolver, macros: Iterable[tuple[str, str]]) -> None:
        self.closure = Closure()
        self._resolver = resolver
        self._defines: dict[str, set[str]] = {}
        self._define(macros)
        self._computed: set[tuple[Include, Root, str]] = set()
        self._seen: set[tuple[Root, str]] = set()
        self._taken: set[Path] = set()

    def visit(self, root: Root, relative: str, scanned: Scan) -> None:
        """Follow the includes of one file, and those of every file that they find."""
        pending = [(root, relative, scanned)]
        while pending:
            root, relative, scanned = pending.pop()
            self._define(scanned.defines)
            for include in scanned.includes:
                if include.form in {"quote", "angle"}:
                    pending += self._found(include, root, relative)
                else:
                    self.closure.computed = True
                    self._computed.add((include, root, relative))

    def settle(self) -> None:
        """Resolve computed includes until no file brings a new macro, and no macro a new file."""
        before = None
        while before != (
            now := (len(self._computed), len(self._seen), sum(map(len, self._defines.values())))
        ):
            before = now
            for include, root, relative in sorted(
                self._computed, key=lambda item: (item[1].logical, item[2], item[0].name)
            ):
                for operand in self._operands(include):
                    if operand is None:
                        self._widen(include, root, relative)
                    else:
                        self.visit(root, relative, Scan((operand,)))

    def _define(self, defines: Iterable[tuple[str, str]]) -> None:
        for name, value in defines:
            self._defines.setdefault(name, set()).add(value)

    def _operands(self, include: Include) -> list[Include | None]:
        """Return all that a computed include can stand for; None among them is for what cannot be known."""
        operands: list[Include | None] = []
        names, seen = [include], {include.name}
        while names:
            values = self._values(names.pop())
            for parsed in (parse_operand(value, every=include.every) for value in sorted(values)):
                if parsed.form == "unknown" or (parsed.form == "angle" and self._expands(parsed.name)):
                    operands.append(None)
                if parsed.form in {"quote", "angle"}:
                    operands.append(parsed)
                elif parsed.form == "macro" and parsed.name not in seen:
                    seen.add(parsed.name)
                    names.append(parsed)
        return operands

    def _values(self, include: Include) -> set[str]:
        """Return what a computed include can stand for: it is the name of a macro, or a macro's call."""
        if (call := CALL.fullmatch(include.name)) is None:
            return self._defines.get(include.name, {UNKNOWABLE})
        return {called(value, call[2]) for value in self._defines.get(call[1], {UNKNOWABLE})}

    def _expands(self, name: str) -> bool:
        """Say whether a word of a macro's `<name>` can be a macro itself, the compiler's own included."""
        return any(word in self._defines or word.startswith("__") for word in WORD.findall(name))

    def _found(self, include: Include, root: Root, relative: str) -> list[tuple[Root, str, Scan]]:
        places, absent = self._resolver.find(include, root, relative)
        if absent:
            self.closure.absent.add(absent)
        others = [place for place in places if place != (root, relative)]
        if not others:
            self.closure.missing.add(include.name)
        by_name = f"{root.logical}/{relative}" not in self.closure.widened
        return [new for place in others for new in self._new(*place, self._resolver.read, by_name=by_name)]

    def _new(
        self, root: Root, relative: str, read: Callable[[str], tuple[str, Scan]], *, by_name: bool
    ) -> list[tuple[Root, str, Scan]]:
        """Add one file to the closure; return it unless it was there."""
        logical = f"{root.logical}/{relative}"
        if by_name:
            self.closure.widened.discard(logical)
        elif logical not in self.closure.files:
            self.closure.widened.add(logical)
        if (root, relative) in self._seen:
            return []
        self._seen.add((root, relative))
        content, scanned = read(os.path.join(root.path, relative))
        self.closure.files[logical] = content
        return [(root, relative, scanned)]

    def _widen(self, include: Include, root: Root, relative: str) -> None:
        """Add all that a computed include can reach: the tree around it, by its build, or the search path."""
        self.closure.guessed = True
        if root.tree:
            self.closure.trees.add(root.tree)
            return
        self.closure.missing.add(include.name)  # it may mean one of the toolkit's headers
        self.closure.trees |= {each.tree for each in self._resolver.search if each.tree}
        far = "../" in include.name or any(FAR in values for values in self._defines.values())
        folder = self._resolver.project.path if far else (root.path / relative).parent
        if folder in self._taken:
            return
        self._taken.add(folder)
        for found_root, found in self._resolver.everything(folder):
            for new_root, new, scanned in self._new(
                found_root, found, self._resolver.read_any, by_name=False
            ):
                self.visit(new_root, new, scanned)
