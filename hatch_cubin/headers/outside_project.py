"""The headers in toolkits and wheels that a build has read, and the paths at which there is no header.

Most headers that a source reads are outside the project, and many sources read the same headers. To save
space, the headers of each folder outside the project are numbered, and the recorded list of a source's
headers contains only numbers.
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

# The paths in the project at which one include was searched for, but no file was found.
TriedPaths = tuple[str, ...]

_BITS = bytes.maketrans(b"01", b"\0\1")


class OutsideFolder:
    """A folder of the search path outside the project, with the state of each path that a build looked up."""

    def __init__(self, path: Path, logical: str) -> None:
        # By path: the file's state at the first look-up; empty if the path is not a file.
        self.states: dict[str, str] = {}
        self._start = os.path.join(path, "")
        self.logical = logical
        self._numbers: dict[str, int] = {}  # The number of each header that was read, by the header's path.
        # The logical name and the digest of each header, in the order of the headers' numbers.
        self._headers: list[tuple[str, str]] = []

    def is_file(self, relative: str, tree: ProjectTree) -> bool:
        """Return whether *relative* is the path of a file in this folder outside the project."""
        if (state := self.states.get(relative)) is None:
            state = self.states[relative] = disk.file_state(self._start + relative, tree)
        return state != ""

    def current_states(self, paths: Iterable[str], tree: ProjectTree) -> list[str]:
        """Return the current states (size, times and so on) of the files at *paths* in this folder."""
        return [disk.file_state(self._start + relative, tree) for relative in paths]

    def digest_now(self, relative: str, tree: ProjectTree) -> str:
        """Return the current digest of the file *relative* in this folder."""
        return file_digest(disk.read_file(self._start + relative, tree))

    def are_same(self, relative: str, other: str) -> bool:
        """Return whether two paths in this folder lead to the same file."""
        return os.path.samefile(self._start + relative, self._start + other)

    def content(self, relative: str) -> str | None:
        """Return the recorded digest of the header *relative*; None if this header was not read."""
        number = self._numbers.get(relative)
        return None if number is None else self._headers[number][1]

    def contents(self) -> dict[str, str]:
        """Return a mapping from path to digest for all headers that were read, ordered by header number."""
        return {relative: self._headers[number][1] for relative, number in self._numbers.items()}

    def add(self, relative: str, content: str) -> None:
        """Give a number to the header *relative*, which was read and has the digest *content*."""
        self._numbers[relative] = len(self._headers)
        self._headers.append((f"{self.logical}/{relative}", content))

    def bits(self, headers: Iterable[str]) -> int:
        """Return an integer in which one bit is set for each of *headers*: the bit at the header's number."""
        return to_bits(self._numbers[relative] for relative in headers)

    def headers(self, bits: int) -> Iterator[tuple[str, str]]:
        """Yield the logical name and the digest of each header for whose number a bit is set in *bits*."""
        return items_at_bits(self._headers, bits)


class ClosureFiles(Mapping[str, str]):
    """A mapping from logical name to digest for all files that a source can read.

    *own* are files of the project, and *outside* are files in toolkits and wheels.
    """

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

    def has_files_in(self, logical: str) -> bool:
        """Return whether the closure contains files of the folder *logical*, which is outside the project."""
        return any(bits for folder, bits in self.outside if f"{folder.logical}/".startswith(f"{logical}/"))

    def items(self) -> ItemsView[str, str]:
        """Return all files of the header closure with their digests.

        This method is faster than `Mapping.items`, which looks up each file separately.
        """
        return self._all().items()

    def _all(self) -> dict[str, str]:
        files = dict(self.own)
        for folder, bits in self.outside:
            files.update(folder.headers(bits))
        return files


class AbsentPaths(AbstractSet[TriedPaths]):
    """Paths in the project at which a search for an included file did not find a file.

    *own* contains the paths for includes in the project's files, and *others* contains the paths for includes
    in headers outside the project.
    """

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
    """Return the logical names of all files in several header closures (sets of readable files)."""
    names, outside = set[str](), dict[OutsideFolder, int]()
    for files in closures:
        if isinstance(files, ClosureFiles):
            for folder, bits in files.outside:
                outside[folder] = outside.get(folder, 0) | bits
        names.update(files.own if isinstance(files, ClosureFiles) else files)
    for folder, bits in outside.items():
        names.update(logical for logical, _content in folder.headers(bits))
    return names


def to_bits(numbers: Iterable[int]) -> int:
    """Return an integer in which the bits at *numbers* are set; no number may occur twice."""
    return sum(1 << number for number in numbers)


def items_at_bits(items: Sequence[T], bits: int) -> Iterator[T]:
    """Yield the items at the positions whose bits are set in *bits*."""
    return compress(items, f"{bits:b}"[::-1].encode().translate(_BITS))
