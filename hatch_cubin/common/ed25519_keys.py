"""Encode Ed25519 keys and signatures as texts with a check sum, so that a typing error is noticed.

The text of a key or signature begins with its kind, such as `ed25519:`. The rest of the text is base64
without padding: the bytes of the key or signature, then the check sum. The check sum is the beginning of a
digest of the text's kind and the bytes of the key or signature. Exactly one text is valid for each key. This
module only converts between bytes and texts; `cache/signing.py` makes and checks signatures.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PUBLIC, PRIVATE, SIGNATURE = "ed25519", "ed25519-private", "ed25519-signature"

_SIZES = {PUBLIC: 32, PRIVATE: 32, SIGNATURE: 64}
# the minimum number of digest bytes in a text; more bytes are added if base64 would need padding
_CHECKED = 4
_NAMES = {PUBLIC: "a public key", PRIVATE: "a private key", SIGNATURE: "a signature"}
_TEXT = re.compile("([a-z0-9-]+):([A-Za-z0-9_-]+)")

_PRIME = 2**255 - 19
# The y coordinate of a point of order 8 on the curve. If a public key is such a point, it accepts forged
# signatures.
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_OF_LOW_ORDER = {0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8}


def write(kind: str, raw: bytes) -> str:
    """Write a key or a signature as text."""
    import base64

    return f"{kind}:{base64.urlsafe_b64encode(raw + _check(kind, raw)).decode()}"


def read(kind: str, text: str) -> bytes:
    """Return the bytes of the key or signature that *text* encodes.

    Raise ValueError if *text* is not valid for *kind*. The error message never shows *text*, which may be a
    private key.
    """
    import base64

    match = _TEXT.fullmatch(text)
    if match is None or match[1] not in _SIZES:
        raise ValueError(f"is not {_NAMES[kind]}, which begins with '{kind}:'")
    if match[1] != kind:
        raise ValueError(f"is {_NAMES[match[1]]}, but must be {_NAMES[kind]}, which begins with '{kind}:'")
    size, length = _SIZES[kind], len(write(kind, bytes(_SIZES[kind])))
    if len(text) != length:
        raise ValueError(f"has {len(text)} characters, and {_NAMES[kind]} has {length}")
    data = base64.urlsafe_b64decode(match[2])
    if data[size:] != _check(kind, data[:size]):
        raise ValueError("has a wrong character: copy the text again")
    return data[:size]


def read_public(text: str) -> bytes:
    """Return the bytes of a public key; ValueError if the key is so weak that anyone can forge signatures."""
    raw = read(PUBLIC, text)
    y = int.from_bytes(raw, "little") & ~(1 << 255)
    if y >= _PRIME or y in _OF_LOW_ORDER:
        raise ValueError(
            "is so weak that anyone could forge its signatures: use a key of 'hatch-cubin keygen'"
        )
    return raw


class Signature(NamedTuple):
    """A signature, with the public key that verifies it."""

    key: str
    value: bytes

    def encode(self) -> bytes:
        return f"{self.key} {write(SIGNATURE, self.value)}\n".encode()

    @classmethod
    def decode(cls, line: bytes) -> Signature | None:
        """Return the signature that a line of text encodes; None if the line does not encode a signature."""
        try:
            key, value = line.removesuffix(b"\n").decode("ascii").split(" ")
            read(PUBLIC, key)
            found = cls(key, read(SIGNATURE, value))
        except ValueError:
            return None
        return found if found.encode() == line else None


def _check(kind: str, raw: bytes) -> bytes:
    import hashlib

    size = _CHECKED + -(len(raw) + _CHECKED) % 3
    return hashlib.sha256(f"hatch-cubin/{kind}/v1\0".encode() + raw).digest()[:size]
