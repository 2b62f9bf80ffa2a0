"""The record beside a cache entry that proves its bytes, the paths of the two, and how they are read."""

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

_OBJECT = "object"  # the input of a unit that is to be linked: how
BLOCK = "block"  # the only input of a block of a packed bundle: the digests of the results in it
_OTHER_NAMES = "has other kernels than were requested"
_FORMAT = 2  # since 2 the kernels that a source instantiates itself have readable names
MAX_RECORD_SIZE = 1 << 23  # bytes of a record, twelve times what the largest has
_SIZES = range(read_limits.CODE + 1)
_HEX = re.compile("(?:[0-9a-f]{2})+")
_DIGEST = re.compile("[0-9a-f]{64}")
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | user_folders.AT_ONCE
MISSING_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
USE_STEP_NS = 1000  # two times so far apart differ in seconds too, as a float has them


class Request(NamedTuple):
    """What a unit needs of its result, as far as that is known before it is compiled."""

    arch: str | None = None
    names: Collection[str] | None = None  # which the compiler was told to instantiate
    declared: Callable[[], Collection[str]] = tuple  # symbols of kernels that every compile of the source has

    def mismatch(
        self, kernels: Mapping[str, str], symbols: Collection[str], data: bytes, *, is_object: bool = False
    ) -> str | None:
        """Say how *data*, with these *kernels*, is not what was requested; None if it is.

        *symbols* are those of its kernels that were read from it: all of them, or none of PTX. An object,
        which is to be linked, may have no kernel, and LTO-IR shows no names.
        """
        from ..cubin.kernel_names import (  # nothing of these is needed if all is recalled
            names_fit_symbols,
            without_blanks,
        )
        from ..cubin.target import differing_arch

        named = {*kernels.values()}
        end = b"\0" if symbols else b""  # around each name of a cubin
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
            return "does not have the kernels that are listed for it"
        if self.names is not None and not names_fit_symbols(kernels, symbols or named, self.names):
            return _OTHER_NAMES
        missing = [symbol for symbol in self.declared() if symbol not in named]
        return f"lacks kernels of its source: {', '.join(sorted(missing))}" if missing else None


class Record(NamedTuple):
    """What is known of an entry."""

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
        """Whether the entry is to be linked: then it may have no kernel, and LTO-IR shows no names."""
        return _OBJECT in self.inputs

    def is_of(self, data: bytes) -> bool:
        """Say whether *data* is what was stored, to the byte."""
        return (self.size, self.sha256) == (len(data), file_digest(data))

    def mismatch(self, request: Request, symbols: Collection[str], data: bytes) -> str | None:
        """Say how *data*, with these *symbols* of kernels, is not what was requested and is recorded here."""
        return request.mismatch(self.kernels, symbols, data, is_object=self.is_object)


class RecalledResult(NamedTuple):
    """What an earlier build knew of a unit's result: what proves it, and its description."""

    sha256: str
    size: int
    record: str  # the size and time of the record's file when it was read
    description: str  # still in JSON, for most builds write it again and never look into it

    @property
    def kernels(self) -> Mapping[str, str]:
        return _described(self.description)[0]

    @property
    def warnings(self) -> Sequence[str]:
        return _described(self.description)[1]

    @property
    def kernel_uses_json(self) -> str:
        """What is told of the kernels, in JSON."""
        return _described(self.description)[2]

    def is_of(self, data: bytes) -> bool:
        """Say whether *data* is that result, to the byte."""
        return self.size == len(data) and self.sha256 == file_digest(data)


def describe(kernels: Mapping[str, str], warnings: Sequence[str], described: str) -> str:
    """Return the description of a result, in JSON."""
    return json.dumps([dict(kernels), [*warnings], described], separators=(",", ":"))


@functools.lru_cache(maxsize=32)  # the units of a module are often described alike
def _described(description: str) -> tuple[Mapping[str, str], Sequence[str], str]:
    return tuple(json.loads(description))


def split_signature(data: bytes) -> tuple[bytes, bytes]:
    """Return what is signed of a record's file, and the line behind it that holds the signature, if any."""
    end = data.find(b"\n", data.find(b"\n") + 1) + 1
    return data[:end], data[end:]


def decode(data: bytes) -> Record | None:
    """Return the record that *data* encodes; None where a bit is wrong, or it says what no build would."""
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
    # A block of a packed bundle has no kernels of its own, an object may have none.
    inputs, has_kernels = values["inputs"], bool(values["kernels"])
    return Record(**values) if _OBJECT in inputs or has_kernels != (BLOCK in inputs) else None


def _is_signature(line: bytes) -> bool:
    """Say whether a line is what a build that signs writes below its records, whoever has signed."""
    from ..common.ed25519_keys import Signature  # which only signed records need

    return Signature.decode(line) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_digest(value: object) -> bool:
    return type(value) is str and _DIGEST.fullmatch(value) is not None


def _are_texts(value: object) -> bool:
    """Say whether they can all be written down: JSON knows halves of characters too."""
    texts: Any = value
    try:
        return type(texts) is list and all(type(each) is str and each.encode() for each in texts)
    except UnicodeEncodeError:
        return False


def _are_kernels(value: object) -> bool:
    return type(value) is dict and _are_texts([*value, *value.values()])


def _are_inputs(value: object) -> bool:
    """Say whether they can be compared with those of another unit."""
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
    """Return what is known of each kernel of a cubin; nothing where that cannot be read, as of PTX."""
    from ..cubin.elf import read_kernels  # nor of this

    try:
        return read_kernels(data)
    except ValueError:
        return {}


def record_key(key: bytes) -> bytes:
    """Return what an entry's record is stored under."""
    return key + b".record"


def entry_path(folder: Path, key: bytes) -> str:
    """Return the path under which a `FileStreamProgramCache` in *folder* stores a *key*."""
    digest = file_digest(key)
    return f"{folder}{os.sep}entries{os.sep}{digest[:2]}{os.sep}{digest[2:]}"


class NotAFileError(OSError):
    """Something that is not a file stands in the place of one: to open a pipe would wait for ever."""


class StoredFile(NamedTuple):
    """A file of the store, as it was looked at."""

    path: str
    status: os.stat_result


def stat_file(path: str) -> StoredFile | None:
    """Return a file that can be read; None where there is none, NotAFileError where something else is."""
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
    """Return what is in a file, and no more than one byte beyond what was there when it was looked at."""
    size = file.status.st_size
    descriptor = os.open(file.path, _READ)
    try:
        data = os.read(descriptor, size + 1)
        while 0 < len(data) < size and (more := os.read(descriptor, size)):
            data += more  # the system reads 2 GiB at a time
    finally:
        os.close(descriptor)
    return data


def read_record(file: StoredFile) -> tuple[bytes, Record | None]:
    """Return what is in a file, and the record that it is; None where no build would have written that."""
    data = read_file(file) if file.status.st_size <= MAX_RECORD_SIZE else b""
    return data, decode(data)


def mark_used(entry: StoredFile, record: StoredFile) -> None:
    """Count both as used, so that whoever trims by that takes both: the record just before what it proves."""
    now = time.time_ns()
    with contextlib.suppress(OSError):  # in a folder that cannot be written nothing is trimmed either
        os.utime(entry.path, ns=(now, entry.status.st_mtime_ns))
        os.utime(record.path, ns=(now - USE_STEP_NS, record.status.st_mtime_ns))
