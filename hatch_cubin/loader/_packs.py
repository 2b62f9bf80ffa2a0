# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Read packed bundles, in which a file (a block) contains the compressed code of several modules."""

import os

from . import CubinUnavailableError, _damaged, _file_data, _import, _message, _sha256, _typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import lzma
    from typing import Any

    from . import Entry

_BLOCK = 1 << 21  # the largest block of several entries, in bytes when unpacked
_UNPACKED = 1 << 24  # the size of the cache of unpacked blocks, in bytes
_WINDOW = 1 << 26  # the largest dictionary of an unpacker, in bytes
# Data is a decompression bomb if it unpacks to more bytes than _ROOM, and to _RATIO times its packed size.
_ROOM, _RATIO = 1 << 26, 200

_unpacked: "dict[tuple[str, int], bytes]" = {}  # blocks by digest and size, the most recently used last
_unpackers: "dict[int, Any]" = {}  # a lock per process: a parent's lock may stay locked after a fork


def part_of_block(entry: "Entry", path: str) -> bytes:
    """Return the bytes of a packed entry."""
    start, end = entry._offset, entry._offset + entry.size
    block = _block_of(entry)
    lock = _unpackers.get(os.getpid())
    if lock is None:
        lock = _unpackers.setdefault(os.getpid(), _import("_thread").allocate_lock())
    key = block["sha256"], block["size"]
    with lock:
        data = _unpacked.pop(key, None)
        if data is None:
            room = _UNPACKED - block["size"]
            while _unpacked and sum(map(len, _unpacked.values())) > room:
                _unpacked.pop(next(iter(_unpacked)))
            data = _unpack(path, **block)
        if len(data) <= _UNPACKED:
            _unpacked[key] = data
    return data[start:end]


def _block_of(entry: "Entry") -> "dict[str, Any]":
    """Return the manifest's facts about an entry's block.

    Raise CubinDamagedError if the manifest's facts contradict each other.
    """
    blocks = _typed(entry._manifest.header.get("blocks"), dict)
    if entry.block not in blocks:
        _damaged("manifest.json", f"the block {entry.block!r} of {entry.module!r} is not described")
    block = _typed(blocks[entry.block], dict)
    found = {name: _typed(block.get(name), kind) for name, kind in _OF_BLOCK.items()}
    fits = 0 <= entry._offset <= found["size"] - entry.size and entry.size > 0
    if not fits or found["size"] > max(_BLOCK, entry.size):
        _damaged("manifest.json", f"{entry.module!r} for {entry.arch} has a wrong position in {entry.block}")
    return found


_UNPACK = "run a Python with lzma, or unpack the kernels (hatch-cubin unpack … --into DIR) and call use(DIR)"
_OF_BLOCK = {"packed": int, "sha256": str, "size": int}


def _unpack(path: str, packed: int, sha256: str, size: int) -> bytes:
    """Return an unpacked block of *size* bytes. The digest of the packed data is checked first."""
    data = _file_data(path, packed)
    if (digest := _sha256(data)) != sha256:
        _damaged(path, f"its digest is {digest}, but the manifest says {sha256}")
    if size > max(_ROOM, _RATIO * len(data)):
        _damaged(path, f"its {len(data)} bytes would unpack to {size} bytes, more than code can have")
    try:
        lzma = _import("lzma")
    except ImportError as exc:
        what = _message(f"{path} cannot be unpacked: this Python does not have the module lzma; {_UNPACK}")
        raise CubinUnavailableError(what) from exc
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=min(2 * size, _WINDOW) + (1 << 20))
        found: bytes = unpacker.decompress(data, size + 1)
    except lzma.LZMAError as exc:
        _damaged(path, f"it cannot be unpacked ({exc})", exc)
    if len(found) != size or not unpacker.eof or unpacker.unused_data:
        _damaged(path, f"it does not unpack to {size} bytes, as the manifest says")
    return found


__build__ = "c8f3d0de63390474"
