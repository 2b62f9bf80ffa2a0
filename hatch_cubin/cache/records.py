"""Cache records: files that contain the digest and the description of each cache entry."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common import read_limits, user_folders
from ..common.digest import file_digest

if TYPE_CHECKING:
    from ..cubin.elf import KernelUse

_OBJECT = "object"  # The name of an input that only object files (units that will be linked) have.
# The name of the only input of a packed block (units that are compressed together): the units' digests.
BLOCK = "block"
_OTHER_NAMES = "does not have exactly the kernels that were requested"
_FORMAT = 2  # Since format 2, a record contains readable names of the kernels that a source instantiates.
# The maximum size of a cache record in bytes; the largest known record has a twelfth of this size.
MAX_RECORD_SIZE = 1 << 23
_SIZES = range(read_limits.CODE + 1)
_HEX = re.compile("(?:[0-9a-f]{2})+")
_DIGEST = re.compile("[0-9a-f]{64}")
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | user_folders.NONBLOCKING
MISSING_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
# A difference between access times, in nanoseconds. Two access times with this difference stay different if
# they are converted to seconds as floats.
USE_STEP_NS = 1000


class Request(NamedTuple):
    """The requirements that a unit's compiled result must meet, and that are known before the compile."""

    arch: str | None = None
    names: Collection[str] | None = None  # template instantiations that the compiled result must contain.
    # A function that returns the symbols of those kernels that every compiled result of the source must
    # contain.
    declared: Callable[[], Collection[str]] = tuple

    def mismatch(
        self, kernels: Mapping[str, str], symbols: Collection[str], data: bytes, *, is_object: bool = False
    ) -> str | None:
        """Return why *data* with these *kernels* does not meet the request; None if it does.

        *symbols* are the symbols of all kernels in *data*; the list is empty for PTX. *is_object* is whether
        a linker will link *data*. An object file need not contain kernels, and the names of kernels in LTO-IR
        cannot be read.
        """
        # lazy import: a build that recalls all results from an earlier build does not need these modules
        from ..cubin.kernel_names import (
            names_fit_symbols,
            without_blanks,
        )
        from ..cubin.target import differing_arch

        named = {*kernels.values()}
        end = b"\0" if symbols else b""  # in a cubin, a zero byte is before and after each kernel name
        try:
            real = None if self.arch is None else differing_arch(data, self.arch)
        except ValueError as exc:
            return str(exc)
        if real is not None:
            return f"is for {real}, not for {self.arch}"
        if is_object:
            same = self.names is None or {*map(without_blanks, self.names)} == {*map(without_blanks, kernels)}
            return None if same else _OTHER_NAMES
        if not named.issuperset(symbols) or any(end + name.encode() + end not in data for name in named):
            return "does not contain exactly the kernels that are listed for it"
        if self.names is not None and not names_fit_symbols(kernels, symbols or named, self.names):
            return _OTHER_NAMES
        missing = [symbol for symbol in self.declared() if symbol not in named]
        return (
            f"is missing kernels that its source defines: {', '.join(sorted(missing))}" if missing else None
        )


class Record(NamedTuple):
    """The description of a cache entry: digest and size, kernels, and the inputs of the entry's compile."""

    key: str
    sha256: str
    size: int
    kernels: Mapping[str, str]
    warnings: Sequence[str]
    inputs: Mapping[str, Any] = {}
    format: int = _FORMAT

    def encode(self) -> bytes:
        text = json.dumps(self._asdict(), sort_keys=True, separators=(",", ":"))
        return f"{file_digest(text.encode())}\n{text}\n".encode()

    @property
    def is_object(self) -> bool:
        """Whether the cache entry is an object file, which will be linked and may have no kernels."""
        return _OBJECT in self.inputs

    def is_of(self, data: bytes) -> bool:
        """Return whether *data* has the size and the digest that are stored in this cache record."""
        return (self.size, self.sha256) == (len(data), file_digest(data))

    def mismatch(self, request: Request, symbols: Collection[str], data: bytes) -> str | None:
        """Return why *data* does not meet the request, or does not match the record; None if *data* is right.

        *symbols* are the symbols of all kernels in *data*.
        """
        return request.mismatch(self.kernels, symbols, data, is_object=self.is_object)


class RecalledResult(NamedTuple):
    """The facts about a compiled result that an earlier build has recorded: size, digest and kernels."""

    sha256: str
    size: int
    record: str  # the size and modification time of the cache record's file when a build read the file
    description: str  # JSON text, which is not decoded because most builds only copy the text into new notes

    @property
    def kernels(self) -> Mapping[str, str]:
        return _described(self.description)[0]

    @property
    def warnings(self) -> Sequence[str]:
        return _described(self.description)[1]

    @property
    def kernel_uses_json(self) -> str:
        """The resources of each kernel (registers, shared memory and so on), as JSON."""
        return _described(self.description)[2]

    def is_of(self, data: bytes) -> bool:
        """Return whether *data* has the size and the digest that an earlier build has recorded."""
        return self.size == len(data) and self.sha256 == file_digest(data)


def describe(kernels: Mapping[str, str], warnings: Sequence[str], described: str) -> str:
    """Return the description of a compiled result (kernels, warnings and resources) as JSON."""
    return json.dumps([dict(kernels), [*warnings], described], separators=(",", ":"))


# The units of a module often have the same description, so decoded descriptions are cached.
@functools.lru_cache(maxsize=32)
def _described(description: str) -> tuple[Mapping[str, str], Sequence[str], str]:
    return tuple(json.loads(description))


def split_signature(data: bytes) -> tuple[bytes, bytes]:
    """Split the file of a cache record into the signed part and the signature's line (empty if unsigned)."""
    end = data.find(b"\n", data.find(b"\n") + 1) + 1
    return data[:end], data[end:]


def decode(data: bytes) -> Record | None:
    """Return the cache record that *data* encodes; None if *data* is damaged, or contains invalid values."""
    data, line = split_signature(data)
    if line and not _is_signature(line):
        return None
    head, _, text = data.partition(b"\n")
    body = text.removesuffix(b"\n")
    if len(text) != len(body) + 1 or head != file_digest(body).encode():
        return None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() != _FIELDS.keys():
        return None
    if not all(sound(values[name]) for name, sound in _FIELDS.items()):
        return None
    # A packed block must not have kernels. An object file may have kernels. All other entries must have
    # kernels.
    inputs, has_kernels = values["inputs"], bool(values["kernels"])
    return Record(**values) if _OBJECT in inputs or has_kernels != (BLOCK in inputs) else None


def _is_signature(line: bytes) -> bool:
    """Return whether a line has the form of a signature.

    This function does not verify the signature itself.
    """
    from ..common.ed25519_keys import Signature  # lazy import: needed only for signed records

    return Signature.decode(line) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_digest(value: object) -> bool:
    return type(value) is str and _DIGEST.fullmatch(value) is not None


def _are_texts(value: object) -> bool:
    """Return whether *value* is a list of texts without lone surrogates, which JSON may contain."""
    texts: Any = value
    try:
        return type(texts) is list and all(type(each) is str and each.encode() for each in texts)
    except UnicodeEncodeError:
        return False


def _are_kernels(value: object) -> bool:
    return type(value) is dict and _are_texts([*value, *value.values()])


def _are_inputs(value: object) -> bool:
    """Return whether the inputs in a cache record have the types that the command `explain` can compare."""
    return type(value) is dict and all(
        type(each) in {str, dict} or (type(each) is list and all(type(item) is str for item in each))
        for each in value.values()
    )


_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "key": lambda value: type(value) is str and _HEX.fullmatch(value) is not None,
    "sha256": _is_digest,
    "size": lambda value: _is_count(value) and value in _SIZES,
    "kernels": _are_kernels,
    "warnings": _are_texts,
    "inputs": _are_inputs,
    "format": lambda value: type(value) is int and value == _FORMAT,
}


def read_kernel_uses(data: bytes) -> dict[str, KernelUse]:
    """Return the resources of each kernel of a cubin; empty for PTX and for an unreadable cubin."""
    from ..cubin.elf import read_kernels  # lazy import: not needed if all results are recalled

    try:
        return read_kernels(data)
    except ValueError:
        return {}


def record_key(key: bytes) -> bytes:
    """Return the key under which the cache stores the record of the entry *key*."""
    return key + b".record"


def entry_path(folder: Path, key: bytes) -> str:
    """Return the path of the file in which a `FileStreamProgramCache` in *folder* stores *key*."""
    digest = file_digest(key)
    return f"{folder}{os.sep}entries{os.sep}{digest[:2]}{os.sep}{digest[2:]}"


class NotAFileError(OSError):
    """Raised if the path of a cache file is not a regular file: opening a pipe could wait forever."""


class StoredFile(NamedTuple):
    """The path and the file status of a cache entry or of a cache record."""

    path: str
    status: os.stat_result


def stat_file(path: str) -> StoredFile | None:
    """Return the path and status of a regular file; None if *path* does not exist.

    Raise NotAFileError if *path* is not a regular file.
    """
    try:
        status = os.stat(path)
    except OSError as exc:
        if exc.errno in MISSING_ERRNOS:
            return None
        raise
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(errno.EINVAL, "is not a file", path)
    return StoredFile(path, status)


def read_file(file: StoredFile) -> bytes:
    """Return the bytes of a cache file.

    If the file has grown since its size was determined, only one byte more than this size is read: one byte
    is enough to show that the file has changed.
    """
    size = file.status.st_size
    descriptor = os.open(file.path, _READ)
    try:
        data = os.read(descriptor, size + 1)
        while 0 < len(data) < size and (more := os.read(descriptor, size)):
            data += more  # one call of os.read reads at most 2 GiB
    finally:
        os.close(descriptor)
    return data


def read_record(file: StoredFile) -> tuple[bytes, Record | None]:
    """Return the bytes of a cache record's file, and the decoded record (None if the record is not valid)."""
    data = read_file(file) if file.status.st_size <= MAX_RECORD_SIZE else b""
    return data, decode(data)


def mark_used(entry: StoredFile, record: StoredFile) -> None:
    """Mark an entry and its record as used now, with nearly equal times, so that both are trimmed together.

    The record's access time is set slightly earlier than the entry's: cuda.core trims the folder in the order
    of access times, and so removes the record first.
    """
    now = time.time_ns()
    # access times do not matter in a read-only folder, because no build trims such a folder
    with contextlib.suppress(OSError):
        os.utime(entry.path, ns=(now, entry.status.st_mtime_ns))
        os.utime(record.path, ns=(now - USE_STEP_NS, record.status.st_mtime_ns))
