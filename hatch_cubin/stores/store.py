"""What every store can do, and what goes wrong with one."""

from __future__ import annotations

import threading
from typing import Protocol

from .._sizes import size


class FaultError(Exception):
    """Why a store did not do what it was asked for, in words of our own: those of others may hold secrets."""


class Traffic:
    """Counts what is asked of a store, and the bytes that go to it and come from it."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._lock = threading.Lock()

    def asked(self) -> None:
        with self._lock:
            self.requests += 1

    def moved(self, count: int) -> None:
        with self._lock:
            self.bytes += count


class Store(Protocol):
    """Named bytes. A name that others may write meanwhile is read with a *tag*, and written with it."""

    url: str  # as it may be shown
    traffic: Traffic

    def get(self, name: str, most: int) -> bytes | None:
        """Return the bytes under a name, None where there are none; FaultError where they are *most*."""

    def read(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        """Return the same, as they are now, and their tag."""

    def put(self, name: str, data: bytes) -> None:
        """Store the bytes under a name."""

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        """Store them, and say whether nobody else can have done so since they were read."""

    def rest(self) -> None:
        """Give up what was kept for the next request: there may be none for long."""

    def close(self) -> None:
        """Rest for good: what a thread still asks for is refused."""


def too_large(most: int) -> FaultError:
    return FaultError(f"it sends more than the {size(most)} that there should be")


def refused(status: int) -> FaultError:
    """Return what an answer means that is not the one that was hoped for."""
    if status in _MEANINGS:
        return FaultError(f"{_MEANINGS[status]} ({status})")
    if 300 <= status < 400:
        return FaultError(f"it leads elsewhere ({status}), and no redirect is followed: name the other place")
    return FaultError(f"it {'fails' if status >= 500 else 'refuses'} ({status})")


_MEANINGS = {
    401: "it wants to know who asks: user and password belong in HATCH_CUBIN_REMOTE",
    403: "it refuses whoever asks",
    407: "the proxy wants to know who asks",
    413: "it takes no file of that size; nginx does with 'client_max_body_size 64m'",
    429: "it asks for fewer requests",
    507: "it is full",
}
