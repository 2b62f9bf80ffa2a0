"""A remote store on an HTTP server, with the layout of Bazel's remote cache (/cas/ and /ac/)."""

from __future__ import annotations

import contextlib
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BytesIO
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..config import store_urls
from .location import StoreTarget, basic_authorization
from .store import StoreError, TrafficCounter, status_error, too_large_error

# The time-out of a single read or write, in seconds. The build itself may stop waiting before this time-out.
_TIMEOUT_S = 5.0
_CHUNK_SIZE = 1 << 14
# The bytes that the system may buffer before sending, because buffered bytes count as sent.
_MAX_UNSENT = 1 << 17
_ABSENT_STATUSES = frozenset({404, 410})
_NO_UPLOAD_STATUSES = frozenset({404, 405, 410, 501})
_HEADERS = {"User-Agent": "hatch-cubin", "Accept-Encoding": "identity"}


class HttpStore:
    """A remote store at an http or https URL. Any number of threads may use an HttpStore at the same time."""

    def __init__(self, target: StoreTarget) -> None:
        self.url = target.url.shown
        self.traffic = TrafficCounter()
        self._target = target
        self._idle: list[HTTPConnection] = []
        self._closed = False
        self._headers = dict(_HEADERS)
        if target.authorization is not None:
            self._headers["Authorization"] = target.authorization
        self._path = target.url.path
        self._proxy = _proxy_for(target)
        # A request to a proxy contains the whole URL.
        if self._proxy is not None and target.url.scheme == "http":
            self._path = target.url.shown
            self._headers |= self._proxy.headers

    def get(self, name: str, max_size: int) -> bytes | None:
        return self._request("GET", name, max_size, {})

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        # No ETag is sent, because some servers answer that a file is unchanged although it has changed.
        return self._request("GET", name, max_size, {"Cache-Control": "no-cache"}), None

    def has(self, name: str) -> bool:
        return self._request("HEAD", name, 0, {}) is not None

    def put(self, name: str, data: bytes) -> None:
        self._request("PUT", name, 0, {"Content-Type": "application/octet-stream"}, data)

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        del tag  # many servers ignore the request headers with which a client compares tags of objects
        self.put(name, data)
        return False  # False, because a write of another build at the same time may have been lost

    def close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        self._closed = True
        self.close_idle()

    def _request(
        self, method: str, name: str, max_size: int, headers: dict[str, str], body: bytes | None = None
    ) -> bytes | None:
        self.traffic.count_request()
        try:
            connection, response = self._response(method, name, headers, body)
        except (OSError, HTTPException) as exc:
            raise StoreError(_reason(exc)) from None
        reusable = False
        try:
            if method == "HEAD" and response.status not in _ABSENT_STATUSES:
                reusable = self._drain(response)
                return b""  # errors of HEAD requests are ignored, because some servers do not support HEAD
            if 200 <= response.status < 300 and method == "GET":
                data = self._read_body(response, max_size)
                reusable = not response.will_close
                return data
            reusable = self._drain(response)
            if 200 <= response.status < 300 or (response.status in _ABSENT_STATUSES and method != "PUT"):
                return None
            if method == "PUT" and response.status in _NO_UPLOAD_STATUSES:
                raise StoreError(
                    f"the store does not accept uploads, which are PUT requests ({response.status})"
                )
            raise status_error(response.status, authorized=self._target.authorization is not None)
        except (OSError, HTTPException) as exc:
            raise StoreError(_reason(exc)) from None
        finally:
            if reusable:
                self._idle.append(connection)
            else:
                response.close()
                connection.close()
            if self._closed:
                self.close_idle()

    def _response(
        self, method: str, name: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send an HTTP request; return the connection and the response, whose body was not read yet.

        If the server has closed a reused connection, the request is sent again on another connection.
        """
        while True:
            connection, new = self._connection()
            try:
                pieces = None if body is None else _CountedBody(body, self.traffic)
                sent = {**self._headers, **headers}
                if body is not None:
                    sent["Content-Length"] = str(len(body))
                if new:
                    connection.connect()
                    _limit_send_buffer(connection)
                connection.request(method, f"{self._path}/{name}", body=pieces, headers=sent)
                return connection, connection.getresponse()
            except (OSError, HTTPException) as exc:
                connection.close()
                if new or isinstance(exc, TimeoutError):
                    raise

    def _connection(self) -> tuple[HTTPConnection, bool]:
        if self._closed:
            raise ConnectionError
        try:
            return self._idle.pop(), False
        except IndexError:
            return self._connect(), True

    def _connect(self) -> HTTPConnection:
        url, proxy = self._target.url, self._proxy
        host, port = url.host, url.port
        if url.scheme == "http":
            host, port = (host, port) if proxy is None else (proxy.host, proxy.port)
            return HTTPConnection(host, port, timeout=_TIMEOUT_S)
        if proxy is None:
            return HTTPSConnection(host, port, timeout=_TIMEOUT_S)
        connection = HTTPSConnection(proxy.host, proxy.port, timeout=_TIMEOUT_S)
        connection.set_tunnel(host, port or 443, proxy.headers)
        return connection

    def _read_body(self, response: HTTPResponse, max_size: int) -> bytes:
        """Return the complete body of a response; StoreError if it is cut off or larger than *max_size*."""
        promised = response.length
        if promised is not None and promised > max_size:
            raise too_large_error(max_size)
        body = BytesIO()  # joining a list of chunks would need twice the memory
        while piece := response.read(_CHUNK_SIZE):
            self.traffic.count_bytes(len(piece))
            body.write(piece)
            if body.tell() > max_size:
                raise too_large_error(max_size)
        if promised is not None and body.tell() != promised:
            raise StoreError(_BROKE_OFF)
        return body.getvalue()

    def _drain(self, response: HTTPResponse) -> bool:
        """Read and discard a response's body if it is small; return whether the connection can be reused."""
        if response.length is None or response.length > _CHUNK_SIZE or response.will_close:
            return False
        promised = response.length
        return len(response.read()) == promised


class _Proxy:
    """A proxy server that an environment variable such as HTTPS_PROXY names."""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        self.host, self.port = parts.hostname or "", parts.port or 80
        user = parts.username
        credentials = (
            basic_authorization(unquote(user), unquote(parts.password or "")) if user is not None else None
        )
        self.headers = {} if credentials is None else {"Proxy-Authorization": credentials}


def _proxy_for(target: StoreTarget) -> _Proxy | None:
    url = target.url
    text = getproxies().get(url.scheme)
    host = url.host if url.port is None else f"{url.host}:{url.port}"
    # no proxy for a store on this machine, because passwords must not leave the machine
    if not text or store_urls.is_here(url) or proxy_bypass(host):
        return None
    try:
        return _Proxy(text)
    except ValueError:
        raise StoreError(f"the variable {url.scheme.upper()}_PROXY is not the URL of a proxy") from None


def _limit_send_buffer(connection: HTTPConnection) -> None:
    """Limit the system's buffer for sending, so that a slow upload shows progress."""
    with contextlib.suppress(AttributeError, OSError):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT)


class _CountedBody:
    """The body of an upload, which is read in chunks, so that the upload's progress can be counted."""

    def __init__(self, data: bytes, traffic: TrafficCounter) -> None:
        self._data, self._traffic = data, traffic
        self._at = self._sent = 0

    def read(self, _size: int = -1) -> bytes:
        # The network library asks for the next chunk after it has sent the previous chunk.
        self._traffic.count_bytes(self._at - self._sent)
        self._sent = self._at
        self._at = min(self._at + _CHUNK_SIZE, len(self._data))
        return self._data[self._sent : self._at]


def _reason(exc: Exception) -> str:
    """Describe an error in hatch-cubin's own words, because a library's message may contain secrets."""
    for kind, why in _REASONS:
        if isinstance(exc, kind):
            return why
    return "the store cannot be reached" if isinstance(exc, OSError) else "the store does not speak HTTP"


_BROKE_OFF = "the connection broke off"
_REASONS: list[tuple[type[Exception], str]] = [
    (TimeoutError, "the store does not answer"),
    (socket.gaierror, "the store's host name cannot be resolved"),
    (ssl.SSLCertVerificationError, "the store's TLS certificate is not trusted on this machine"),
    (ssl.SSLError, "the store does not speak TLS"),
    (ConnectionRefusedError, "no server listens at this address"),
    (ConnectionError, _BROKE_OFF),
    (IncompleteRead, _BROKE_OFF),
]
