"""Find all headers that a source can include, without running the compiler, and compute their digest.

A header that is listed although the source does not need it causes at most an unnecessary compile; a header
that is not listed causes a stale kernel. To miss no header, the search follows the includes in every branch
of every `#if`. A computed include (`#include MACRO`) counts as an include of every header that the macro
could mean.
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
from .resolve import OWN, HeaderFile, IncludeSearch, SearchFolder, differs_by_process

_WORDS = re.compile(f"({IDENTIFIER.pattern})")
_MOST_PATHS = 100  # the maximum number of paths to which one computed include (`#include MACRO`) can expand


@dataclass(slots=True)
class Closure:
    """The header closure of a source: all files that the compiler may read when it compiles the source.

    *files* maps the logical path of each file in the header closure to the file's digest. *trees* are the
    names of header trees (such as the toolkit's headers) from which the compiler may read any file.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    # the files that no include names, but that a computed include (`#include MACRO`) may mean
    widened: set[str] = field(default_factory=set)
    trees: set[str] = field(default_factory=set)
    # the names in includes for which the search path does not contain a file
    missing: set[str] = field(default_factory=set)
    # For each include, the paths in the project at which the search found no file.
    absent: AbstractSet[TriedPaths] = field(default_factory=set, compare=False)
    search: tuple[str, ...] = ()  # the logical names of the folders on the search path, in order.
    # The version of each header tree on the search path, for messages.
    builds: dict[str, str] = field(default_factory=dict)
    computed: bool = False  # Whether macros decide which headers are included.
    # Whether a macro that decides about includes may have values that the files do not define.
    guessed: bool = False
    # Pre-included files that the compiler finds only by the files' path in the project.
    at_root: tuple[str, ...] = ()
    reached: AbstractSet[HeaderFile] = field(default_factory=frozenset, repr=False, compare=False)
    _digest: str = field(default="", repr=False, compare=False)
    _outside: dict[str, str] | None = field(default=None, repr=False, compare=False)
    _own: dict[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    def includes(self) -> bool:
        """Whether the source includes any file at all."""
        return bool(self.files or self.trees or self.missing)

    @property
    def own(self) -> Mapping[str, str]:
        """All files that are not in a header tree: files of the project, and files with an absolute path."""
        if isinstance(self.files, ClosureFiles):
            return self.files.own
        # Computed only once, because in a build with a lock file every module has all files of the project.
        if self._own is None:
            self._own = {logical: content for logical, content in self.files.items() if _is_own(logical)}
        return self._own

    def outside(self) -> dict[str, str]:
        """Return a mapping from each header tree to one digest of all its headers in this header closure."""
        if self._outside is None:  # computed once, because each unit of the module needs it
            trees: dict[str, list[str]] = {}
            for logical, content in sorted(self.files.items()):
                if not _is_own(logical):
                    trees.setdefault(logical.partition("/")[0], []).extend((logical, content))
            self._outside = {tree: digest(parts) for tree, parts in trees.items()}
        return self._outside

    def reads(self, root: SearchFolder) -> bool:
        """Return whether the compiler may read a file in the folder *root*, which is outside the project."""
        if root.tree in self.trees:
            return True
        if isinstance(self.files, ClosureFiles):
            return self.files.has_files_in(root.logical)
        return any(logical.startswith(f"{root.logical}/") for logical in self.files)

    def summary(self) -> dict[str, str]:
        """Return the digest of each header of the project, and one digest for each header tree outside it."""
        return {**self.own, **self.outside()}

    def digest(self) -> str:
        """Return one digest of the whole header closure; an empty text if the source includes nothing.

        The digest does not depend on the path of the project's folder. The digest also covers the search
        path, because an include can find a different file if the order of the folders changes.
        """
        # the digest is computed only once, because each unit of the module needs the digest
        if self.includes and not self._digest:
            files = (part for item in sorted(self.files.items()) for part in item)
            self._digest = digest([*files, "trees", *sorted(self.trees), "search", *self.search])
        return self._digest


def _is_own(logical: str) -> bool:
    return logical.startswith((OWN, "/"))


class Resolver(IncludeSearch):
    """Finds the header closures of sources, with one search path."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The logical names of the search path's folders, in order."""
        return tuple(root.logical for root in self.search)

    @cached_property
    def builds(self) -> dict[str, str]:
        """The version of each header tree on the search path."""
        return {root.logical.partition("/")[0]: root.tree for root in self.search if root.tree}

    def resolve(
        self, path: str, text: str, macros: Sequence[tuple[str, str]], pre_includes: Sequence[str]
    ) -> Closure:
        """Return the header closure of the project's source at *path*."""
        walk = _Walk(self, include_values(macros), (path, text))
        asked = self.scans.of_text(text)
        walk.closure.at_root = tuple(name for name in pre_includes if self._is_at_root(name))
        at_root = tuple(Include(name, "quote") for name in walk.closure.at_root)
        walk.visit(self.file(self.project, ""), Scan(at_root))
        others = (name for name in pre_includes if name not in walk.closure.at_root)
        first = [Include(_at_root(name), "angle") for name in others]
        if can_hide_includes(macros):
            first.append(ANY_HEADER)
        walk.visit(self.file(*self.own(path)), Scan((*first, *asked.includes), asked.defines))
        walk.resolve_computed()
        return replace(
            walk.closure,
            files=walk.files,
            absent=walk.absent,
            reached=walk.reached,
            search=self.names,
            builds=self.builds,
        )

    def _is_at_root(self, name: str) -> bool:
        """Return whether the pre-included file *name* is in the project, but not in any include folder."""
        elsewhere = self.find(Include(_at_root(name), "angle"), self.project, "").places
        return (
            not elsewhere and disk.is_file(self.tree.disk_path(name), self.tree) and self.tree.is_inside(name)
        )


def _at_root(name: str) -> str:
    """Return the path at which the compiler, which runs in the folder `/`, looks for a pre-included file."""
    path = os.path.join(os.sep, name)
    return path if differs_by_process(path) or os.path.isfile(path) else name


class _Walk:
    """Follows all includes of one source, and collects the headers and the possible values of macros."""

    def __init__(
        self, resolver: Resolver, macros: Iterable[tuple[str, str]], source: tuple[str, str]
    ) -> None:
        self.closure = Closure()
        self.files: dict[str, str] = {}
        self.absent: set[TriedPaths] = set()
        self.reached: set[HeaderFile] = set()
        self._resolver = resolver
        self._source = source
        self._values_by_macro: dict[str, set[str]] = {}
        # added to *_values_by_macro* only for a computed include, because few sources have computed includes
        self._unsorted_defines = [macros]
        self._computed: set[tuple[Include, HeaderFile]] = set()
        self._added_folders: set[Path] = set()
        # the folders of header packages from which all files were added
        self._added_packages: set[SearchFolder] = set()

    def visit(self, file: HeaderFile, scanned: Scan) -> None:
        """Follow the includes of a file, and recursively the includes of every file found."""
        pending = [(file, scanned)]
        while pending:
            file, scanned = pending.pop()
            try:
                pending += self._follow(file, scanned)
            except SourceError as exc:
                raise self._with_include(exc, file, scanned) from exc

    def _follow(self, file: HeaderFile, scanned: Scan) -> list[tuple[HeaderFile, Scan]]:
        """Record the includes and macro definitions of one file; return included files that are new."""
        self._unsorted_defines.append(scanned.defines)
        includes = self._resolver.resolve_file(file, scanned)
        if includes.absent or includes.missing or includes.computed:
            self.absent.update(includes.absent)
            self.closure.missing.update(includes.missing)
            self._computed.update((include, file) for include in includes.computed)
        by_name = file.logical not in self.closure.widened
        found: Iterable[HeaderFile] = includes.found
        # This condition is true in nearly all cases, and saves millions of calls.
        if by_name and not self.closure.widened:
            found = [each for each in found if each not in self.reached]
        read = self._resolver.read
        return [new for each in found for new in self._add(each, read, by_name=by_name)]

    def resolve_computed(self) -> None:
        """Resolve computed includes (`#include MACRO`) until no new macro value and no new file is found."""
        before = None
        while self._computed and before != (
            now := (len(self._computed), len(self.reached), sum(map(len, self._defines.values())))
        ):
            before, self.closure.computed = now, True
            for include, file in sorted(
                self._computed, key=lambda item: (item[1].root.logical, item[1].relative, item[0].name)
            ):
                for operand in self._operands(include):
                    if operand is None:
                        self._add_all_candidates(include, file.root, file.relative)
                    else:
                        self.visit(file, Scan((operand,)))
        if self.closure.guessed and any("../" in value for each in self._defines.values() for value in each):
            self.closure.trees.add(self._resolver.folders(*sorted(self._added_folders)))

    @property
    def _defines(self) -> dict[str, set[str]]:
        """All values of each macro in the definitions that the search has found so far."""
        while self._unsorted_defines:
            for name, value in self._unsorted_defines.pop():
                self._values_by_macro.setdefault(name, set()).add(value)
        return self._values_by_macro

    def _operands(self, include: Include) -> list[Include | None]:
        """Return the texts of all includes to which a computed include (`#include MACRO`) can expand.

        None in the result means that the name of the included file is unknown.
        """
        operands: list[Include | None] = []
        names, seen = [include], {include.name}
        while names:
            values = self._texts(names.pop())
            for parsed in (parse_operand(value, every=include.searches_on) for value in sorted(values)):
                if parsed.form == "angle" and (spelled := self._path_expansions(parsed.name)) is not None:
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

    def _texts(self, include: Include) -> set[str]:
        """Return the texts to which a macro, a call of a macro, or the argument of a call can expand."""
        if include.form == "argument":
            return {f"<{include.name}>"}
        if (call := MACRO_CALL.fullmatch(include.name)) is None:
            return self._defines.get(include.name, {UNKNOWN})
        return {expand_call(value, call[2]) for value in self._defines.get(call[1], {UNKNOWN})}

    def _path_expansions(self, path: str, within: frozenset[str] = frozenset()) -> set[str] | None:
        """Return all paths to which a path with macros can expand.

        The result is None if a part of the path is unknown, or if there are too many paths.
        """
        found = {""}
        for piece in _WORDS.split(path):
            options = (
                {piece}
                if piece in within or not IDENTIFIER.fullmatch(piece)
                else self._word_expansions(piece, within)
            )
            if options is None or len(found) * len(options) > _MOST_PATHS:
                return None
            found = {before + option for before in found for option in options}
        return found

    def _word_expansions(self, word: str, within: frozenset[str]) -> set[str] | None:
        """Return all texts to which a word can expand.

        The result is None if the texts are unknown, for example because the compiler itself defines the word
        as a macro.
        """
        if word not in self._defines:
            return None if word.startswith("__") else {word}
        options = {word}
        for value in self._defines[word]:
            path = PATH_OPERAND.fullmatch(value)
            spelled = self._path_expansions(value, within | {word}) if path else None
            if spelled is None:
                return None
            options |= spelled
        return options

    def _with_include(self, error: SourceError, file: HeaderFile, scanned: Scan) -> SourceError:
        """Return *error* with the line number of the include that caused the error.

        The error is returned unchanged if a compiler option caused it.
        """
        include = self._failing_include(file, scanned)
        if include is None or not file.relative:
            return error
        path, text = self._source
        if file.logical != OWN + path:
            text = disk.read_file(file.path, self._resolver.tree).decode("utf-8", "replace")
        place = Location(self._resolver.tree.name_of(file.path), line_of_include(include, text))
        return SourceError(*(each._replace(details=(f"included from {place}",)) for each in error.problems))

    def _failing_include(self, file: HeaderFile, scanned: Scan) -> Include | None:
        """Return the first include whose header cannot be found or read because of an error."""
        return next((include for include in scanned.includes if self._fails(include, file)), None)

    def _fails(self, include: Include, file: HeaderFile) -> bool:
        try:
            for place in self._resolver.find(include, file.root, file.relative).places:
                self._resolver.read(self._resolver.file(*place))
        except SourceError:
            return True
        return False

    def _add(
        self, file: HeaderFile, read: Callable[[HeaderFile], tuple[str, Scan]], *, by_name: bool
    ) -> tuple[tuple[HeaderFile, Scan], ...]:
        """Add one file to the header closure; return the file with its includes if the file is new."""
        if by_name:
            self.closure.widened.discard(file.logical)
        elif file.logical not in self.files:
            self.closure.widened.add(file.logical)
        if file in self.reached:
            return ()
        self.reached.add(file)
        self.files[file.logical], scanned = read(file)
        return ((file, scanned),)

    def _add_all_candidates(self, include: Include, root: SearchFolder, relative: str) -> None:
        """Add every file that a computed include with unknown macros can mean.

        If the include is in a header tree, the function adds all files of this header tree to the header
        closure. If the include is in the project, the function adds all files on the search path.
        """
        self.closure.guessed = True
        # A header package's files can be edited without a new version, so the digest of each file is needed.
        reached = {each for each in ((root,) if root.tree else self._resolver.search) if each.is_package}
        for each in sorted(reached - self._added_packages):
            self._added_packages.add(each)
            self._add_files(self._resolver.outside_files(each))
        if root.tree:
            self.closure.trees.add(root.tree)
            return
        self.closure.missing.add(include.name)  # the include may also mean one of the toolkit's headers
        self.closure.trees |= {each.tree for each in self._resolver.search if each.tree}
        far = "../" in include.name or any(UNKNOWN_WITH_PARENT in values for values in self._defines.values())
        folders = self._resolver.tree.folders if far else ((root.path / relative).parent,)
        if self._added_folders.issuperset(folders):
            return
        self._added_folders.update(folders)
        self._add_files(self._resolver.project_files(*folders), by_name=False)

    def _add_files(self, found: Iterable[tuple[SearchFolder, str]], *, by_name: bool = True) -> None:
        """Add files to the header closure, and follow the includes of those files that are new."""
        for place in found:
            for new, scanned in self._add(
                self._resolver.file(*place), self._resolver.read_any, by_name=by_name
            ):
                self.visit(new, scanned)
