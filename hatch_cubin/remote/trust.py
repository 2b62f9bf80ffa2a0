"""Decide which cache records and pack indexes a build accepts from a remote store."""

from __future__ import annotations

from typing import Protocol


class StorePolicy(Protocol):
    """The interface of a policy that signs pack indexes, and accepts or rejects records and pack indexes."""

    def accepts_record(self, data: bytes) -> bool:
        """Return whether a trusted signing key has signed a cache record."""

    def sign_index(self, index: bytes) -> bytes:
        """Return the signature to store with a pack index; empty if the build does not have a signing key."""

    def accepts_index(self, index: bytes, signature: bytes) -> bool:
        """Return whether a trusted signing key has signed this pack index."""


class AcceptAll:
    """A policy that accepts all records and pack indexes: everyone who can write to the store is trusted."""

    def accepts_record(self, _data: bytes) -> bool:
        return True

    def sign_index(self, _index: bytes) -> bytes:
        return b""

    def accepts_index(self, _index: bytes, _signature: bytes) -> bool:
        return True
