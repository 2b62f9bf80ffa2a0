"""A store that speaks HTTP, laid out as Bazel's remote cache: blobs under /cas/, actions under /ac/."""

from __future__ import annotations

import contextlib
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BytesIO
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..config import store_urls
from .location import Place, basic
from .store import FaultError, Traffic, refused, too_large

_PATIENCE_S = 5.0  # with one read or write; a build's own patience with a store ends before
_PIECE = 1 << 14
_UNSENT = 1 << 17  # bytes that may wait in the system: what it has taken counts as sent
_ABSENT = frozenset({404, 410})
_HEADERS = {"User-Agent": "hatch-cubin", "Accept-Encoding": "identity"}


class HttpStore:
    """A store at an http or https URL. Any number of threads may use it; connections are kept."""

    def __init__(self, place: Place) -> None:
        self.url = place.url.shown
        self.traffic = Traffic()
        self._place = place
        self._idle: list[HTTPConnection] = []
        self._closed = False
        self._headers = dict(_HEADERS)
        if place.authorization is not None:
            self._headers["Authorization"] = place.authorization
        self._path = place.url.path
        self._proxy = _proxy(place)
        if self._proxy is not None and place.url.scheme == "http":  # which is asked for the whole URL
            self._path = place.url.shown
            self._headers |= self._proxy.headers

    def get(self, name: str, most: int) -> bytes | None:
        return self._ask("GET", name, most, {})

    def read(self, name: str, most: int) -> tuple[bytes | None, str | None]:
        # By an ETag, servers were seen to call a changed file unchanged: it is never asked about.
        return self._ask("GET", name, most, {"Cache-Control": "no-cache"}), None

    def has(self, name: str) -> bool:
        return self._ask("HEAD", name, 0, {}) is not None

    def put(self, name: str, data: bytes) -> None:
        self._ask("PUT", name, 0, {"Content-Type": "application/octet-stream"}, data)

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        del tag  # many servers ignore the headers that would compare it
        self.put(name, data)
        return False

    def rest(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        self._closed = True
        self.rest()

    def _ask(
        self, method: str, name: str, most: int, headers: dict[str, str], body: bytes | None = None
    ) -> bytes | None:
        self.traffic.asked()
        try:
            connection, response = self._answered(method, name, headers, body)
        except (OSError, HTTPException) as exc:
            raise FaultError(_why(exc)) from None
        kept = False
        try:
            if method == "HEAD" and response.status not in _ABSENT:  # some servers know no such question
                kept = self._drained(response)
                return b""
            if 200 <= response.status < 300 and method == "GET":
                data = self._body(response, most)
                kept = not response.will_close
                return data
            kept = self._drained(response)
            if 200 <= response.status < 300 or (response.status in _ABSENT and method != "PUT"):
                return None
            raise refused(response.status, told=self._place.authorization is not None)
        except (OSError, HTTPException) as exc:
            raise FaultError(_why(exc)) from None
        finally:
            if kept:
                self._idle.append(connection)
            else:
                response.close()
                connection.close()
            if self._closed:
                self.rest()

    def _answered(
        self, method: str, name: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Return the beginning of an answer. A connection that was kept may have been closed meanwhile."""
        while True:
            connection, new = self._connection()
            try:
                pieces = None if body is None else _Pieces(body, self.traffic)
                sent = {**self._headers, **headers}
                if body is not None:
                    sent["Content-Length"] = str(len(body))
                if new:
                    connection.connect()
                    _let_wait(connection)
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
        url, proxy = self._place.url, self._proxy
        host, port = url.host, url.port
        if url.scheme == "http":
            host, port = (host, port) if proxy is None else (proxy.host, proxy.port)
            return HTTPConnection(host, port, timeout=_PATIENCE_S)
        if proxy is None:
            return HTTPSConnection(host, port, timeout=_PATIENCE_S)
        connection = HTTPSConnection(proxy.host, proxy.port, timeout=_PATIENCE_S)
        connection.set_tunnel(host, port or 443, proxy.headers)
        return connection

    def _body(self, response: HTTPResponse, most: int) -> bytes:
        """Return what an answer holds: no more is read than it may have, and it has to be whole."""
        promised = response.length
        if promised is not None and promised > most:
            raise too_large(most)
        body = BytesIO()  # pieces in a list would take their memory twice once they are joined
        while piece := response.read(_PIECE):
            self.traffic.moved(len(piece))
            body.write(piece)
            if body.tell() > most:
                raise too_large(most)
        if promised is not None and body.tell() != promised:
            raise FaultError("it broke off")
        return body.getvalue()

    def _drained(self, response: HTTPResponse) -> bool:
        """Read what nobody needs, and say whether the connection can be kept: not for more than a little."""
        if response.length is None or response.length > _PIECE or response.will_close:
            return False
        promised = response.length
        return len(response.read()) == promised


class _Proxy:
    """What stands between this machine and a store, as the environment says."""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        self.host, self.port = parts.hostname or "", parts.port or 80
        user = parts.username
        credentials = basic(unquote(user), unquote(parts.password or "")) if user is not None else None
        self.headers = {} if credentials is None else {"Proxy-Authorization": credentials}


def _proxy(place: Place) -> _Proxy | None:
    url = place.url
    text = getproxies().get(url.scheme)
    host = url.host if url.port is None else f"{url.host}:{url.port}"
    if not text or store_urls.is_here(url) or proxy_bypass(host):  # whoever it is would hear the password
        return None
    try:
        return _Proxy(text)
    except ValueError:
        raise FaultError(f"the variable {url.scheme.upper()}_PROXY names no proxy") from None


def _let_wait(connection: HTTPConnection) -> None:
    """Let little wait in the system for its turn, where it can be told to: a slow line takes long."""
    with contextlib.suppress(AttributeError, OSError):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)


class _Pieces:
    """What is sent, piece by piece, so that what is on its way can be counted."""

    def __init__(self, data: bytes, traffic: Traffic) -> None:
        self._data, self._traffic = data, traffic
        self._at = self._sent = 0

    def read(self, _size: int = -1) -> bytes:
        self._traffic.moved(self._at - self._sent)  # the piece before, which is gone by now
        self._sent = self._at
        self._at = min(self._at + _PIECE, len(self._data))
        return self._data[self._sent : self._at]


def _why(exc: Exception) -> str:
    """Say what went wrong: in words of our own, for those of a library may have what is secret."""
    for kind, why in _WHYS:
        if isinstance(exc, kind):
            return why
    return "it cannot be reached" if isinstance(exc, OSError) else "it does not speak HTTP"


_WHYS: list[tuple[type[Exception], str]] = [
    (TimeoutError, "it does not answer"),
    (socket.gaierror, "nobody knows its name"),
    (ssl.SSLCertVerificationError, "nothing that is trusted here vouches for its certificate"),
    (ssl.SSLError, "it does not speak TLS"),
    (ConnectionRefusedError, "nobody listens there"),
    (ConnectionError, "it broke off"),
    (IncompleteRead, "it broke off"),
]
