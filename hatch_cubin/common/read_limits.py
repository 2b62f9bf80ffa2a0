"""Limits for reading files and unpacking archives that an attacker may have written.

The sizes that a wheel, a lock or a folder states are only claims: an attacker also writes fitting digests.
Each limit is several times the largest real file, which its comment names. The loader has its own copy.
"""

from __future__ import annotations

INDEX = 1 << 25  # bytes of an index or another JSON or text file: 70 000 units are described in 19 MB
SOURCE = 1 << 26  # bytes of a source or a header: generated ones have some MB
TABLE = 1 << 22  # bytes of pyproject.toml: a table of 2 000 sources has 0.2 MB
CODE = 1 << 29  # bytes of a compiled file: package indexes accept 0.1 to 1 GB for a whole wheel
PARTS = (
    1 << 21
)  # arrays and objects in JSON: each takes far more memory than its text; 70 000 units have 0.5 M
DIRECTORY = 1 << 25  # bytes in which an archive lists its members: 10 000 take 1 MB
ROOM, RATIO = 1 << 26, 200  # a file that unpacks to more than both is a bomb: code cannot be packed that well

_OF_CODE = (".cubin", ".ptx", ".xz")


def most(name: str) -> int:
    """Return the largest size that a file of a bundle or of a wheel's metadata may have."""
    return CODE if name.endswith(_OF_CODE) else INDEX


def is_crowded(json: bytes) -> bool:
    """Return whether a JSON text would take many times its size in memory. Brackets in strings count."""
    return json.count(b"[") + json.count(b"{") > PARTS


def is_bomb(packed: int, unpacked: int) -> bool:
    """Return whether *packed* bytes unpack to more bytes than real code would."""
    return unpacked > max(ROOM, RATIO * packed)
