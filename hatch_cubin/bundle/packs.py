"""Packed bundles: which results share a block, where each is in its block, and how to unpack a block. No I/O.

A block contains results of one arch, one after another, as a single xz stream. The loader has its own code
for unpacking, because `loader/_packs.py` must work without the rest of hatch-cubin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cache.entries import Compiled, Content
from ..common import read_limits
from ..common.digest import digest, file_digest
from ..common.sizes import size
from ..errors import BundleError, Problem, problem

MOST = 1 << 21  # bytes of results that share a block; a larger result gets its own block
_WINDOW = 1 << 26  # most bytes that an unpacker has to look back
_STEM = 8  # bytes of the digest of a source's name; they keep its variants together
_LABEL = "hatch-cubin/block/v1"  # version of the format, and of how the worker packs


class Piece(NamedTuple):
    """A result to be put into a block: it belongs to the module *name*, a variant of *base*."""

    base: str
    name: str
    arch: str
    sha256: str
    size: int


class Slot(NamedTuple):
    """The location of a result."""

    block: str
    offset: int


class Block(NamedTuple):
    """The results that share a block, in order."""

    name: str  # of the block's file
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def key(self) -> bytes:
        """The cache key of the packed block. It depends only on the results in the block."""
        return bytes.fromhex(digest([_LABEL, *(piece.sha256 for piece in self.pieces)]))

    @property
    def slots(self) -> dict[tuple[str, str], Slot]:
        """The location of each result, by its arch and digest."""
        found, at = {}, 0
        for piece in self.pieces:
            found[piece.arch, piece.sha256] = Slot(self.name, at)
            at += piece.size
        return found


class Packed(NamedTuple):
    """The blocks of a bundle."""

    slots: Mapping[tuple[str, str], Slot]  # location of each result, by its arch and digest
    described: Mapping[str, Mapping[str, int | str]]  # each block's entry in the manifest
    files: Mapping[str, Content]
    results: Mapping[bytes, Compiled]  # the packed blocks, by their keys


def assembled(blocks: Sequence[Block], results: Mapping[bytes, Compiled]) -> Packed:
    """Return the blocks of a bundle. The packed bytes of each are the result under its key."""
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
    """Return the problem of a block that compresses so well that every reader would reject it as a bomb."""
    (piece,) = block.pieces  # only a block with a single piece can be as large
    what = f"{piece.name} for {piece.arch} has {size(block.size)} that are packed in {size(packed)}"
    hint = "no loader unpacks that: leave out 'pack', or let a kernel write what is the same everywhere"
    return problem("too-compressible-to-pack", what, hint=hint)


def cut(pieces: Iterable[Piece]) -> list[Block]:
    """Return the blocks for all results. Identical results of one arch are stored once.

    Only names decide which results share a block, so that an edit leaves all other blocks unchanged.
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
    """Yield small enough groups of the pieces. Pieces whose paths have the same beginning stay together."""
    if sum(piece.size for _path, piece in pieces) > MOST:
        for side in "01":
            yield from _halved([item for item in pieces if item[0][depth] == side], depth + 1)
    elif pieces:
        yield [piece for _path, piece in pieces]


def _path(piece: Piece) -> str:
    """Return a path through repeated halving.

    It depends only on names: first the source's, then the piece's.
    """
    path = bytes.fromhex(digest([piece.base]))[:_STEM] + bytes.fromhex(digest([piece.name]))
    return f"{int.from_bytes(path, 'big'):0{8 * len(path)}b}"


def holds(block: Block, data: bytes) -> bool:
    """Return whether *data* unpacks to exactly the results of *block*."""
    try:
        content = unpack(data, file_digest(data), block.size)
    except ValueError:
        return False
    starts = ((slot.offset, piece) for slot, piece in zip(block.slots.values(), block.pieces, strict=True))
    return all(file_digest(content[at : at + piece.size]) == piece.sha256 for at, piece in starts)


def pack(data: bytes) -> bytes:
    """Return these bytes packed by the worker's code. ImportError if this Python has no lzma."""
    from ..toolkit.worker import packed  # lazy: few commands pack in their own process

    return packed(data)


def unpack(data: bytes, sha256: str, size: int) -> bytes:
    """Return the unpacked bytes.

    ValueError if the digest or the size differs, or if it would unpack to more.
    """
    if (found := file_digest(data)) != sha256:
        raise ValueError(f"its sha256 is {found}, the manifest says {sha256}")
    try:
        import lzma  # lazy: few bundles need it, and some interpreters do not have it
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
