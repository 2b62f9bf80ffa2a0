"""Take what another machine made into a cache folder, and give what is there.

cuda.core is not needed for that: a build may have all its results from elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path

from .._locks import Lock, try_lock
from .proof import Record, decode, look, place, read, record_key, resources_of, use


def proven(key: bytes, record: bytes, data: bytes, asked: Collection[str]) -> Record | None:
    """Return the record if it proves *data* to be what builds store under *key*, with names *asked* for."""
    found = decode(record)
    if found is None or found.key != key.hex() or not found.is_of(data):
        return None
    return found if found.names(resources_of(data), data, asked) else None


def accept(folder: Path, key: bytes, record: bytes, data: bytes) -> None:
    """Store what was proven. Nothing waits for the disk: what a power cut damages is a miss."""
    (folder / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [place(folder, each) for each in (key, record_key(key))]
    with try_lock(folder / "tmp", shared=True) or Lock(None):  # temporary files are in use
        for path, content in zip(paths, (data, record), strict=True):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write(folder, path, content)
    entry, proof = map(look, paths)
    if entry is not None and proof is not None:
        use(entry, proof)


def _write(folder: Path, path: str, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix="entry-", dir=folder / "tmp")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def stored(folder: Path, key: bytes) -> tuple[bytes, bytes] | None:
    """Return the record and the bytes under *key*, as the folder has them; None where nothing is proven."""
    entry, record = (look(place(folder, each)) for each in (key, record_key(key)))
    if entry is None or record is None:
        return None
    data, proof = read(entry), read(record)
    found = decode(proof)
    return (proof, data) if found is not None and found.key == key.hex() and found.is_of(data) else None
