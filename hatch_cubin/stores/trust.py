"""Whom a build believes that what a store has is what some build made."""

from __future__ import annotations

from typing import Protocol


class Trust(Protocol):
    """Seals the indexes that go to a store, and judges what comes from one."""

    def vouches(self, record: bytes) -> bool:
        """Say whether somebody who is trusted has made a record, by what stands in it."""

    def seal(self, index: bytes) -> bytes:
        """Return what goes to the store beside an index."""

    def holds(self, index: bytes, seal: bytes) -> bool:
        """Say whether somebody who is trusted has sealed exactly that."""


class Everybody:
    """Whoever can write to the store is trusted."""

    def vouches(self, _record: bytes) -> bool:
        return True

    def seal(self, _index: bytes) -> bytes:
        return b""

    def holds(self, _index: bytes, _seal: bytes) -> bool:
        return True
