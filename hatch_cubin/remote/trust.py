"""Which records and indexes from a store a build accepts."""

from __future__ import annotations

from typing import Protocol


class StorePolicy(Protocol):
    """Signs the index that goes to a store, and decides which records and indexes from it are accepted."""

    def accepts_record(self, data: bytes) -> bool:
        """Return whether a trusted key has signed the file of a record."""

    def sign_index(self, index: bytes) -> bytes:
        """Return the signature that is stored with an index; empty if nothing is signed."""

    def accepts_index(self, index: bytes, signature: bytes) -> bool:
        """Return whether a trusted key has signed exactly this index."""


class AcceptAll:
    """Accepts everything: all who can write to the store are trusted."""

    def accepts_record(self, _data: bytes) -> bool:
        return True

    def sign_index(self, _index: bytes) -> bytes:
        return b""

    def accepts_index(self, _index: bytes, _signature: bytes) -> bool:
        return True
