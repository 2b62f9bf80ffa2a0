"""The nginx configuration of the guide, with a real nginx if there is one."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import Request
from hatch_cubin.remote.calls import StoreCalls
from hatch_cubin.remote.http import HttpStore
from hatch_cubin.remote.location import store_target
from hatch_cubin.remote.shared_store import MAX_SINGLE_UNITS, SharedStore
from tests.cached_results import folder_with, item
from tests.helpers import REPOSITORY, read_config, write_tree

pytestmark = pytest.mark.nginx

GUIDE = (REPOSITORY / "docs/guides/shared-cache.md").read_text("utf-8")
ITEMS = [item(f"unit {number}", 40_000) for number in range(60)]
KEYS = [each.key for each in ITEMS]
AROUND = """\
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{}}
http {{
  access_log access.log;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""


def location(root: Path) -> str:
    """Return the `location` of the guide's nginx configuration, with the paths of this test."""
    (found,) = re.findall(r"^    location .*?^    \}\n", GUIDE, re.MULTILINE | re.DOTALL)
    there = {"root /srv;": f"root {root}/srv;", "/etc/nginx/cubins.htpasswd": f"{root}/htpasswd"}
    for place, here in there.items():
        assert place in found
        found = found.replace(place, here)
    return str(found)


@pytest.fixture(params=["64m", "1m"])
def server(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """Run nginx; return the largest body that it accepts, and its URL without a scheme."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = AROUND.format(port=port, location=location(tmp_path).replace("64m", request.param))
    write_tree(tmp_path, {"nginx.conf": text, "htpasswd": "ci:{PLAIN}hunter2\n", "srv/cubins/.keep": ""})
    command: list[str | Path] = [
        "nginx",
        "-c",
        tmp_path / "nginx.conf",
        "-p",
        tmp_path,
        "-e",
        tmp_path / "error.log",
    ]
    with subprocess.Popen(command) as nginx:
        try:
            while nginx.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    continue
            yield request.param, f"127.0.0.1:{port}/cubins"
        finally:
            nginx.terminate()


def store_of_machine(folder: Path, url: str, said: list[str], units: int) -> SharedStore:
    environ = {"HATCH_CUBIN_REMOTE": url}
    place = store_target(read_config("", environ), environ)
    assert place is not None
    store = StoreCalls(HttpStore(place), said.append, patience_s=60)
    return SharedStore(store, Cache(folder, None, said.append), name=("demo", "13.0.88"), units=units)


@pytest.mark.parametrize("units", [MAX_SINGLE_UNITS, MAX_SINGLE_UNITS + 1], ids=["few", "many"])
def test_writing_needs_the_password_and_reading_does_not(
    tmp_path: Path, server: tuple[str, str], units: int
) -> None:
    max_body_size, address = server
    said = list[str]()
    folder_with(tmp_path / "one", ITEMS)
    store_of_machine(tmp_path / "one", f"http://{address}", said, 1).push(KEYS[:1])
    assert said == ["the store asks for a user and password, which belong in HATCH_CUBIN_REMOTE (401)"]
    said.clear()
    store_of_machine(tmp_path / "one", f"http://ci:hunter2@{address}", said, units).push(KEYS)
    other = store_of_machine(tmp_path / "other", f"http://{address}", said, units)
    other.fetch(dict.fromkeys(KEYS, Request()))
    if max_body_size == "1m" and units > MAX_SINGLE_UNITS:  # a pack of 2.4 MB
        assert said == [
            "the store does not accept such a large file; for nginx, set 'client_max_body_size 64m' (413)"
        ]
    else:
        assert (said, other.fetched) == ([], {*KEYS})
