"""Encode and decode the message `ActionResult` of Bazel's remote execution API.

The message is encoded with protocol buffers. Only the fields that hatch-cubin needs are decoded; fields that
a server adds are skipped. Decoding does not verify a message: the caller checks the results that the message
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FILES, _STDOUT, _STDERR = 2, 5, 7  # the field numbers in the message ActionResult
_PATH, _DIGEST = 1, 2  # the field numbers in the message OutputFile
_HASH, _SIZE = 1, 2  # The field numbers in the message Digest.
# The wire types of protocol buffers: varint, 64 bits, length and bytes, 32 bits.
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_SKIPPED = {_EIGHT: 8, _FOUR: 4}
_SHA256 = re.compile("[0-9a-f]{64}")


class OutputFile(NamedTuple):
    """An output file in an ActionResult: its path, digest and size."""

    path: str
    sha256: str
    size: int


class Action(NamedTuple):
    """A decoded ActionResult: its output files, and the data that the ActionResult itself contains."""

    files: tuple[OutputFile, ...]
    stdout: bytes = b""  # the message's data: a cache record, or an index of packs
    stderr: bytes = b""  # the signature of a pack index


def encode(action: Action) -> bytes:
    """Encode an ActionResult, giving the same bytes as other implementations of protocol buffers."""
    files = b"".join(_field(_FILES, _file(each)) for each in action.files)
    return files + _bytes_field(_STDOUT, action.stdout) + _bytes_field(_STDERR, action.stderr)


def decode(data: bytes) -> Action:
    """Decode an ActionResult; ValueError if *data* is not a valid message."""
    files = list[OutputFile]()
    texts = {_STDOUT: b"", _STDERR: b""}
    for number, value in _fields(data):
        if number == _FILES:
            files.append(_read_file(_as_bytes(value)))
        elif number in texts:
            texts[number] = _as_bytes(value)
    return Action(tuple(files), texts[_STDOUT], texts[_STDERR])


def _file(file: OutputFile) -> bytes:
    size = b"" if file.size == 0 else _varint(_SIZE << 3 | _NUMBER) + _varint(file.size)
    digest = _field(_HASH, file.sha256.encode()) + size
    return _field(_PATH, file.path.encode()) + _field(_DIGEST, digest)


def _read_file(data: bytes) -> OutputFile:
    fields = dict(_fields(data))
    digest = dict(_fields(_as_bytes(fields.get(_DIGEST, b""))))
    sha256, size = _as_bytes(digest.get(_HASH, b"")).decode(), digest.get(_SIZE, 0)
    if not _SHA256.fullmatch(sha256) or not isinstance(size, int):
        raise ValueError("an output file has no digest")
    return OutputFile(_as_bytes(fields.get(_PATH, b"")).decode(), sha256, size)


def _as_bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field contains a number in place of bytes")
    return value


def _bytes_field(number: int, data: bytes) -> bytes:
    return _field(number, data) if data else b""  # empty fields of a message are not encoded


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the number and the value of each field whose value is bytes or an integer."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _NUMBER:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        length = _SKIPPED.get(kind)
        if length is None:
            if kind != _BYTES:
                raise ValueError("a field has an unknown kind")
            length, at = _read_varint(data, at)
        if length > len(data) - at:
            raise ValueError("the message is cut off")
        if kind == _BYTES:
            yield number, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise ValueError("a number in the message has no end")
