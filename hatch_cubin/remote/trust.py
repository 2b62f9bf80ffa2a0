"""The policies that decide which records and indexes from a remote store a build accepts."""

from __future__ import annotations

from typing import Protocol


class StorePolicy(Protocol):
    """The interface of a policy that signs indexes, and accepts or rejects records and indexes."""

    def accepts_record(self, data: bytes) -> bool:
        """Return whether a trusted key has signed a record."""

    def sign_index(self, index: bytes) -> bytes:
        """Return the signature to store with an index; empty if the build does not sign."""

    def accepts_index(self, index: bytes, signature: bytes) -> bool:
        """Return whether a trusted key has signed this index."""


class AcceptAll:
    """A policy that accepts all records and indexes: everyone who can write to the store is trusted."""

    def accepts_record(self, _data: bytes) -> bool:
        return True

    def sign_index(self, _index: bytes) -> bytes:
        return b""

    def accepts_index(self, _index: bytes, _signature: bytes) -> bool:
        return True
