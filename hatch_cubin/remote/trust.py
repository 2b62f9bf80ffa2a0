"""Whom a build believes: that a record, or an index, is what some build wrote that is trusted."""

from __future__ import annotations

from typing import Protocol


class StorePolicy(Protocol):
    """Seals the indexes that go to a store, and judges what comes from one."""

    def accepts_record(self, data: bytes) -> bool:
        """Say whether somebody who is trusted has signed this file of a record."""

    def sign_index(self, index: bytes) -> bytes:
        """Return what goes to the store beside an index."""

    def accepts_index(self, index: bytes, seal: bytes) -> bool:
        """Say whether somebody who is trusted has sealed exactly that."""


class AcceptAll:
    """Whoever can write to the store is trusted."""

    def accepts_record(self, _data: bytes) -> bool:
        return True

    def sign_index(self, _index: bytes) -> bytes:
        return b""

    def accepts_index(self, _index: bytes, _seal: bytes) -> bool:
        return True
