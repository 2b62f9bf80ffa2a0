"""Whom a build believes that an index is what some build wrote. A record is judged by itself."""

from __future__ import annotations

from typing import Protocol


class Trust(Protocol):
    """Seals the indexes that go to a store, and judges those that come from one."""

    def seal(self, index: bytes) -> bytes:
        """Return what goes to the store beside an index."""

    def holds(self, index: bytes, seal: bytes) -> bool:
        """Say whether somebody who is trusted has sealed exactly that."""


class Everybody:
    """Whoever can write to the store is trusted."""

    def seal(self, _index: bytes) -> bytes:
        return b""

    def holds(self, _index: bytes, _seal: bytes) -> bool:
        return True
