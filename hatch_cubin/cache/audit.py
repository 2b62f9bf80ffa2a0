"""Read all files in a cache folder, and report each file whose content was not written by a build."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..common import file_access, read_limits
from ..common.file_lock import wait_for_lock
from .housekeeping import LOCK_WAIT_S, RECORD_HEAD, is_record, open_unnoticed
from .records import MAX_RECORD_SIZE, Record, Request, decode, entry_path, read_kernel_uses, record_key

_R = TypeVar("_R")

_FOLDER_NAME = re.compile("tmp|entries(/[0-9a-f]{2})?")
_STORED_NAME = re.compile("entries/[0-9a-f]{2}/[0-9a-f]{62}")
# files that earlier versions of cuda.core wrote
_TOLERATED = re.compile("tmp/entry-[a-z0-9_]{8}|SCHEMA_VERSION")
_FOREIGN_KINDS = {
    stat.S_IFREG: "is a file that no build writes",
    stat.S_IFDIR: "is a folder that no build makes",
}


class Finding(NamedTuple):
    """A damaged, orphaned or foreign file in a cache folder; a foreign file is one that no build writes."""

    kind: str
    file: str  # the path of the file, relative to the cache folder
    what: str


class Audit(NamedTuple):
    """The result of an audit: the number and size of the entries that match their records, and problems."""

    entries: int
    bytes: int
    found: list[Finding]


# a function that gets a record, the bytes of the record, and the bytes of its entry
OnProven = Callable[[Record, bytes, bytes], object]


def audit(folder: Path, on_proven: OnProven = lambda *_proven: None) -> Audit:
    """Read all files in the cache folder, and call *on_proven* for each entry that matches its record.

    The audit does not report a problem with a file that a build was writing during the audit.
    """
    first = _FolderAudit(folder, on_proven).audit()
    if not first.found:
        return first
    # The lock on temporary files is free when all current writes are complete.
    with wait_for_lock(folder / "tmp", LOCK_WAIT_S):
        again = _FolderAudit(folder, lambda *_proven: None).audit()
    return again._replace(found=[each for each in again.found if each in first.found])


class _FolderAudit:
    """A single pass over all files in a cache folder."""

    def __init__(self, folder: Path, on_proven: OnProven) -> None:
        self._folder = folder
        self._on_proven = on_proven
        self._found: list[Finding] = []
        self._sizes: dict[str, int] = {}  # the sizes of entries and records, by path

    def audit(self) -> Audit:
        """Match each cache entry with its record, and return all problems with entries and records."""
        self._sizes.update(self._walk(str(self._folder)))
        entries, records = self._sort()
        whole = [path for pair in self._pairs(entries, records) for path in pair]
        for path in sorted(entries):
            self._report("orphaned", path, "has no record")
        return Audit(len(whole) // 2, sum(map(self._sizes.__getitem__, whole)), sorted(self._found))

    def _report(self, kind: str, path: str, what: str) -> None:
        name = os.path.relpath(path, self._folder).replace(os.sep, "/")
        self._found.append(Finding(kind, name, what))

    def _walk(self, folder: str, below: str = "") -> Iterator[tuple[str, int]]:
        """Yield the path and size of each file with the name of an entry or record. No file is opened."""
        for name in self._try_to_read(folder, os.listdir) or ():
            path, known = f"{folder}{os.sep}{name}", f"{below}{name}"
            status = self._try_to_read(path, file_access.status_of)
            mode = 0 if status is None else status.st_mode
            if stat.S_ISDIR(mode) and _FOLDER_NAME.fullmatch(known):
                yield from self._walk(path, f"{known}/")
            elif status is not None and stat.S_ISREG(mode) and _STORED_NAME.fullmatch(known):
                yield path, status.st_size
            elif mode and not (stat.S_ISREG(mode) and _TOLERATED.fullmatch(known)):
                self._report("foreign", path, _FOREIGN_KINDS.get(stat.S_IFMT(mode), file_access.kind(mode)))

    def _sort(self) -> tuple[set[str], dict[str, tuple[Record, bytes]]]:
        """Return the paths of all cache entries, and the bytes of all cache records by path.

        The file names of cache entries and cache records look the same. Cache entries and cache records
        differ in the first bytes of the file.
        """
        entries, records = set[str](), dict[str, tuple[Record, bytes]]()
        for path in self._sizes:
            data = self._try_to_read(path, _record_bytes)
            if data == b"":
                entries.add(path)
            elif data is not None and (record := decode(data)) is not None:
                records[path] = (record, data)
            elif data is not None:
                self._report(
                    "damaged",
                    path,
                    "is a record that is damaged, or was written by another version of hatch-cubin",
                )
        return entries, records

    def _pairs(
        self, entries: set[str], records: dict[str, tuple[Record, bytes]]
    ) -> Iterator[tuple[str, str]]:
        """Yield the paths of each cache entry and its matching record; remove the entry from *entries*."""
        for path, (record, written) in records.items():
            key = bytes.fromhex(record.key)
            entry = entry_path(self._folder, key)
            if path != entry_path(self._folder, record_key(key)):
                self._report("damaged", path, "is the record of a different entry than its file name says")
            elif entry not in self._sizes:
                self._report("orphaned", path, "is a record whose entry is missing")
            elif entry in entries:
                entries.remove(entry)
                data = self._try_to_read(entry, _bytes) if self._sizes[entry] == record.size else b""
                if data is not None and not record.is_of(data):
                    self._report("damaged", entry, "does not match its record")
                elif data is not None and (
                    mismatch := record.mismatch(_request(record), read_kernel_uses(data), data)
                ):
                    self._report("damaged", path, f"does not match its entry: the entry {mismatch}")
                elif data is not None:
                    self._on_proven(record, written, data)
                    yield entry, path

    def _try_to_read(self, path: str, read: Callable[[str], _R]) -> _R | None:
        """Return the result of `read(path)`; None if the file does not exist or cannot be read.

        A file that cannot be read is added to the audit's problems.
        """
        try:
            return read(path)
        except FileNotFoundError:  # another process has already removed the file
            return None
        except OSError as exc:
            self._report("damaged", path, f"cannot be read: {exc.strerror}")
            return None


def _request(record: Record) -> Request:
    """Read from a cache record which arch and which instantiations the compiled result must contain."""
    arch, names = record.inputs.get("arch"), record.inputs.get("instantiate")
    return Request(arch if isinstance(arch, str) else None, names if isinstance(names, list) else None)


def _bytes(path: str) -> bytes:
    with open_unnoticed(path) as file:
        return file.read(file_access.refuse_larger(file.fileno(), read_limits.CODE))


def _record_bytes(path: str) -> bytes:
    """Return the bytes of a file that begins like a cache record; empty bytes for any other file."""
    with open_unnoticed(path) as file:
        head = file.read(RECORD_HEAD)
        return head + file.read(MAX_RECORD_SIZE) if is_record(head) else b""
