"""Whom a build believes: that a record, or an index, is what some build wrote that is trusted."""

from __future__ import annotations

from typing import Protocol


class Trust(Protocol):
    """Seals the indexes that go to a store, and judges what comes from one."""

    def vouches(self, data: bytes) -> bool:
        """Say whether somebody who is trusted has signed this file of a record."""

    def seal(self, index: bytes) -> bytes:
        """Return what goes to the store beside an index."""

    def holds(self, index: bytes, seal: bytes) -> bool:
        """Say whether somebody who is trusted has sealed exactly that."""


class Everybody:
    """Whoever can write to the store is trusted."""

    def vouches(self, _data: bytes) -> bool:
        return True

    def seal(self, _index: bytes) -> bytes:
        return b""

    def holds(self, _index: bytes, _seal: bytes) -> bool:
        return True
