"""Take what another machine made into a cache folder, and give what is there.

cuda.core is not needed for that: a build may have all its results from elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from .._locks import Lock, try_lock
from .proof import Record, Request, decode, kernels_of, look, place, read, record_key, use


def proven(key: bytes, record: bytes, data: bytes, request: Request) -> Record | None:
    """Return the record if it proves *data* to be what builds store under *key*, and what is requested."""
    found = decode(record)
    if found is None or found.key != key.hex() or not found.is_of(data):
        return None
    return None if found.refusal(request, kernels_of(data), data) else found


def accept(folder: Path, key: bytes, record: bytes, data: bytes) -> None:
    """Store what was proven. Nothing waits for the disk: what a power cut damages is a miss."""
    (folder / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
    with writing(folder):
        write(folder, key, data)
        write(folder, record_key(key), record)
    use_both(folder, key)


def writing(folder: Path) -> Lock:
    """Return what says that temporary files are in use. All who write share it, and nobody waits for it."""
    return try_lock(folder / "tmp", shared=True) or Lock(None)


def write(folder: Path, key: bytes, data: bytes) -> None:
    """Write a file where cuda.core would."""
    path = place(folder, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix="entry-", dir=folder / "tmp")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def use_both(folder: Path, key: bytes) -> None:
    """Count an entry and its record as used, where both are."""
    entry, record = (look(place(folder, each)) for each in (key, record_key(key)))
    if entry is not None and record is not None:
        use(entry, record)


def stored(folder: Path, key: bytes) -> tuple[bytes, bytes] | None:
    """Return the record and the bytes under *key*, as the folder has them; None where nothing is proven."""
    entry, record = (look(place(folder, each)) for each in (key, record_key(key)))
    if entry is None or record is None:
        return None
    data, proof = read(entry), read(record)
    found = decode(proof)
    return (proof, data) if found is not None and found.key == key.hex() and found.is_of(data) else None
