"""Find the headers that a source can read, and their digest, before anything is compiled.

A header too many costs a compile at most; a header too few means a stale kernel. So every branch of every
conditional is followed. An include that the text does not tell (`#include MACRO`) stands for all it could be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .._digest import digest
from ..errors import Location, SourceError
from . import disk
from .scan import (
    ANYTHING,
    CALL,
    FAR,
    UNKNOWABLE,
    WORD,
    Include,
    Scan,
    ask_for_anything,
    called,
    line_of,
    meanings,
    parse_operand,
)
from .search import OWN, Root, Search
from .source import is_inside


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
    at_root: tuple[str, ...] = ()  # pre-included files that only the project's own folder has
    _digest: str = field(default="", init=False, repr=False, compare=False)

    @property
    def includes(self) -> bool:
        """Whether anything is included at all."""
        return bool(self.files or self.trees or self.missing)

    def summary(self) -> dict[str, str]:
        """Return the digest of each of the user's headers, and one for all headers of each other tree."""
        trees: dict[str, list[str]] = {}
        for logical, content in sorted(self.files.items()):
            tree = logical if logical.startswith((OWN, "/")) else logical.partition("/")[0]
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


class Resolver(Search):
    """Resolves closures over one search path."""

    def resolve(
        self, path: str, text: str, macros: Sequence[tuple[str, str]], pre_includes: Sequence[str]
    ) -> Closure:
        """Return the closure of the project's source *path*."""
        walk = _Walk(self, meanings(macros), (path, text))
        asked = self.scans.of_text(text)
        walk.closure.at_root = tuple(name for name in pre_includes if self._is_at_root(name))
        walk.visit(self.project, "", Scan(tuple(Include(name, "quote") for name in walk.closure.at_root)))
        others = (name for name in pre_includes if name not in walk.closure.at_root)
        first = [Include(_at_root(name), "angle") for name in others]
        if ask_for_anything(macros):
            first.append(ANYTHING)
        walk.visit(self.project, path, Scan((*first, *asked.includes), asked.defines))
        walk.settle()
        walk.closure.search = tuple(root.logical for root in self.search)
        walk.closure.builds = {root.logical.partition("/")[0]: root.tree for root in self.search if root.tree}
        return walk.closure

    def _is_at_root(self, name: str) -> bool:
        """Say whether a pre-included file is named by its path in the project, and not on the search path."""
        elsewhere = self.find(Include(_at_root(name), "angle"), self.project, "").places
        path = self.project.path / name
        return not elsewhere and disk.is_file(path, self.project.path) and is_inside(self.project.path, path)


def _at_root(name: str) -> str:
    """Return where the compiler finds a pre-included file: its process works in the root folder."""
    return path if os.path.isfile(path := os.path.join(os.sep, name)) else name


class _Walk:
    """One source's walk over its headers: what was visited, and what its macros can stand for."""

    def __init__(
        self, resolver: Resolver, macros: Iterable[tuple[str, str]], source: tuple[str, str]
    ) -> None:
        self.closure = Closure()
        self._resolver = resolver
        self._source = source
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
        if self.closure.guessed and any("../" in value for each in self._defines.values() for value in each):
            self.closure.trees.add(self._resolver.folders(*sorted(self._taken)))

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
        try:
            places, absent = self._resolver.find(include, root, relative)
            if absent:
                self.closure.absent.add(absent)
            others = [place for place in places if place != (root, relative)]
            if not others:
                self.closure.missing.add(include.name)
            by_name = f"{root.logical}/{relative}" not in self.closure.widened
            return [
                new for place in others for new in self._new(*place, self._resolver.read, by_name=by_name)
            ]
        except SourceError as exc:
            way = self._named(include, root, relative)
            raise SourceError(*(each._replace(details=way) for each in exc.problems)) from exc

    def _named(self, include: Include, root: Root, relative: str) -> tuple[str, ...]:
        """Return the words with the place of an include; none of one that options make."""
        if not relative:
            return ()
        path, text = self._source
        if relative != path:
            text = disk.read(root.path / relative, root.path).decode("utf-8", "replace")
        project = self._resolver.project.path
        named = os.path.relpath(root.path / relative, project).replace(os.sep, "/")
        return (f"included from {Location(named, line_of(include, text))}",)

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
