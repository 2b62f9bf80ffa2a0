"""Divide the compiled code of a packed bundle into compressed blocks, and unpack a block. Does no I/O.

A block is a single xz stream with the compiled code of several modules for one arch. The loader has its own
code for unpacking (`loader/_packs.py`), because wheels do not contain this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cache.entries import Compiled, Content
from ..common import read_limits
from ..common.digest import digest, file_digest
from ..common.sizes import size
from ..errors import BundleError, Problem, problem

MOST = 1 << 21  # The most bytes of compiled code in a block. Larger code gets its own block.
_WINDOW = 1 << 26  # xz looks for repeated bytes in a window of this size
# The variants of a source stay together, because the first 8 bytes of their sort keys are the same.
_STEM = 8
_LABEL = "hatch-cubin/block/v1"  # The version of the format of blocks, and of the settings for compression.


class Piece(NamedTuple):
    """The compiled code of a module for one arch, which becomes part of a block.

    *name* is the name of the module. *base* is the module's name without the macros of its variant.
    """

    base: str
    name: str
    arch: str
    sha256: str
    size: int


class Slot(NamedTuple):
    """The position of compiled code: the name of its block, and the offset in the unpacked block."""

    block: str
    offset: int


class Block(NamedTuple):
    """A block of a packed bundle; *pieces* are the compiled code in the block, in the order of the block."""

    name: str  # The file name of the block.
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def key(self) -> bytes:
        """The cache key of the packed block, which depends only on the compiled code in the block."""
        return bytes.fromhex(digest([_LABEL, *(piece.sha256 for piece in self.pieces)]))

    @property
    def slots(self) -> dict[tuple[str, str], Slot]:
        """The position of each piece of compiled code in the block, by arch and digest."""
        found, at = {}, 0
        for piece in self.pieces:
            found[piece.arch, piece.sha256] = Slot(self.name, at)
            at += piece.size
        return found


class PackedBlocks(NamedTuple):
    """All blocks of a packed bundle."""

    slots: Mapping[tuple[str, str], Slot]  # The position of each piece of compiled code, by arch and digest.
    manifest_entries: Mapping[str, Mapping[str, int | str]]  # The entry of each block in the manifest.
    files: Mapping[str, Content]
    results: Mapping[bytes, Compiled]  # The packed blocks, by their cache keys.


def assemble_blocks(blocks: Sequence[Block], results: Mapping[bytes, Compiled]) -> PackedBlocks:
    """Return all packed blocks of a bundle.

    *results* contains the bytes of each packed block, by cache key.
    """
    slots: dict[tuple[str, str], Slot] = {}
    manifest_entries: dict[str, Mapping[str, int | str]] = {}
    files: dict[str, Content] = {}
    for block in blocks:
        packed = results[block.key]
        if read_limits.is_bomb(packed.size, block.size):
            raise BundleError(_compresses_too_well(block, packed.size))
        slots |= block.slots
        manifest_entries[block.name] = {"packed": packed.size, "sha256": packed.sha256, "size": block.size}
        files[block.name] = packed.content
    return PackedBlocks(slots, manifest_entries, files, results)


def _compresses_too_well(block: Block, packed: int) -> Problem:
    """Return an error message for a block that compresses so well that loaders reject it as a zip bomb."""
    # The block has one piece: only large code can be compressed so well, and large code has its own block.
    (piece,) = block.pieces
    what = (
        f"the code of {piece.name} for {piece.arch} has {size(block.size)}, but is packed into only "
        f"{size(packed)}, so loaders would refuse the packed code as a zip bomb"
    )
    hint = (
        "remove 'pack'; or, if the code contains large arrays of constants, let a kernel compute the "
        "constants at run time"
    )
    return problem("too-compressible-to-pack", what, hint=hint)


def plan_blocks(pieces: Iterable[Piece]) -> list[Block]:
    """Divide all compiled code into blocks. Identical code of one arch is stored once.

    The names of modules decide which code shares a block, so an edit of one source changes only the blocks
    with modules of this source.
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
        for number, block in enumerate(_split_into_blocks(of_arch))
    ]


def _split_into_blocks(pieces: list[Piece]) -> Iterator[list[Piece]]:
    yield from _halve_by_path([(_path_in_tree(piece), piece) for piece in pieces if piece.size <= MOST], 0)
    yield from ([piece] for piece in sorted(pieces) if piece.size > MOST)


def _halve_by_path(pieces: list[tuple[str, Piece]], depth: int) -> Iterator[list[Piece]]:
    """Split a group of compiled code into halves, and split the halves, until each part fits into a block."""
    if sum(piece.size for _path_in_tree, piece in pieces) > MOST:
        for side in "01":
            yield from _halve_by_path([item for item in pieces if item[0][depth] == side], depth + 1)
    elif pieces:
        yield [piece for _path_in_tree, piece in pieces]


def _path_in_tree(piece: Piece) -> str:
    """Return the path of *piece* in a tree of splits: each binary digit chooses a half at one split.

    The first 64 digits of the path come from a digest of the source's name, so that modules of one source
    stay together; the other digits come from a digest of the module's name.
    """
    path = bytes.fromhex(digest([piece.base]))[:_STEM] + bytes.fromhex(digest([piece.name]))
    return f"{int.from_bytes(path, 'big'):0{8 * len(path)}b}"


def block_holds(block: Block, data: bytes) -> bool:
    """Return whether *data* unpacks to exactly the compiled code of *block*."""
    try:
        content = unpack(data, file_digest(data), block.size)
    except ValueError:
        return False
    starts = ((slot.offset, piece) for slot, piece in zip(block.slots.values(), block.pieces, strict=True))
    return all(file_digest(content[at : at + piece.size]) == piece.sha256 for at, piece in starts)


def pack(data: bytes) -> bytes:
    """Return *data* compressed with xz. Raise ImportError if this Python does not have the module lzma."""
    from ..toolkit.worker import packed  # lazy import: most commands compress in worker processes

    return packed(data)


def unpack(data: bytes, sha256: str, size: int) -> bytes:
    """Return the unpacked bytes of a block.

    Raise ValueError if the digest or the unpacked size differs from the manifest.
    """
    if (found := file_digest(data)) != sha256:
        raise ValueError(f"its sha256 is {found}, but the manifest says {sha256}")
    try:
        import lzma  # lazy import: few bundles are packed, and some Pythons do not have lzma
    except ImportError as exc:
        raise ValueError("cannot be unpacked: this Python does not have the module lzma") from exc
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=min(2 * size, _WINDOW) + (1 << 20))
        block = unpacker.decompress(data, size + 1)
    except lzma.LZMAError as exc:
        raise ValueError(f"cannot be unpacked: {exc}") from exc
    if len(block) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"does not unpack to the {size} bytes that the manifest lists")
    return block
