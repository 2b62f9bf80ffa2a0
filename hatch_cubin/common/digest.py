"""Compute SHA-256 digests of files and of lists of texts or bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import BinaryIO


def digest(parts: Iterable[str | bytes]) -> str:
    """Return one SHA-256 digest of a list of *parts*.

    Each part is prefixed with its length, so that different lists of parts have different digests.
    """
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def file_digest(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def pieces_digest(pieces: Iterable[bytes]) -> str:
    """Return the plain SHA-256 of a file that is given as several *pieces* of bytes."""
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


def stream_digest(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, without reading all of it into memory."""
    hasher = hashlib.sha256()
    while chunk := file.read(1 << 20):
        hasher.update(chunk)
    return hasher.hexdigest()
