"""What was seen outside the project: the headers of toolkits and wheels, and where there was none.

Most files of most closures are there, and closures share them. So each folder numbers its headers, and a
closure that is kept has the numbers alone.
"""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress
from pathlib import Path
from typing import TypeVar

from ..common.digest import file_digest
from ..project import disk
from ..project.source_roots import ProjectTree

T = TypeVar("T")

TriedPaths = tuple[str, ...]  # paths that were tried in vain for one include

_BITS = bytes.maketrans(b"01", b"\0\1")


class OutsideFolder:
    """One folder of the search path: what was at each path in it when that was first looked at."""

    def __init__(self, path: Path, logical: str) -> None:
        self.states: dict[str, str] = {}  # of files, and nothing where there is none
        self._start = os.path.join(path, "")
        self.logical = logical
        self._numbers: dict[str, int] = {}  # of the headers that were read, by path
        self._headers: list[tuple[str, str]] = []  # their logical names and digests, by number

    def is_file(self, relative: str, tree: ProjectTree) -> bool:
        """Say whether there is a file at a path of this folder."""
        if (state := self.states.get(relative)) is None:
            state = self.states[relative] = disk.file_state(self._start + relative, tree)
        return state != ""

    def now(self, paths: Iterable[str], tree: ProjectTree) -> list[str]:
        """Return what is at some paths of this folder now."""
        return [disk.file_state(self._start + relative, tree) for relative in paths]

    def digest_now(self, relative: str, tree: ProjectTree) -> str:
        """Return the digest of what the file at a path of this folder has now."""
        return file_digest(disk.read_file(self._start + relative, tree))

    def are_same(self, relative: str, other: str) -> bool:
        """Say whether two paths of this folder lead to one file."""
        return os.path.samefile(self._start + relative, self._start + other)

    def content(self, relative: str) -> str | None:
        """Return the digest of a header that was read."""
        number = self._numbers.get(relative)
        return None if number is None else self._headers[number][1]

    def contents(self) -> dict[str, str]:
        """Return the digests of the headers that were read, by path, in the order of their numbers."""
        return {relative: self._headers[number][1] for relative, number in self._numbers.items()}

    def add(self, relative: str, content: str) -> None:
        """Number a header that was read."""
        self._numbers[relative] = len(self._headers)
        self._headers.append((f"{self.logical}/{relative}", content))

    def bits(self, headers: Iterable[str]) -> int:
        """Return the numbers of headers, as bits."""
        return as_bits(self._numbers[relative] for relative in headers)

    def headers(self, bits: int) -> Iterator[tuple[str, str]]:
        """Yield the logical names and the digests of headers by their numbers."""
        return items_at_bits(self._headers, bits)


class ClosureFiles(Mapping[str, str]):
    """The files of a closure by their logical names: the project's *own*, and those of folders *outside*."""

    def __init__(self, own: Mapping[str, str], outside: Sequence[tuple[OutsideFolder, int]]) -> None:
        self.own = own
        self.outside = outside

    def __getitem__(self, logical: str) -> str:
        return self._all()[logical]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        return bool(self.own) or any(bits for _folder, bits in self.outside)

    def reach(self, logical: str) -> bool:
        """Say whether there are any of a folder outside."""
        return any(bits for folder, bits in self.outside if f"{folder.logical}/".startswith(f"{logical}/"))

    def items(self) -> ItemsView[str, str]:
        """Return all files, put together once for all of them."""
        return self._all().items()

    def _all(self) -> dict[str, str]:
        files = dict(self.own)
        for folder, bits in self.outside:
            files.update(folder.headers(bits))
        return files


class AbsentPlaces(AbstractSet[TriedPaths]):
    """Paths of the project that were tried in vain: for includes of its *own* files, and of *others*."""

    def __init__(self, own: AbstractSet[TriedPaths], others: Sequence[TriedPaths], bits: int) -> None:
        self._own = own
        self._others = others
        self._bits = bits

    def __contains__(self, places: object) -> bool:
        return places in self._all()

    def __iter__(self) -> Iterator[TriedPaths]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> AbstractSet[TriedPaths]:
        return {*self._own, *items_at_bits(self._others, self._bits)}


def names_in(closures: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the logical names of the files of several closures, those of each folder put together once."""
    names, outside = set[str](), dict[OutsideFolder, int]()
    for files in closures:
        if isinstance(files, ClosureFiles):
            for folder, bits in files.outside:
                outside[folder] = outside.get(folder, 0) | bits
        names.update(files.own if isinstance(files, ClosureFiles) else files)
    for folder, bits in outside.items():
        names.update(logical for logical, _content in folder.headers(bits))
    return names


def as_bits(numbers: Iterable[int]) -> int:
    """Return different numbers as the bits of one."""
    return sum(1 << number for number in numbers)


def items_at_bits(items: Sequence[T], bits: int) -> Iterator[T]:
    """Yield the items with these numbers."""
    return compress(items, f"{bits:b}"[::-1].encode().translate(_BITS))
