"""Find the headers that a source can read, and their digest, before anything is compiled.

A header too many costs a compile at most; a header too few means a stale kernel. So every branch of every
conditional is followed. An include that the text does not tell (`#include MACRO`) stands for all it could be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..common.digest import digest
from ..errors import Location, SourceError
from ..project import disk
from ..project.scan import (
    ANY_HEADER,
    IDENTIFIER,
    MACRO_CALL,
    PATH_OPERAND,
    UNKNOWN,
    UNKNOWN_WITH_PARENT,
    Include,
    Scan,
    can_hide_includes,
    expand_call,
    include_values,
    line_of_include,
    parse_operand,
)
from .outside_project import ClosureFiles, TriedPaths
from .resolve import OWN, FoundFile, IncludeSearch, SearchFolder, leads_to_a_process

_WORDS = re.compile(f"({IDENTIFIER.pattern})")
_MOST_PATHS = 100  # that an include can stand for


@dataclass(slots=True)
class Closure:
    """Every file that a source can read, by logical path, and every tree of which it may read any file."""

    files: Mapping[str, str] = field(default_factory=dict)
    widened: set[str] = field(default_factory=set)  # those of the files that no include names
    trees: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)  # what no folder of the search path has
    # Paths that were tried in the project in vain, for each include.
    absent: AbstractSet[TriedPaths] = field(default_factory=set, compare=False)
    search: tuple[str, ...] = ()  # the folders of the search path, in its order
    builds: dict[str, str] = field(default_factory=dict)  # of each tree of the search path, for people
    computed: bool = False  # whether macros decide what is included
    guessed: bool = False  # whether some of that cannot be told from the texts
    at_root: tuple[str, ...] = ()  # pre-included files that only the project's own folder has
    reached: AbstractSet[FoundFile] = field(default_factory=frozenset, repr=False, compare=False)
    _digest: str = field(default="", repr=False, compare=False)
    _outside: dict[str, str] | None = field(default=None, repr=False, compare=False)
    _own: dict[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    def includes(self) -> bool:
        """Whether anything is included at all."""
        return bool(self.files or self.trees or self.missing)

    @property
    def own(self) -> Mapping[str, str]:
        """Those of the files that are in no tree: the project's, and what an absolute path names."""
        if isinstance(self.files, ClosureFiles):
            return self.files.own
        if self._own is None:  # made once: with a lock, every module has all files of the project
            self._own = {logical: content for logical, content in self.files.items() if _is_own(logical)}
        return self._own

    def outside(self) -> dict[str, str]:
        """Return one digest for all headers of each tree."""
        if self._outside is None:  # made once, as below
            trees: dict[str, list[str]] = {}
            for logical, content in sorted(self.files.items()):
                if not _is_own(logical):
                    trees.setdefault(logical.partition("/")[0], []).extend((logical, content))
            self._outside = {tree: digest(parts) for tree, parts in trees.items()}
        return self._outside

    def reads(self, root: SearchFolder) -> bool:
        """Say whether anything is read in a tree outside the project."""
        if root.tree in self.trees:
            return True
        if isinstance(self.files, ClosureFiles):
            return self.files.reach(root.logical)
        return any(logical.startswith(f"{root.logical}/") for logical in self.files)

    def summary(self) -> dict[str, str]:
        """Return the digest of each of the user's headers, and one for all headers of each other tree."""
        return {**self.own, **self.outside()}

    def digest(self) -> str:
        """Return one digest of a complete closure, the same in any folder; empty without headers.

        The search path is part of it: in another order, the same include can find another of the files.
        """
        if self.includes and not self._digest:  # made once, for every unit asks: there may be many headers
            files = (part for item in sorted(self.files.items()) for part in item)
            self._digest = digest([*files, "trees", *sorted(self.trees), "search", *self.search])
        return self._digest


def _is_own(logical: str) -> bool:
    return logical.startswith((OWN, "/"))


class Resolver(IncludeSearch):
    """Resolves closures over one search path."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The folders of the search path, in its order."""
        return tuple(root.logical for root in self.search)

    @cached_property
    def builds(self) -> dict[str, str]:
        """The build of each tree of the search path."""
        return {root.logical.partition("/")[0]: root.tree for root in self.search if root.tree}

    def resolve(
        self, path: str, text: str, macros: Sequence[tuple[str, str]], pre_includes: Sequence[str]
    ) -> Closure:
        """Return the closure of the project's source *path*."""
        walk = _Walk(self, include_values(macros), (path, text))
        asked = self.scans.of_text(text)
        walk.closure.at_root = tuple(name for name in pre_includes if self._is_at_root(name))
        at_root = tuple(Include(name, "quote") for name in walk.closure.at_root)
        walk.visit(self.spot(self.project, ""), Scan(at_root))
        others = (name for name in pre_includes if name not in walk.closure.at_root)
        first = [Include(_at_root(name), "angle") for name in others]
        if can_hide_includes(macros):
            first.append(ANY_HEADER)
        walk.visit(self.spot(*self.own(path)), Scan((*first, *asked.includes), asked.defines))
        walk.settle()
        return replace(
            walk.closure,
            files=walk.files,
            absent=walk.absent,
            reached=walk.reached,
            search=self.names,
            builds=self.builds,
        )

    def _is_at_root(self, name: str) -> bool:
        """Say whether a pre-included file is named by its path in the project, and not on the search path."""
        elsewhere = self.find(Include(_at_root(name), "angle"), self.project, "").places
        return (
            not elsewhere and disk.is_file(self.tree.disk_path(name), self.tree) and self.tree.is_inside(name)
        )


def _at_root(name: str) -> str:
    """Return where the compiler finds a pre-included file: its process works in the root folder."""
    path = os.path.join(os.sep, name)
    return path if leads_to_a_process(path) or os.path.isfile(path) else name


class _Walk:
    """One source's walk over its headers: what was visited, and what its macros can stand for."""

    def __init__(
        self, resolver: Resolver, macros: Iterable[tuple[str, str]], source: tuple[str, str]
    ) -> None:
        self.closure = Closure()
        self.files: dict[str, str] = {}
        self.absent: set[TriedPaths] = set()
        self.reached: set[FoundFile] = set()
        self._resolver = resolver
        self._source = source
        self._meanings: dict[str, set[str]] = {}
        self._unsorted = [macros]  # what was defined, and is not among the meanings yet: few walks need them
        self._computed: set[tuple[Include, FoundFile]] = set()
        self._taken: set[Path] = set()
        self._packages: set[SearchFolder] = set()  # whose files were all taken

    def visit(self, spot: FoundFile, scanned: Scan) -> None:
        """Follow the includes of one file, and those of every file that they find."""
        pending = [(spot, scanned)]
        while pending:
            spot, scanned = pending.pop()
            try:
                pending += self._followed(spot, scanned)
            except SourceError as exc:
                raise self._told(exc, spot, scanned) from exc

    def _followed(self, spot: FoundFile, scanned: Scan) -> list[tuple[FoundFile, Scan]]:
        """Take what one file includes and defines; return the files that are new."""
        self._unsorted.append(scanned.defines)
        step = self._resolver.step(spot, scanned)
        if step.absent or step.missing or step.computed:
            self.absent.update(step.absent)
            self.closure.missing.update(step.missing)
            self._computed.update((include, spot) for include in step.computed)
        by_name = spot.logical not in self.closure.widened
        found: Iterable[FoundFile] = step.found
        if by_name and not self.closure.widened:  # as nearly always, and in millions
            found = [each for each in found if each not in self.reached]
        read = self._resolver.read
        return [new for each in found for new in self._new(each, read, by_name=by_name)]

    def settle(self) -> None:
        """Resolve computed includes until no file brings a new macro, and no macro a new file."""
        before = None
        while self._computed and before != (
            now := (len(self._computed), len(self.reached), sum(map(len, self._defines.values())))
        ):
            before, self.closure.computed = now, True
            for include, spot in sorted(
                self._computed, key=lambda item: (item[1].root.logical, item[1].relative, item[0].name)
            ):
                for operand in self._operands(include):
                    if operand is None:
                        self._widen(include, spot.root, spot.relative)
                    else:
                        self.visit(spot, Scan((operand,)))
        if self.closure.guessed and any("../" in value for each in self._defines.values() for value in each):
            self.closure.trees.add(self._resolver.folders(*sorted(self._taken)))

    @property
    def _defines(self) -> dict[str, set[str]]:
        """All that each macro was defined to mean so far."""
        while self._unsorted:
            for name, value in self._unsorted.pop():
                self._meanings.setdefault(name, set()).add(value)
        return self._meanings

    def _operands(self, include: Include) -> list[Include | None]:
        """Return all that a computed include can stand for; None among them is for what cannot be known."""
        operands: list[Include | None] = []
        names, seen = [include], {include.name}
        while names:
            values = self._values(names.pop())
            for parsed in (parse_operand(value, every=include.searches_on) for value in sorted(values)):
                if parsed.form == "angle" and (spelled := self._spelled(parsed.name)) is not None:
                    operands += [parsed._replace(name=name) for name in sorted(spelled)]
                    continue
                if parsed.form in {"unknown", "angle"}:
                    operands.append(None)
                if parsed.form in {"quote", "angle"}:
                    operands.append(parsed)
                elif parsed.form == "macro" and parsed.name not in seen:
                    seen.add(parsed.name)
                    names.append(parsed)
        return operands

    def _values(self, include: Include) -> set[str]:
        """Return what a computed include can stand for: a macro's name, its call, or the argument of one."""
        if include.form == "argument":
            return {f"<{include.name}>"}
        if (call := MACRO_CALL.fullmatch(include.name)) is None:
            return self._defines.get(include.name, {UNKNOWN})
        return {expand_call(value, call[2]) for value in self._defines.get(call[1], {UNKNOWN})}

    def _spelled(self, path: str, within: frozenset[str] = frozenset()) -> set[str] | None:
        """Return all that a path can be when the macros in it are expanded; None where that is unknowable."""
        found = {""}
        for piece in _WORDS.split(path):
            options = (
                {piece} if piece in within or not IDENTIFIER.fullmatch(piece) else self._word(piece, within)
            )
            if options is None or len(found) * len(options) > _MOST_PATHS:
                return None
            found = {before + option for before in found for option in options}
        return found

    def _word(self, word: str, within: frozenset[str]) -> set[str] | None:
        """Return the same of a word. One that is no macro stands for itself; the compiler has its own."""
        if word not in self._defines:
            return None if word.startswith("__") else {word}
        options = {word}
        for value in self._defines[word]:
            path = PATH_OPERAND.fullmatch(value)
            spelled = self._spelled(value, within | {word}) if path else None
            if spelled is None:
                return None
            options |= spelled
        return options

    def _told(self, error: SourceError, spot: FoundFile, scanned: Scan) -> SourceError:
        """Return an error with the place of the include that leads to it; none of one that options make."""
        include = self._leading(spot, scanned)
        if include is None or not spot.relative:
            return error
        path, text = self._source
        if spot.logical != OWN + path:
            text = disk.read_file(spot.path, self._resolver.tree).decode("utf-8", "replace")
        place = Location(self._resolver.tree.name_of(spot.path), line_of_include(include, text))
        return SourceError(*(each._replace(details=(f"included from {place}",)) for each in error.problems))

    def _leading(self, spot: FoundFile, scanned: Scan) -> Include | None:
        """Return the first of a file's includes whose header cannot be looked for, or not be read."""
        return next((include for include in scanned.includes if self._fails(include, spot)), None)

    def _fails(self, include: Include, spot: FoundFile) -> bool:
        try:
            for place in self._resolver.find(include, spot.root, spot.relative).places:
                self._resolver.read(self._resolver.spot(*place))
        except SourceError:
            return True
        return False

    def _new(
        self, spot: FoundFile, read: Callable[[FoundFile], tuple[str, Scan]], *, by_name: bool
    ) -> tuple[tuple[FoundFile, Scan], ...]:
        """Add one file to the closure; return it unless it was there."""
        if by_name:
            self.closure.widened.discard(spot.logical)
        elif spot.logical not in self.files:
            self.closure.widened.add(spot.logical)
        if spot in self.reached:
            return ()
        self.reached.add(spot)
        self.files[spot.logical], scanned = read(spot)
        return ((spot, scanned),)

    def _widen(self, include: Include, root: SearchFolder, relative: str) -> None:
        """Add all that a computed include can reach: the tree around it, by its build, or the search path."""
        self.closure.guessed = True
        # The version of a header package does not say that somebody edited one of its files.
        reached = {each for each in ((root,) if root.tree else self._resolver.search) if each.is_package}
        for each in sorted(reached - self._packages):
            self._packages.add(each)
            self._take(self._resolver.all_of(each))
        if root.tree:
            self.closure.trees.add(root.tree)
            return
        self.closure.missing.add(include.name)  # it may mean one of the toolkit's headers
        self.closure.trees |= {each.tree for each in self._resolver.search if each.tree}
        far = "../" in include.name or any(UNKNOWN_WITH_PARENT in values for values in self._defines.values())
        folders = self._resolver.tree.folders if far else ((root.path / relative).parent,)
        if self._taken.issuperset(folders):
            return
        self._taken.update(folders)
        self._take(self._resolver.everything(*folders), by_name=False)

    def _take(self, found: Iterable[tuple[SearchFolder, str]], *, by_name: bool = True) -> None:
        """Add files, and follow the includes of those that are new."""
        for place in found:
            for new, scanned in self._new(
                self._resolver.spot(*place), self._resolver.read_any, by_name=by_name
            ):
                self.visit(new, scanned)
