"""The interface of remote stores, their error class, and a counter of requests and bytes."""

from __future__ import annotations

import threading
from typing import Protocol

from ..common.sizes import size


class StoreError(Exception):
    """The error of a remote store.

    The error's message is hatch-cubin's own, because a library's message may contain secrets.
    """


class TrafficCounter:
    """Counts the requests to a remote store, and the bytes that are sent and received."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._sending = 0  # the bytes of current uploads whose progress is not known
        self._lock = threading.Lock()

    def count_request(self) -> None:
        with self._lock:
            self.requests += 1

    def count_bytes(self, count: int) -> None:
        with self._lock:
            self.bytes += count

    def begin_sending(self, count: int) -> None:
        """Remember that a library, which does not report its progress, begins to upload *count* bytes."""
        with self._lock:
            self._sending += count

    def end_sending(self, count: int) -> None:
        """Remember that the upload of *count* bytes has ended or failed."""
        with self._lock:
            self._sending = max(0, self._sending - count)

    def assume_sent(self, count: int) -> bool:
        """Assume that *count* more bytes were uploaded.

        The number *count* is an assumption, because the library that uploads does not report its progress.
        Return whether, before this call, some bytes of current uploads were not yet counted as uploaded.
        """
        with self._lock:
            before = self._sending
            self._sending = max(0, before - count)
        return before > 0


class Store(Protocol):
    """The interface of a remote store, which contains objects: each object is bytes with a name.

    An object is read together with a *tag*, and is replaced only if the object's tag is still the same, so
    that simultaneous writes are noticed.
    """

    url: str  # the URL of the store without user and password
    traffic: TrafficCounter

    def get(self, name: str, max_size: int) -> bytes | None:
        """Return the bytes of an object, or None if it does not exist.

        Raise StoreError if the object is larger than *max_size*.
        """

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        """Return an object's tag and its bytes.

        The bytes never come from the cache of a proxy.
        """

    def has(self, name: str) -> bool:
        """Return False if the store reports that an object does not exist, and True for any other answer."""

    def put(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*."""

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        """Replace an object that had the tag *tag* when this build read it.

        Return True if the store has checked that no other build has changed the object after this build read
        it. If the result is False, another build may have changed the object at the same time, and one of the
        two changes may be lost.
        """

    def close_idle(self) -> None:
        """Close idle connections, because the next request may come much later."""

    def close(self) -> None:
        """Close all connections, and reject the requests that threads may still make."""


def too_large_error(max_size: int) -> StoreError:
    return StoreError(f"the store sends more than {size(max_size)}, the largest expected size")


def status_error(status: int, *, authorized: bool = False) -> StoreError:
    """Return the StoreError for an HTTP status code.

    *authorized* is whether the request contained a password or a token.
    """
    if status == 401 and authorized:
        return StoreError("the store does not accept the user and password, or the token (401)")
    if status in _STATUS_REASONS:
        return StoreError(f"{_STATUS_REASONS[status]} ({status})")
    if status in _REDIRECT_STATUSES:
        return StoreError(
            f"the store redirects to another URL ({status}), but hatch-cubin does not follow redirects: "
            "use that URL"
        )
    return StoreError(
        f"the store fails ({status})" if status >= 500 else f"the store refuses the request ({status})"
    )


_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_STATUS_REASONS = {
    401: "the store asks for a user and password, which belong in HATCH_CUBIN_REMOTE",
    403: "the store denies access",
    407: "the proxy asks for a user and password",
    413: "the store does not accept such a large file; for nginx, set 'client_max_body_size 64m'",
    429: "the store asks for fewer requests",
    507: "the store is full",
}
