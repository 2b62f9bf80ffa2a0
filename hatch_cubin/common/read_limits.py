"""Limits for reading files and unpacking archives that an attacker may have written.

The sizes and digests in a wheel or a lock file prove nothing, because an attacker can write them. Each limit
is several times the size of the largest real file; a comment gives this file's size. The loader has its own
copy of the limits in this module, because it cannot import other modules of hatch-cubin.
"""

from __future__ import annotations

INDEX = (
    1 << 25
)  # bytes of an index or another JSON or text file: the index of 70 000 compiled files has 19 MB
SOURCE = 1 << 26  # bytes of a source or a header: generated sources have a few MB
TABLE = 1 << 22  # bytes of pyproject.toml: a file that configures 2 000 sources has 0.2 MB
CODE = 1 << 29  # bytes of a compiled file: package indexes accept 0.1 to 1 GB for a whole wheel.
# The largest number of arrays and objects in a JSON text, because each of them takes far more memory than its
# text. The index of 70 000 compiled files has 0.5 million arrays and objects.
PARTS = 1 << 21
DIRECTORY = 1 << 25  # bytes of an archive's list of members: a list of 10 000 members has 1 MB.
# A file that unpacks to more than ROOM bytes, and to more than RATIO times its size, is a decompression bomb.
ROOM, RATIO = 1 << 26, 200

_OF_CODE = (".cubin", ".ptx", ".xz")


def most(name: str) -> int:
    """Return the maximum size, in bytes, of a file in a wheel's folder _cubins or in a wheel's metadata."""
    return CODE if name.endswith(_OF_CODE) else INDEX


def is_crowded(json: bytes) -> bool:
    """Return whether a JSON text has too many arrays and objects, so that parsing would fill the memory."""
    return json.count(b"[") + json.count(b"{") > PARTS


def is_bomb(packed: int, unpacked: int) -> bool:
    """Return whether a file that grows from *packed* to *unpacked* bytes is a decompression bomb."""
    return unpacked > max(ROOM, RATIO * packed)
