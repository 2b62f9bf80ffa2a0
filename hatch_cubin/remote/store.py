"""What every store can do, and what goes wrong with one."""

from __future__ import annotations

import threading
from typing import Protocol

from ..common.sizes import size


class StoreError(Exception):
    """Why a store did not do what it was asked for, in words of our own: those of others may hold secrets."""


class TrafficCounter:
    """Counts what is asked of a store, and the bytes that go to it and come from it."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._sending = 0  # bytes on their way of which nobody can see how many have gone
        self._lock = threading.Lock()

    def count_request(self) -> None:
        with self._lock:
            self.requests += 1

    def count_bytes(self, count: int) -> None:
        with self._lock:
            self.bytes += count

    def begin_sending(self, count: int) -> None:
        """Note that so many bytes are sent by somebody who does not tell how far that is."""
        with self._lock:
            self._sending += count

    def end_sending(self, count: int) -> None:
        """Note that they are gone, or will never be."""
        with self._lock:
            self._sending = max(0, self._sending - count)

    def assume_sent(self, count: int) -> bool:
        """Take it that so many of what nobody can see have gone; say whether there were any."""
        with self._lock:
            before = self._sending
            self._sending = max(0, before - count)
        return before > 0


class Store(Protocol):
    """Named bytes. A name that others may write meanwhile is read with a *tag*, and written with it."""

    url: str  # as it may be shown
    traffic: TrafficCounter

    def get(self, name: str, max_size: int) -> bytes | None:
        """Return the bytes under a name, None where there are none; StoreError where they are *max_size*."""

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        """Return the same, as they are now, and their tag."""

    def has(self, name: str) -> bool:
        """Say whether there is something under a name; where the store does not tell, there is."""

    def put(self, name: str, data: bytes) -> None:
        """Store the bytes under a name."""

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        """Store them, and say whether nobody else can have done so since they were read."""

    def close_idle(self) -> None:
        """Give up what was kept for the next request: there may be none for long."""

    def close(self) -> None:
        """Rest for good: what a thread still asks for is refused."""


def too_large_error(max_size: int) -> StoreError:
    return StoreError(f"it sends more than the {size(max_size)} that there should be")


def status_error(status: int, *, authorized: bool = False) -> StoreError:
    """Return what an answer means that nobody hoped for, by somebody who was *told* who asks, or not."""
    if status == 401 and authorized:
        return StoreError(
            "it does not know who asks: the user and password, or the token, are not right (401)"
        )
    if status in _STATUS_REASONS:
        return StoreError(f"{_STATUS_REASONS[status]} ({status})")
    if status in _REDIRECT_STATUSES:
        return StoreError(f"it leads elsewhere ({status}), and no redirect is followed: name the other place")
    return StoreError(f"it {'fails' if status >= 500 else 'refuses'} ({status})")


_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_STATUS_REASONS = {
    401: "it wants to know who asks: user and password belong in HATCH_CUBIN_REMOTE",
    403: "it refuses whoever asks",
    407: "the proxy wants to know who asks",
    413: "it takes no file of that size; nginx does with 'client_max_body_size 64m'",
    429: "it asks for fewer requests",
    507: "it is full",
}
