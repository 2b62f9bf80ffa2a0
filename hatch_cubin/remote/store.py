"""What every store can do, and what goes wrong with one."""

from __future__ import annotations

import threading
from typing import Protocol

from ..common.sizes import size


class FaultError(Exception):
    """Why a store did not do what it was asked for, in words of our own: those of others may hold secrets."""


class Traffic:
    """Counts what is asked of a store, and the bytes that go to it and come from it."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._unseen = 0  # bytes on their way of which nobody can see how many have gone
        self._lock = threading.Lock()

    def asked(self) -> None:
        with self._lock:
            self.requests += 1

    def moved(self, count: int) -> None:
        with self._lock:
            self.bytes += count

    def sending(self, count: int) -> None:
        """Note that so many bytes are sent by somebody who does not tell how far that is."""
        with self._lock:
            self._unseen += count

    def sent(self, count: int) -> None:
        """Note that they are gone, or will never be."""
        with self._lock:
            self._unseen = max(0, self._unseen - count)

    def passes(self, count: int) -> bool:
        """Take it that so many of what nobody can see have gone; say whether there were any."""
        with self._lock:
            before = self._unseen
            self._unseen = max(0, before - count)
        return before > 0


class Store(Protocol):
    """Named bytes. A name that others may write meanwhile is read with a *tag*, and written with it."""

    url: str  # as it may be shown
    traffic: Traffic

    def get(self, name: str, most: int) -> bytes | None:
        """Return the bytes under a name, None where there are none; FaultError where they are *most*."""

    def read(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        """Return the same, as they are now, and their tag."""

    def has(self, name: str) -> bool:
        """Say whether there is something under a name; where the store does not tell, there is."""

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


def refused(status: int, *, told: bool = False) -> FaultError:
    """Return what an answer means that nobody hoped for, by somebody who was *told* who asks, or not."""
    if status == 401 and told:
        return FaultError(
            "it does not know who asks: the user and password, or the token, are not right (401)"
        )
    if status in _MEANINGS:
        return FaultError(f"{_MEANINGS[status]} ({status})")
    if status in _REDIRECTS:
        return FaultError(f"it leads elsewhere ({status}), and no redirect is followed: name the other place")
    return FaultError(f"it {'fails' if status >= 500 else 'refuses'} ({status})")


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MEANINGS = {
    401: "it wants to know who asks: user and password belong in HATCH_CUBIN_REMOTE",
    403: "it refuses whoever asks",
    407: "the proxy wants to know who asks",
    413: "it takes no file of that size; nginx does with 'client_max_body_size 64m'",
    429: "it asks for fewer requests",
    507: "it is full",
}
