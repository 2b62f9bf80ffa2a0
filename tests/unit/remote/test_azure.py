"""A store in a container of Azurite, Microsoft's server for tests, if Azurite is installed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from hatch_cubin.config import store_urls
from hatch_cubin.remote.buckets import BucketStore
from hatch_cubin.remote.location import StoreTarget
from hatch_cubin.remote.store import StoreError

from .replacing import check_replace

pytestmark = pytest.mark.azurite

ACCOUNT = "devstoreaccount1"
KEY = base64.b64encode(b"a key of 32 bytes for the tests!").decode()


@pytest.fixture(autouse=True)
def _server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run Azurite with an empty container, and point the environment variables at Azurite."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    environ = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
    environ |= {"AZURE_STORAGE_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    for name, value in {**environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}.items():
        monkeypatch.setenv(name, value)
    options = ("--silent", "--skipApiVersionCheck", "--disableTelemetry")
    command = ("azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", tmp_path)
    with subprocess.Popen([*command, *options]) as azurite:
        try:
            while azurite.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
            _create_container(endpoint, "container")
            yield
        finally:
            azurite.terminate()


def _create_container(endpoint: str, name: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(f"{name}:{value}" for name, value in headers.items())
    text = f"PUT{chr(10) * 12}{signed}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).close()  # noqa: S310


def opened(url: str = "az://container/of/mine") -> BucketStore:
    return BucketStore(StoreTarget(store_urls.parse(url), None, is_from_environment=True), os.environ)


def test_a_container_stores_and_replaces_as_a_bucket_does(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    assert store.get("cas/a", 3) is None
    store.put("cas/a", b"abc")
    assert store.get("cas/a", 3) == b"abc"
    assert (store.has("cas/a"), store.has("cas/b")) == (True, False)
    check_replace(store)
    assert opened("az://container").get("of/mine/ac/i", 9) == b"two"
    assert opened("az://nowhere").get("cas/a", 3) is None
    with pytest.raises(StoreError, match="the bucket does not exist"):
        opened("az://nowhere").put("cas/a", b"abc")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another key").decode())
    with pytest.raises(StoreError, match="the store denies access"):
        opened().put("cas/a", b"abc")
