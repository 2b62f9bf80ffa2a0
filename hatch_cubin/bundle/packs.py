"""Packed bundles: which results share a block, where each lies in it, and how a block is unpacked. Pure.

A block is the results of one arch, one after another, as one xz stream. The loader has its own way to unpack:
`loader/_packs.py` stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cache.entries import Compiled, Content
from ..common import read_limits
from ..common.digest import digest, file_digest
from ..common.sizes import size
from ..errors import BundleError, Problem

MOST = 1 << 21  # bytes of the results that share a block; a larger one has a block of its own
_WINDOW = 1 << 26  # bytes that an unpacker may look back, at most
_STEM = 8  # bytes of the digest of a source's name, by which its variants stay together
_LABEL = "hatch-cubin/block/v1"  # of its format, and of how the worker packs


class Piece(NamedTuple):
    """A result on its way into a block: of the module *name*, which is a variant of *base*."""

    base: str
    name: str
    arch: str
    sha256: str
    size: int


class Slot(NamedTuple):
    """Where a result lies."""

    block: str
    offset: int


class Block(NamedTuple):
    """The results that share a block, in their order."""

    name: str  # of its file
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def key(self) -> bytes:
        """What the packed block is stored under in the cache: it follows from the results alone."""
        return bytes.fromhex(digest([_LABEL, *(piece.sha256 for piece in self.pieces)]))

    @property
    def slots(self) -> dict[tuple[str, str], Slot]:
        """Where each result lies, by its arch and digest."""
        found, at = {}, 0
        for piece in self.pieces:
            found[piece.arch, piece.sha256] = Slot(self.name, at)
            at += piece.size
        return found


class Packed(NamedTuple):
    """The blocks of a bundle."""

    slots: Mapping[tuple[str, str], Slot]  # where each result lies, by its arch and digest
    described: Mapping[str, Mapping[str, int | str]]  # what the manifest says of each
    files: Mapping[str, Content]
    results: Mapping[bytes, Compiled]  # the packed blocks, by their keys


def assembled(blocks: Sequence[Block], results: Mapping[bytes, Compiled]) -> Packed:
    """Return the blocks of a bundle, each of which was packed as the result under its key."""
    slots: dict[tuple[str, str], Slot] = {}
    described: dict[str, Mapping[str, int | str]] = {}
    files: dict[str, Content] = {}
    for block in blocks:
        packed = results[block.key]
        if read_limits.is_bomb(packed.size, block.size):
            raise BundleError(_too_good(block, packed.size))
        slots |= block.slots
        described[block.name] = {"packed": packed.size, "sha256": packed.sha256, "size": block.size}
        files[block.name] = packed.content
    return Packed(slots, described, files, results)


def _too_good(block: Block, packed: int) -> Problem:
    """Return what is wrong with a block that every reader would take for a bomb."""
    (piece,) = block.pieces  # only one alone is as large
    what = f"{piece.name} for {piece.arch} has {size(block.size)} that are packed in {size(packed)}"
    hint = "no loader unpacks that: leave out 'pack', or let a kernel write what is the same everywhere"
    return Problem(what, hint=hint)


def cut(pieces: Iterable[Piece]) -> list[Block]:
    """Return the blocks of all results; those of an arch that are the same to the byte lie in one place.

    Names alone say what may share a block, so that an edit leaves all other blocks as they are.
    """
    archs: dict[str, list[Piece]] = {}
    seen: set[tuple[str, str]] = set()
    for piece in pieces:
        if (piece.arch, piece.sha256) not in seen:
            seen.add((piece.arch, piece.sha256))
            archs.setdefault(piece.arch, []).append(piece)
    return [
        Block(f"{arch}.{number}.xz", tuple(sorted(block)))
        for arch, of_arch in archs.items()
        for number, block in enumerate(_cut(of_arch))
    ]


def _cut(pieces: list[Piece]) -> Iterator[list[Piece]]:
    yield from _halved([(_path(piece), piece) for piece in pieces if piece.size <= MOST], 0)
    yield from ([piece] for piece in sorted(pieces) if piece.size > MOST)


def _halved(pieces: list[tuple[str, Piece]], depth: int) -> Iterator[list[Piece]]:
    """Yield the pieces in groups that are small enough: those whose paths begin alike stay together."""
    if sum(piece.size for _path, piece in pieces) > MOST:
        for side in "01":
            yield from _halved([item for item in pieces if item[0][depth] == side], depth + 1)
    elif pieces:
        yield [piece for _path, piece in pieces]


def _path(piece: Piece) -> str:
    """Return a way through halves of halves, that a name alone decides: first its source's, then its own."""
    path = bytes.fromhex(digest([piece.base]))[:_STEM] + bytes.fromhex(digest([piece.name]))
    return f"{int.from_bytes(path, 'big'):0{8 * len(path)}b}"


def holds(block: Block, data: bytes) -> bool:
    """Say whether *data* unpacks to the results of *block*, each to the byte."""
    try:
        content = unpack(data, file_digest(data), block.size)
    except ValueError:
        return False
    starts = ((slot.offset, piece) for slot, piece in zip(block.slots.values(), block.pieces, strict=True))
    return all(file_digest(content[at : at + piece.size]) == piece.sha256 for at, piece in starts)


def pack(data: bytes) -> bytes:
    """Return a block of these bytes, as a worker process makes it; ImportError if this Python has no lzma."""
    from ..toolkit.worker import packed  # lazy: few verbs pack in their own process

    return packed(data)


def unpack(data: bytes, sha256: str, size: int) -> bytes:
    """Return a block of so many bytes; ValueError where it is another, or would unpack to more."""
    if (found := file_digest(data)) != sha256:
        raise ValueError(f"its sha256 is {found}, the manifest says {sha256}")
    try:
        import lzma  # which few bundles need, and some interpreters lack
    except ImportError as exc:
        raise ValueError("cannot be unpacked: this Python lacks lzma") from exc
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=min(2 * size, _WINDOW) + (1 << 20))
        block = unpacker.decompress(data, size + 1)
    except lzma.LZMAError as exc:
        raise ValueError(f"cannot be unpacked: {exc}") from exc
    if len(block) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"does not unpack to {size} bytes, as the manifest says")
    return block
