"""The interface of a store, the errors of stores, and a counter of their requests and bytes."""

from __future__ import annotations

import threading
from typing import Protocol

from ..common.sizes import size


class StoreError(Exception):
    """Why a store did not do what it was asked for, in our own words: a library's may contain secrets."""


class TrafficCounter:
    """Counts the requests to a store, and the bytes that are sent and received."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._sending = 0  # bytes of uploads whose progress is unknown
        self._lock = threading.Lock()

    def count_request(self) -> None:
        with self._lock:
            self.requests += 1

    def count_bytes(self, count: int) -> None:
        with self._lock:
            self.bytes += count

    def begin_sending(self, count: int) -> None:
        """Note that an upload of *count* bytes begins, by a library that does not report progress."""
        with self._lock:
            self._sending += count

    def end_sending(self, count: int) -> None:
        """Note that an upload of *count* bytes has ended or failed."""
        with self._lock:
            self._sending = max(0, self._sending - count)

    def assume_sent(self, count: int) -> bool:
        """Assume that *count* more bytes of the uploads were sent; return False if none were left to send."""
        with self._lock:
            before = self._sending
            self._sending = max(0, before - count)
        return before > 0


class Store(Protocol):
    """Bytes under names. An object that others may overwrite is read with a *tag* and replaced with it."""

    url: str  # without user and password
    traffic: TrafficCounter

    def get(self, name: str, max_size: int) -> bytes | None:
        """Return the bytes under a name, None if there are none; StoreError if they exceed *max_size*."""

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        """Return the bytes as `get` does, but never from a cache, and their tag."""

    def has(self, name: str) -> bool:
        """Return whether there is an object under a name; True if the store does not answer that."""

    def put(self, name: str, data: bytes) -> None:
        """Store the bytes under a name."""

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        """Store the bytes, and return whether it is certain that no other write since *tag* was lost."""

    def close_idle(self) -> None:
        """Close connections that are kept for the next request: it may come much later."""

    def close(self) -> None:
        """Close all connections for good, and refuse further requests, which threads may still make."""


def too_large_error(max_size: int) -> StoreError:
    return StoreError(f"it sends more than the expected {size(max_size)}")


def status_error(status: int, *, authorized: bool = False) -> StoreError:
    """Return the error for a status; *authorized* if the request had a password or a token."""
    if status == 401 and authorized:
        return StoreError("it does not accept the user and password, or the token (401)")
    if status in _STATUS_REASONS:
        return StoreError(f"{_STATUS_REASONS[status]} ({status})")
    if status in _REDIRECT_STATUSES:
        return StoreError(f"it redirects to another URL ({status}), which is not followed: use that URL")
    return StoreError(f"it fails ({status})" if status >= 500 else f"it refuses the request ({status})")


_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_STATUS_REASONS = {
    401: "it asks for a user and password, which belong in HATCH_CUBIN_REMOTE",
    403: "it denies access",
    407: "the proxy asks for a user and password",
    413: "it does not accept a file of that size; nginx does with 'client_max_body_size 64m'",
    429: "it asks for fewer requests",
    507: "it is full",
}
