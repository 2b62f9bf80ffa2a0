"""A store on an HTTP server, over a real socket."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.client import BadStatusLine, HTTPResponse, IncompleteRead
from itertools import pairwise

import pytest

from hatch_cubin.config import store_urls
from hatch_cubin.remote import http
from hatch_cubin.remote.http import HttpStore
from hatch_cubin.remote.location import StoreTarget
from hatch_cubin.remote.store import StoreError
from tests.helpers import refusal
from tests.store_server import Fault, Handler, StoreServer, answer, endless, reset, store_server


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


Open = Callable[..., HttpStore]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens stores; close their connections after the test."""
    stores = list[HttpStore]()

    def open_store(url: str, authorization: str | None = None) -> HttpStore:
        stores.append(HttpStore(StoreTarget(store_urls.parse(url), authorization, is_from_environment=True)))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close_idle()


def error_of(store: HttpStore, server: StoreServer, fault: Fault, max_size: int = 100) -> str:
    server.fault = fault
    return str(refusal(StoreError, store.get, "cas/a", max_size))


def test_stored_bytes_come_back(server: StoreServer, opened: Open) -> None:
    store = opened(f"{server.url}/of/mine/")
    assert store.get("cas/a", 3) is None
    store.put("cas/a", b"abc")
    assert store.get("cas/a", 3) == b"abc"
    assert store.replace("ac/i", b"index", None) is False  # another write may have been lost
    assert store.read("ac/i", 5) == (b"index", None)
    assert server.files == {"/of/mine/cas/a": b"abc", "/of/mine/ac/i": b"index"}
    assert (store.url, store.traffic.requests) == (f"{server.url}/of/mine", 5)
    assert store.traffic.bytes == len(b"abc" * 2 + b"index" * 2)
    store.put("cas/large", b"x" * 40_000)
    assert store.traffic.bytes == 16 + 40_000


def test_an_index_is_read_without_caches_and_without_etags(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    store.read("ac/i", 5)
    (asked,) = server.log
    assert asked.headers["Cache-Control"] == "no-cache"
    assert not {name for name in asked.headers if name.startswith("If-")}


def test_has_asks_without_reading_the_bytes(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    assert not store.has("cas/a")
    store.put("cas/a", b"abc")
    assert store.has("cas/a")
    assert store.traffic.bytes == 3
    server.fault = answer(405)  # some servers do not support HEAD
    assert store.has("cas/b")
    assert server.take_log() == ["HEAD cas", "PUT cas", "HEAD cas", "HEAD cas"]


def test_the_system_buffers_little_of_an_upload(server: StoreServer, opened: Open) -> None:
    """Buffered bytes count as sent: with megabytes in a buffer, a slow upload would show no progress."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is None:
        pytest.skip("this system takes as much as it likes")
    store = opened(server.url)
    store.put("cas/a", b"abc")
    (connection,) = store._idle
    assert connection.sock.getsockopt(socket.IPPROTO_TCP, option) == http._MAX_UNSENT


def test_a_401_despite_credentials_says_that_they_are_not_right(server: StoreServer, opened: Open) -> None:
    told = "the store does not accept the user and password, or the token (401)"
    assert error_of(opened(server.url, "Bearer hunter3"), server, answer(401)) == told


def test_credentials_are_sent(server: StoreServer, opened: Open) -> None:
    opened(server.url, "Bearer hunter2").get("cas/a", 1)
    opened(server.url).get("cas/a", 1)
    assert [asked.headers.get("Authorization") for asked in server.log] == ["Bearer hunter2", None]


def test_a_connection_that_breaks_within_a_body_is_an_error(
    server: StoreServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_asked: object) -> bytes:
        raise ConnectionResetError

    store = opened(server.url)
    store.put("cas/a", b"abc")
    monkeypatch.setattr(HTTPResponse, "read", cut)
    assert str(refusal(StoreError, store.get, "cas/a", 3)) == "the connection broke off"
    assert store._idle == []


def test_a_connection_is_reused(server: StoreServer, opened: Open) -> None:
    peers = list[int]()

    def look(handler: Handler) -> bool:
        peers.append(handler.client_address[1])
        return False

    server.fault = look
    store = opened(server.url)
    for _ in range(3):
        store.get("cas/a", 3)
        store.put("cas/a", b"abc")
        store.get("cas/a", 3)
    assert len(peers) == 9
    assert all(before == after for before, after in pairwise(peers))


def test_a_connection_that_the_server_closed_is_opened_again(server: StoreServer, opened: Open) -> None:
    def close(handler: Handler) -> bool:
        handler.usual()
        return handler.hang_up()

    store = opened(server.url)
    store.put("cas/a", b"abc")
    server.fault = close
    assert store.get("cas/a", 3) == b"abc"
    server.fault = lambda _handler: False
    assert store.get("cas/a", 3) == b"abc"


def test_a_connection_that_must_not_be_reused_is_closed(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    server.fault = lambda handler: handler.answer(200, b"abc", Connection="close")
    assert [store.get("cas/a", 3) for _ in range(2)] == [b"abc"] * 2
    server.fault = lambda handler: handler.answer(404, b"x" * (1 << 20))
    assert [store.get("cas/a", 3) for _ in range(2)] == [None] * 2


def test_a_closed_store_sends_no_requests(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    store.get("cas/a", 3)
    store.close()
    with pytest.raises(StoreError, match="the connection broke off"):
        store.get("cas/a", 3)
    assert len(server.log) == 1


def test_an_answer_that_comes_after_closing_leaves_no_connection_open(
    server: StoreServer, opened: Open
) -> None:
    store = opened(server.url)

    def close(_handler: Handler) -> bool:
        store.close()
        return False

    server.fault = close
    assert store.get("cas/a", 3) is None
    assert store._idle == []


def test_a_chunked_body_is_read(server: StoreServer, opened: Open) -> None:
    def chunks(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        return True

    server.fault = chunks
    store = opened(server.url)
    assert store.get("cas/a", 3) == b"abc"
    with pytest.raises(StoreError, match="the store sends more than 2 B"):
        store.get("cas/a", 2)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            301,
            (
                "the store redirects to another URL (301), but hatch-cubin "
                "does not follow redirects: use that URL"
            ),
        ),
        (401, "the store asks for a user and password, which belong in HATCH_CUBIN_REMOTE (401)"),
        (403, "the store denies access (403)"),
        (
            413,
            "the store does not accept such a large file; for nginx, set 'client_max_body_size 64m' (413)",
        ),
        (418, "the store refuses the request (418)"),
        (429, "the store asks for fewer requests (429)"),
        (500, "the store fails (500)"),
        (507, "the store is full (507)"),
    ],
)
def test_each_status_is_reported_by_its_meaning_without_the_servers_text(
    server: StoreServer, status: int, told: str, opened: Open
) -> None:
    store = opened(server.url)

    headers = {"Location": "https://ada:hunter2@evil.example", "Retry_After": "9999"}
    assert error_of(store, server, answer(status, b"a secret", **headers)) == told
    assert str(refusal(StoreError, store.put, "cas/a", b"abc")) == told
    assert len(server.log) == 2


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_uploads_is_reported(server: StoreServer, status: int, opened: Open) -> None:
    server.fault = answer(status)
    told = f"the store does not accept uploads, which are PUT requests ({status})"
    assert str(refusal(StoreError, opened(server.url).put, "cas/a", b"abc")) == told


def test_a_304_is_an_error(server: StoreServer, opened: Open) -> None:
    assert error_of(opened(server.url), server, answer(304)) == "the store refuses the request (304)"


def promise(size: int, body: bytes) -> Fault:
    def broken(handler: Handler) -> bool:
        handler.answer(200, body, Content_Length=str(size))
        return handler.hang_up()

    return broken


def nonsense(handler: Handler) -> bool:
    handler.wfile.write(b"220 mail.example ESMTP\r\n\r\n")
    return handler.hang_up()


def test_a_body_of_another_length_than_announced_is_an_error(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    assert error_of(store, server, promise(5, b"abc")) == "the connection broke off"
    too_much = "the store sends more than 100 B, the largest expected size"
    assert error_of(store, server, promise(10 << 30, b"abc")) == too_much
    assert error_of(store, server, endless) == too_much
    assert store.traffic.bytes < 1 << 20


def test_an_answer_that_is_not_http_is_an_error(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    assert error_of(store, server, reset) == "the connection broke off"
    assert error_of(store, server, nonsense) == "the store does not speak HTTP"
    assert (
        error_of(opened(server.url.replace("http:", "https:")), server, nonsense)
        == "the store does not speak TLS"
    )


def test_an_address_without_a_server_is_an_error(opened: Open) -> None:
    with store_server() as gone:
        url = gone.url
    with pytest.raises(StoreError, match="no server listens at this address"):
        opened(url).get("cas/a", 1)


@pytest.mark.parametrize(
    ("exc", "told"),
    [
        (TimeoutError("timed out"), "the store does not answer"),
        (socket.gaierror(-2, "Name or service not known"), "the store's host name cannot be resolved"),
        (
            ssl.SSLCertVerificationError(1, "self-signed"),
            "the store's TLS certificate is not trusted on this machine",
        ),
        (BrokenPipeError(32, "Broken pipe"), "the connection broke off"),
        (IncompleteRead(b"abc"), "the connection broke off"),
        (BadStatusLine("hunter2"), "the store does not speak HTTP"),
        (OSError(113, "No route to host"), "the store cannot be reached"),
    ],
)
def test_exceptions_are_reported_in_our_own_words(exc: Exception, told: str) -> None:
    assert http._reason(exc) == told


def test_the_proxy_of_the_environment_is_used(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//ada:hunter2@"))
    store = opened("http://cache.example/of/mine", "Bearer token")
    assert store.get("cas/a", 1) is None
    (asked,) = server.log
    assert asked.path == "http://cache.example/of/mine/cas/a"
    assert asked.headers["Host"] == "cache.example"
    assert asked.headers["Authorization"] == "Bearer token"
    assert asked.headers["Proxy-Authorization"] == f"Basic {b64encode(b'ada:hunter2').decode()}"
    monkeypatch.setenv("no_proxy", "cache.example")
    assert opened("http://cache.example:1")._proxy is None


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_store_on_this_machine_is_asked_without_a_proxy(
    scheme: str, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    """A password may be sent over http:// to this machine only because it does not leave it."""
    monkeypatch.setenv(f"{scheme}_proxy", "http://proxy.example:3128")
    assert opened(f"{scheme}://localhost:8080", "Basic password")._proxy is None
    assert opened(f"{scheme}://cache.example", None)._proxy is not None


def test_a_proxy_does_not_see_credentials_that_go_over_https(
    monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    heard = list[bytes]()

    def listen() -> None:
        connection, _address = listener.accept()
        heard.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=listen)
    thread.start()
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(StoreError, match="the store cannot be reached"):
        opened("https://cache.example", "Bearer hunter2").get("cas/a", 1)
    thread.join(60)
    listener.close()
    assert heard[0].startswith(b"CONNECT cache.example:443 HTTP/1.")
    assert b"hunter2" not in heard[0]


def test_an_invalid_proxy_variable_is_reported_without_its_value(
    monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.setenv("https_proxy", "http://ada:hunter2@proxy.example:port")
    with pytest.raises(StoreError) as caught:
        opened("https://cache.example")
    assert str(caught.value) == "the variable HTTPS_PROXY is not the URL of a proxy"
