"""A store in a bucket of an S3 server that the tests start."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from hatch_cubin.config import store_urls
from hatch_cubin.remote.buckets import _CREDENTIALS, BucketStore
from hatch_cubin.remote.location import StoreTarget
from hatch_cubin.remote.store import StoreError
from tests.helpers import refusal
from tests.store_server import Handler, StoreServer, answer, store_server

from .replacing import check_replace

Open = Callable[..., BucketStore]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Start an S3 server with an empty bucket; return its URL."""
    from moto.server import ThreadedMotoServer  # slow to import

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()  # noqa: S310
    yield url
    server.stop()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    for name in chain(*_CREDENTIALS.values()):
        monkeypatch.delenv(name, raising=False)

    def open_store(
        endpoint: str, url: str = "s3://bucket/of/mine", *, is_from_environment: bool = True
    ) -> BucketStore:
        environ = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "ada",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "NO_PROXY": "127.0.0.1",
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return BucketStore(
            StoreTarget(store_urls.parse(url), None, is_from_environment=is_from_environment), environ
        )

    return open_store


def test_stored_bytes_come_back(endpoint: str, opened: Open) -> None:
    store = opened(endpoint)
    assert store.get("cas/a", 3) is None
    store.put("cas/a", b"abc")
    assert store.get("cas/a", 3) == b"abc"
    assert store.traffic.requests == 3
    assert store.traffic.bytes == 6
    assert opened(endpoint, "s3://bucket").get("of/mine/cas/a", 3) == b"abc"
    store.close_idle()


def test_has_asks_without_reading_the_bytes(endpoint: str, server: StoreServer, opened: Open) -> None:
    store = opened(endpoint, "s3://bucket/there")
    assert not store.has("cas/a")
    store.put("cas/a", b"abc")
    assert store.has("cas/a")
    server.fault = answer(403)
    assert opened(server.url).has("cas/a")  # a HEAD that is refused says nothing


def test_bytes_of_an_upload_count_as_being_sent_until_it_ends(server: StoreServer, opened: Open) -> None:
    store = opened(server.url)
    seen = list[bool]()

    def look(handler: Handler) -> bool:
        seen.append(store.traffic.assume_sent(1))
        return handler.answer(500 if len(seen) > 1 else 200, ETag='"tag"')

    server.fault = look
    store.put("cas/a", b"abc")
    assert (seen, store.traffic.bytes, store.traffic.assume_sent(1)) == ([True], 3, False)
    with pytest.raises(StoreError):
        store.put("cas/b", b"abc")
    assert (all(seen), store.traffic.bytes, store.traffic.assume_sent(1)) == (True, 3, False)


def test_an_answer_larger_than_expected_is_not_read(endpoint: str, opened: Open) -> None:
    store = opened(endpoint)
    store.put("cas/large", b"x" * 1000)
    with pytest.raises(StoreError, match="the store sends more than 999 B"):
        store.get("cas/large", 999)


def test_replace_does_not_overwrite_a_newer_write(endpoint: str, opened: Open) -> None:
    store = opened(endpoint)
    check_replace(store)
    assert store.get("ac/i", 9) == b"two"


def test_a_missing_bucket_is_empty_and_cannot_be_written(endpoint: str, opened: Open) -> None:
    store = opened(endpoint, "s3://nowhere/x")
    assert store.get("cas/a", 9) is None
    with pytest.raises(StoreError, match="the bucket does not exist"):
        store.put("cas/a", b"abc")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "the store denies access"),
        (403, "the store denies access"),
        (503, "the store fails, or cannot be reached"),
    ],
)
def test_a_refusal_is_reported_without_the_servers_text(
    server: StoreServer, opened: Open, status: int, told: str
) -> None:
    server.fault = answer(status, b"<Error><Message>hunter2</Message></Error>")
    store = opened(server.url)
    assert str(refusal(StoreError, store.get, "cas/a", 9)) == told
    with pytest.raises(StoreError) as caught:
        store.put("cas/a", b"abc")
    assert str(caught.value) == told


def test_a_body_that_is_cut_off_is_an_error(server: StoreServer, opened: Open) -> None:
    server.fault = lambda handler: handler.answer(200, b"abc", Content_Length="5") and handler.hang_up()
    with pytest.raises(StoreError, match="the store fails, or cannot be reached"):
        opened(server.url).get("cas/a", 9)


def test_credentials_are_sent_only_to_a_store_from_the_environment(server: StoreServer, opened: Open) -> None:
    opened(server.url).get("cas/a", 9)
    opened(server.url, is_from_environment=False).get("cas/a", 9)
    first, second = server.log
    assert first.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=ada/")
    assert "authorization" not in second.headers


def test_without_credentials_the_clouds_metadata_server_is_not_asked(
    server: StoreServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(server.url)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.url)
    BucketStore(
        StoreTarget(store_urls.parse("s3://bucket"), None, is_from_environment=True),
        {"AWS_ENDPOINT_URL": server.url},
    ).get("a", 9)
    assert [asked.path for asked in server.log] == ["/bucket/a"]


def test_a_redirect_is_followed_without_credentials(server: StoreServer, opened: Open) -> None:
    """obstore follows redirects. That is safe: results are checked, and credentials are not sent along."""
    with store_server() as other:
        server.fault = answer(307, Location=f"{other.url}/elsewhere")
        opened(server.url).get("cas/a", 9)
        (asked,) = other.log
        assert "authorization" not in asked.headers
