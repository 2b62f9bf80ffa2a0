"""The record beside a cache entry that proves the entry's bytes, and the paths of the two."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .._digest import file_digest

_FORMAT = 2  # since 2 the kernels that a source instantiates itself have readable names


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of an entry."""

    key: str
    sha256: str
    size: int
    kernels: Mapping[str, str]
    warnings: Sequence[str]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    format: int = _FORMAT

    def encode(self) -> bytes:
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return f"{file_digest(text.encode())}\n{text}\n".encode()

    def proves(self, key: bytes, data: bytes) -> bool:
        """Say whether *data* is what was stored under *key*."""
        return (self.key, self.size, self.sha256) == (key.hex(), len(data), file_digest(data))


class Known(NamedTuple):
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
    def resources(self) -> str:
        """What each kernel uses, in JSON."""
        return _described(self.description)[2]

    def proves(self, data: bytes, record: str) -> bool:
        """Say whether *data* is that result, and *record* is the stamp that its record had then."""
        return self.record == record and self.is_of(data)

    def is_of(self, data: bytes) -> bool:
        """Say whether *data* is that result, to the byte."""
        return self.size == len(data) and self.sha256 == file_digest(data)


def describe(kernels: Mapping[str, str], warnings: Sequence[str], resources: str) -> str:
    """Return the description of a result, in JSON."""
    return json.dumps([dict(kernels), [*warnings], resources], separators=(",", ":"))


@functools.lru_cache(maxsize=32)  # the units of a module are often described alike
def _described(description: str) -> tuple[Mapping[str, str], Sequence[str], str]:
    return tuple(json.loads(description))


def decode(data: bytes) -> Record | None:
    """Return the record that *data* encodes; None where even one bit of it is wrong."""
    head, _, text = data.partition(b"\n")
    body = text.removesuffix(b"\n")
    if len(text) != len(body) + 1 or head != file_digest(body).encode():
        return None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() != Record.__dataclass_fields__.keys():
        return None
    record = Record(**values)
    kinds = {"key": str, "sha256": str, "size": int, "kernels": dict, "warnings": list, "format": int}
    typed = all(type(values[name]) is kind for name, kind in kinds.items())
    return record if typed and record.format == _FORMAT else None


def record_key(key: bytes) -> bytes:
    """Return what an entry's record is stored under."""
    return key + b".record"


def place(folder: Path, key: bytes) -> str:
    """Return the path under which a `FileStreamProgramCache` in *folder* stores a *key*."""
    digest = file_digest(key)
    return f"{folder}{os.sep}entries{os.sep}{digest[:2]}{os.sep}{digest[2:]}"
