"""Store results in a cache folder without cuda.core, and read results that will be sent to other machines.

A build that gets all results from other machines, or only packs cached results, does not need cuda.core.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from pathlib import Path

from ..common.file_lock import FileLock, try_lock
from .records import (
    USE_STEP_NS,
    Record,
    Request,
    decode,
    entry_path,
    mark_used,
    read_file,
    read_kernel_uses,
    record_key,
    stat_file,
)

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def checked_record(key: bytes, record: bytes, data: bytes, request: Request) -> Record | None:
    """Return the decoded cache record.

    Return None if the record does not belong to *key*, does not match *data* or does not meet *request*.
    """
    found = decode(record)
    if found is None or found.key != key.hex() or not found.is_of(data):
        return None
    return None if found.mismatch(request, read_kernel_uses(data), data) else found


class ResultImporter:
    """Quickly stores thousands of checked results of other machines in a cache folder.

    The importer does not wait until files are on the disk, because an entry that a power cut damages is only
    a cache miss.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = os.path.join(folder, "tmp", f"entry-{os.getpid()}-{os.urandom(8).hex()}-")
        self._count = itertools.count()
        self._lock: FileLock | None = None

    def store(self, key: bytes, record: bytes, data: bytes) -> bool:
        """Store the bytes of a result and then its cache record, and set the access times.

        The method never returns False: if the result cannot be stored, the method raises an error, which
        `accept` in `Cache.open_importer` catches.
        """
        if self._lock is None:
            self._lock_temporary_files()
        now = time.time_ns()
        self._write(entry_path(self._folder, key), data, now)
        self._write(entry_path(self._folder, record_key(key)), record, now - USE_STEP_NS)
        return True

    def _lock_temporary_files(self) -> None:
        self.close()
        (self._folder / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock_temporary_files(self._folder)

    def _write(self, path: str, data: bytes, used: int) -> None:
        temporary = f"{self._temporary}{next(self._count)}"
        try:
            descriptor = os.open(temporary, _NEW, 0o600)
        except FileNotFoundError:  # another process has removed the folder
            self._lock_temporary_files()
            descriptor = os.open(temporary, _NEW, 0o600)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                while data:  # one call of os.write writes at most 2 GiB
                    data = data[file.write(data) :]
                os.utime(descriptor if os.utime in os.supports_fd else temporary, ns=(used, time.time_ns()))
            try:
                os.replace(temporary, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def close(self) -> None:
        """Release the lock on temporary files, so that other processes may remove unused temporary files."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def import_result(folder: Path, key: bytes, record: bytes, data: bytes) -> None:
    """Store a checked result in the cache *folder*."""
    with contextlib.closing(ResultImporter(folder)) as importer:
        importer.store(key, record, data)


def lock_temporary_files(folder: Path) -> FileLock:
    """Lock the folder of temporary files without waiting for other processes.

    All writers share this lock, so that no other process removes the temporary files of the writers.
    """
    return try_lock(folder / "tmp", shared=True) or FileLock(None)


def write_file(folder: Path, key: bytes, data: bytes) -> None:
    """Write *data* to the path at which cuda.core stores the entry *key*."""
    path = entry_path(folder, key)
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


def mark_entry_used(folder: Path, key: bytes) -> None:
    """Set the access times of the entry *key* and its record to the current time, if both files exist."""
    entry, record = (stat_file(entry_path(folder, each)) for each in (key, record_key(key)))
    if entry is not None and record is not None:
        mark_used(entry, record)


def read_entry(folder: Path, key: bytes) -> tuple[bytes, bytes] | None:
    """Return the cache record and the bytes of *key*; None if one is missing or the digests do not match."""
    entry, record = (stat_file(entry_path(folder, each)) for each in (key, record_key(key)))
    if entry is None or record is None:
        return None
    data, proof = read_file(entry), read_file(record)
    found = decode(proof)
    return (proof, data) if found is not None and found.key == key.hex() and found.is_of(data) else None
