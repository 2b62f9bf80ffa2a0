"""Read and write the entries of the cache, which is a `FileStreamProgramCache` of cuda.core.

cuda.core writes the entries, unless it is not installed. This module reads entries without cuda.core, so a
build with only cache hits does not import cuda.core. An entry contains the raw compiled bytes of one unit,
stored under the unit's key. A cache record, which is a second file in the cache folder, contains the digest
of an entry's bytes and is written after the entry. An entry is a cache miss if the entry's record is missing,
is damaged, or does not match the bytes. If the cache folder cannot be used, the build prints one warning, and
all entries are cache misses. Any number of builds may use, trim and clear a cache folder at the same time: an
entry that one build removes is a cache miss for all other builds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..common import user_folders
from ..common.digest import file_digest
from ..common.file_lock import FileLock, try_lock
from ..project import disk
from . import exchange, housekeeping
from .records import (
    MISSING_ERRNOS,
    NotAFileError,
    RecalledResult,
    Record,
    Request,
    StoredFile,
    entry_path,
    mark_used,
    read_file,
    read_kernel_uses,
    read_record,
    record_key,
    stat_file,
)

if TYPE_CHECKING:
    from typing_extensions import Self  # the module typing has `Self` only since Python 3.11

    from .signing import Distrust, Signing

_ANYTHING = Request()
_TRIES = 3  # the maximum number of attempts to write an entry while another process clears the cache folder
_R = TypeVar("_R")

Content = list[bytes] | str  # the bytes of a file as a list of chunks, or the path of a file with these bytes


@dataclass(frozen=True)
class Compiled:
    """The result of a compile: the bytes, the kernels' symbols by name, and the compiler's warnings."""

    data: bytes
    kernels: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    recalled = False  # whether the facts about this result come from notes of an earlier build

    @property
    def content(self) -> Content:
        """The compiled result: its bytes as a list of chunks, or the path of a file with these bytes."""
        return [self.data]

    @cached_property
    def size(self) -> int:
        return len(self.data)

    @cached_property
    def sha256(self) -> str:
        return file_digest(self.data)

    @cached_property
    def kernel_uses_json(self) -> str:
        """The resources of each kernel (registers, shared memory and so on) as JSON."""
        return json.dumps(read_kernel_uses(self.data))


class CacheEntry(NamedTuple):
    """The contents of the two files of a cache entry: the compiled bytes, and their cache record."""

    key: bytes
    data: bytes
    record: bytes


class _LinkedResult(Compiled):
    """A compiled result whose bytes stay in a file, to save memory.

    *proof* (the cache record or recalled result of the file) contains the kernels, the warnings and the
    digest of the file.
    """

    def __init__(self, file: str, proof: Record | RecalledResult, described: str) -> None:
        self._file, self._proof, self._described = file, proof, described
        self.recalled = isinstance(proof, RecalledResult)

    @property
    def data(self) -> bytes:
        return Path(self._file).read_bytes()

    @property
    def content(self) -> str:
        return self._file

    @property
    def kernels(self) -> Mapping[str, str]:
        return self._proof.kernels

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._proof.warnings)

    @property
    def size(self) -> int:
        return self._proof.size

    @property
    def sha256(self) -> str:
        return self._proof.sha256

    @property
    def kernel_uses_json(self) -> str:
        return self._proof.kernel_uses_json if isinstance(self._proof, RecalledResult) else self._described


class Cache:
    """The cache folder that one build uses.

    With a *link_folder*, `get` makes a hard link in this folder to the file of each cached result. The hard
    links stay readable until the build ends, even if another build removes the cache entries, so `get` does
    not copy the files or keep their bytes in memory. *signing* signs the cache records that this build
    stores, and decides which records in the cache are trusted.
    """

    def __init__(
        self,
        folder: Path,
        max_size: int | None,
        warn: Callable[[str], object],
        link_folder: Path | None = None,
        signing: Signing | None = None,
    ) -> None:
        self.folder = folder
        # By key: cache entries that exist, but whose signature is missing or is not from a trusted key.
        self.distrusted: dict[bytes, Distrust] = {}
        self.signing = signing
        # keys of results that this build stores, but that the next build will not trust
        self._distrusted_keys: set[bytes] = set()
        self._link_folder = link_folder
        self._links = 0
        self.damaged = 0
        self._max_size = max_size
        self._warn = warn
        self._warned = False
        self._warning = threading.Lock()
        self._claimed: dict[bytes, str] = {}
        self._locks: dict[str, FileLock] = {}
        self._refused: set[bytes] = set()
        self._file_cache: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for key in [*self._claimed]:
            self.release(key)
        self.attempt(lambda: housekeeping.trim(self.folder, size=self._max_size), None)

    def get(
        self, key: bytes, known: RecalledResult | None = None, request: Request = _ANYTHING
    ) -> Compiled | None:
        """Return the cached result of *key*; None on a cache miss.

        If an earlier build recorded facts about the result (*known*), the cached result must match these
        facts. If *known* is None, the cached result must match its cache record and the *request*.
        """
        return self.attempt(lambda: self._get(key, known, request), None)

    def put(self, key: bytes, compiled: Compiled, inputs: Mapping[str, Any]) -> None:
        """Store a compiled result and its cache record under *key*."""
        self.store(self.make_entry(key, compiled, inputs))

    def make_entry(self, key: bytes, compiled: Compiled, inputs: Mapping[str, Any]) -> CacheEntry:
        """Return the contents of the two cache files of a compiled result.

        The cache record is signed if this build has a signing key.
        """
        record = Record(
            key.hex(),
            compiled.sha256,
            compiled.size,
            compiled.kernels,
            compiled.warnings,
            inputs,
        )
        encoded = record.encode()
        signed = encoded if self.signing is None else self.signing.signed(encoded)
        if self.signing is not None and self.signing.distrust(signed) is not None:
            self._distrusted_keys.add(key)
        return CacheEntry(key, compiled.data, signed)

    def store(self, entry: CacheEntry) -> None:
        """Store the bytes of a cache entry, and then the entry's record."""
        self.attempt(lambda: self._store(*entry), None)
        self.mark_stored(entry.key)

    def mark_stored(self, key: bytes) -> None:
        """After a new result was stored under *key*, stop treating the entry as damaged."""
        self._refused.discard(key)

    def forget(self, key: bytes) -> None:
        """Remove the files of the cache entry *key*: the cache record first, and then the compiled bytes."""

        def remove() -> None:
            for each in (record_key(key), key):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry_path(self.folder, each))

        self.attempt(remove, None)

    def attempt(self, action: Callable[[], _R], otherwise: _R) -> _R:
        """Return the result of *action*.

        If *action* fails, print a warning and return the value *otherwise*.
        """
        try:
            return action()
        except (OSError, ValueError) as exc:
            self._report_fault(exc)
            return otherwise

    @contextlib.contextmanager
    def open_importer(self) -> Iterator[Callable[[bytes, bytes, bytes], bool]]:
        """Yield the function `accept(key, record, data)`, which stores a result of another machine.

        Callers must check the cache record before they call `accept`, because `accept` does not check it.
        `accept` returns whether the result was stored.
        """
        with contextlib.closing(exchange.ResultImporter(self.folder)) as importer:

            def accept(key: bytes, record: bytes, data: bytes) -> bool:
                self._refused.discard(key)
                return self.attempt(lambda: importer.store(key, record, data), otherwise=False)

            yield accept

    def import_result(self, key: bytes, record: bytes, data: bytes) -> None:
        """Store a compiled result that another machine has made."""
        with self.open_importer() as accept:
            accept(key, record, data)

    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return a dict that maps each cache key to the compile inputs in the key's cache record."""

        def read_inputs() -> dict[str, Mapping[str, Any]]:
            return {record.key: record.inputs for record in housekeeping.records(self.folder)}

        return self.attempt(read_inputs, {})

    def record_stamp(self, key: bytes) -> str:
        """Return a text that changes each time the cache record of *key* is written.

        If the cache record is not trusted, return an empty text.
        """
        return (
            ""
            if key in self._distrusted_keys
            else disk.size_and_time(entry_path(self.folder, record_key(key)))
        )

    def claim(self, key: bytes) -> bool:
        """Lock a unit for compiling after a cache miss; return False if another build is compiling the unit.

        `claim` locks the folder of the unit's cache entry, and so also locks all units whose entries are in
        the same folder.
        """
        # Without a usable cache folder, other builds cannot get this build's result, and so must not wait for
        # it.
        if self._warned:
            return True
        folder = os.path.dirname(entry_path(self.folder, key))
        if folder not in self._locks:
            lock = try_lock(folder)
            # The folder of the entry does not exist yet, which is rare.
            if lock is not None and not lock.real:
                with contextlib.suppress(OSError):
                    os.makedirs(folder, exist_ok=True)
                lock = try_lock(folder)
            if lock is None:
                return False
            self._locks[folder] = lock
        self._claimed[key] = folder
        return True

    def release(self, key: bytes) -> None:
        """Unlock a unit that `claim` has locked, so that other builds may compile this unit."""
        folder = self._claimed.pop(key, None)
        if folder is not None and folder not in self._claimed.values():
            self._locks.pop(folder).close()

    def _get(self, key: bytes, known: RecalledResult | None, request: Request) -> Compiled | None:
        path = entry_path(self.folder, key)
        try:
            link = self._link_entry(path)
            entry = link or stat_file(path)
            record = stat_file(entry_path(self.folder, record_key(key))) if entry else None
            # Another process has trimmed the entry, or is still writing it.
            if entry is None or record is None:
                return None
            new = known is None or known.record != disk.size_and_time_from_status(record.status)
            proof = self._read_record(key, record) if new else known
            found = None if proof is None else _checked_result(entry, proof, link, request)
        except FileNotFoundError:  # another process has just trimmed the entry
            return None
        except NotAFileError:
            self.damaged += 1
            return None
        if key in self.distrusted:
            return None
        # A compile always gives the same bytes, so bytes that differ from the known digest are damaged.
        if known is not None and (found.sha256 != known.sha256 if found else not new):
            self._refused.add(key)
        if found is None or key in self._refused:
            self.damaged += 1
            return None
        mark_used(entry, record)
        return found

    def _read_record(self, key: bytes, file: StoredFile) -> Record | None:
        """Return the cache record of *key* in *file*; None if the record is damaged or not trusted."""
        data, record = read_record(file)
        if record is None or record.key != key.hex():
            return None
        self.distrusted.pop(key, None)
        if self.signing is not None and (doubt := self.signing.distrust(data)) is not None:
            self.distrusted[key] = doubt
            return None
        return record

    def _link_entry(self, path: str) -> StoredFile | None:
        """Make a hard link to a cache entry in the folder for links, and return the link's path.

        The result is None if the hard link cannot be made.
        """
        if self._link_folder is None:
            return None
        link = f"{self._link_folder}{os.sep}{self._links}.link"
        try:
            # follow_symlinks is explicit, because Python 3.14 follows symbolic links by default
            os.link(path, link, follow_symlinks=False)
        except OSError as exc:
            # Hard links fail on another disk, for another user's files, and above a maximum count. After the
            # first failure of a hard link, the build does not try further links.
            if exc.errno not in MISSING_ERRNOS and not os.path.isdir(path):
                self._link_folder = None
            return None
        self._links += 1
        status = os.lstat(link)
        mode = status.st_mode
        # The entry is a symbolic link, or an executable file, which would be executable in the wheel too.
        if not stat.S_ISREG(mode) or mode & 0o111:
            os.unlink(link)
            return None
        return StoredFile(link, status)

    def _store(self, key: bytes, data: bytes, record: bytes) -> None:
        for _ in range(_TRIES - 1):
            try:
                return self._write(key, data, record)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                self._clear_paths(key)
            except FileNotFoundError:
                continue
        return self._write(key, data, record)

    def _write(self, key: bytes, data: bytes, record: bytes) -> None:
        """Write an entry first and then its record, so that a record without an entry is rare.

        cuda.core writes the entry, and returns only when the entry is on the disk. The build does not wait
        until the cache record is on the disk: if a power cut leaves the record incomplete, the entry is a
        cache miss. Without cuda.core, the build does not wait for the entry either.
        """
        # The cache of cuda.core is opened late, because opening it fails in a read-only folder.
        if self._file_cache is None:
            try:
                from cuda.core.utils import FileStreamProgramCache
            except ImportError:
                # A build that compiles nothing does not need cuda.core, but may store packed blocks.
                exchange.import_result(self.folder, key, record, data)
                return
            self._file_cache = FileStreamProgramCache(self.folder)
        with exchange.lock_temporary_files(self.folder):
            self._file_cache[key] = data
            exchange.write_file(self.folder, record_key(key), record)
        exchange.mark_entry_used(self.folder, key)

    def _clear_paths(self, key: bytes) -> None:
        """Remove everything that blocks the paths of an entry, such as a file at the path of a folder."""
        paths = [entry_path(self.folder, each) for each in (key, record_key(key))]
        for part in ("tmp", "entries"):
            user_folders.clear_path(f"{self.folder}{os.sep}{part}")
        for path in paths:
            user_folders.clear_path(os.path.dirname(path))
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)

    def _report_fault(self, exc: Exception) -> None:
        reason = getattr(exc, "strerror", None) or exc
        for path in (self.folder, *self.folder.parents):
            if os.path.isfile(path):
                reason = f"{path} is a file, not a folder: set HATCH_CUBIN_CACHE_DIR to another folder"
        self.warn(f"the cache at {self.folder} cannot be used fully: {reason}")

    def warn(self, fault: str) -> None:
        """Print a warning about the cache folder, unless this build has already printed such a warning."""
        with self._warning:  # the lock is needed because several threads may store results at the same time
            if not self._warned:
                self._warned = True
                self._warn(fault)


def _checked_result(
    entry: StoredFile, proof: Record | RecalledResult, link: StoredFile | None, request: Request
) -> Compiled | None:
    """Return the result in a cache entry if its bytes match *proof* and *request*; None if not."""
    if entry.status.st_size != proof.size or not proof.is_of(data := read_file(entry)):
        return None
    described = ""
    if isinstance(proof, Record):
        described = json.dumps(kernels := read_kernel_uses(data))
        if proof.mismatch(request, kernels, data):
            return None
    if link is not None:
        return _LinkedResult(link.path, proof, described)
    found = Compiled(data, proof.kernels, tuple(proof.warnings))
    vars(found).update(sha256=proof.sha256, size=proof.size, kernel_uses_json=described)
    if isinstance(proof, RecalledResult):
        vars(found).update(kernel_uses_json=proof.kernel_uses_json, recalled=True)
    return found
