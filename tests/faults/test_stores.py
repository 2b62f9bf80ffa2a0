"""Whatever a shared store does wrong, a build gets one warning and the right wheel, and loses little time."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import Request
from hatch_cubin.common import user_folders
from hatch_cubin.config import store_urls
from hatch_cubin.project.project import Project
from hatch_cubin.remote import calls, shared_store
from hatch_cubin.remote.calls import StoreCalls
from hatch_cubin.remote.http import HttpStore
from hatch_cubin.remote.location import StoreTarget
from hatch_cubin.remote.shared_store import MAX_SINGLE_UNITS, SharedStore
from tests.cached_results import folder_with, item
from tests.helpers import SAXPY, make_project, run_threads
from tests.store_server import Fault, Handler, StoreServer, answer, endless, reset

pytestmark = pytest.mark.counted

ITEMS = [item(f"unit {number}", 1000) for number in range(20)]
KEYS = [each.key for each in ITEMS]
SMALL_AND_LARGE_PROJECT = pytest.mark.parametrize(
    "units", [MAX_SINGLE_UNITS, MAX_SINGLE_UNITS + 1], ids=["few", "many"]
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(calls, "_POLL_S", 0.02)
    monkeypatch.setattr(shared_store, "_RETRY_PAUSE_S", 0.01)


def cut_off(handler: Handler) -> bool:
    body = handler.server.files.get(handler.path, b"12345")
    handler.answer(200, body[: len(body) // 2], Content_Length=str(len(body)))
    return handler.hang_up()


def wrong_length(handler: Handler) -> bool:
    body = handler.server.files.get(handler.path, b"12345")
    return handler.answer(200, body[: len(body) // 2])


def another(handler: Handler) -> bool:
    """Send the file of another name."""
    files = handler.server.files
    return handler.answer(200, next((files[name] for name in files if name != handler.path), b""))


def hang(handler: Handler) -> bool:
    return handler.server.over.wait(60)


def drip(handler: Handler) -> bool:
    """Send an endless header, a byte at a time."""
    while not handler.server.over.wait(0.005):
        handler.wfile.write(b"X")
    return True


def trickle(handler: Handler) -> bool:
    """Send the right file so slowly that each poll of the build sees a few bytes, and never its last byte."""
    body = handler.server.files.get(handler.path, bytes(1 << 16))
    handler.answer(200, b"", Content_Length=str(len(body)))
    return trickled(handler, body)


def trickled_error(handler: Handler) -> bool:
    handler.answer(500, b"", Content_Length="15000")
    return trickled(handler, bytes(15000))


def endless_chunks(handler: Handler) -> bool:
    handler.answer(200, b"", Transfer_Encoding="chunked", Content_Length="0")
    while not handler.server.over.wait(0.005):
        handler.wfile.write(b"10\r\n" + b"x" * 16 + b"\r\n")
    return True


def endless_headers(handler: Handler) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.wait(0.005):
        handler.wfile.write(b"X-More: 1\r\n")
    return True


def endless_continues(handler: Handler) -> bool:
    while not handler.server.over.wait(0.005):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return True


def trickled(handler: Handler, body: bytes) -> bool:
    for at in range(len(body) - 1):
        if handler.server.over.wait(0.005):
            return True
        handler.wfile.write(body[at : at + 1])
    return hang(handler)


def large(handler: Handler) -> bool:
    handler.answer(200, b"", Content_Length=str(10 << 30))
    return hang(handler)


FAULTS: Mapping[str, Fault] = {
    "404 with a body": answer(404, b"<html>" + b"x" * (1 << 16)),
    "429": answer(429, Retry_After="3600"),
    "500": answer(500, b"Traceback: secret"),
    "403": answer(403),
    "empty 200": answer(200),
    "redirect": answer(302, Location="http://127.0.0.1:1/"),
    "redirect to a file": answer(301, Location="file:///etc/passwd"),
    "reset": reset,
    "cut off": cut_off,
    "wrong length": wrong_length,
    "another's": another,
    "10 GB": large,
    "endless": endless,
    "hang": hang,
    "drip": drip,
    "trickle": trickle,
    "trickled error": trickled_error,
    "endless chunks": endless_chunks,
    "endless headers": endless_headers,
    "endless continues": endless_continues,
}
SILENT = {"404 with a body"}


def store_of_machine(
    server: StoreServer, folder: Path, units: int, said: list[str], patience_s: float = 60
) -> SharedStore:
    """Open the store for a build whose cache folder is *folder*."""
    store = HttpStore(StoreTarget(store_urls.parse(server.url), None, is_from_environment=True))
    cache = Cache(folder, None, said.append)
    return SharedStore(StoreCalls(store, said.append, patience_s), cache, name=("demo", "13.0"), units=units)


def count_right_results(folder: Path) -> int:
    """Check that all results in a cache folder are right, and return how many there are."""
    cache = Cache(folder, None, lambda _text: None)
    found = {each: cache.get(each.key) for each in ITEMS}
    assert all(hit is None or hit.data == each.data for each, hit in found.items())
    assert cache.damaged == 0
    return sum(hit is not None for hit in found.values())


@SMALL_AND_LARGE_PROJECT
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kinds", [("ac", "cas"), ("cas",)], ids=["always", "for blobs"])
def test_a_build_goes_on_whatever_a_store_answers(
    tmp_path: Path, server: StoreServer, fault: str, units: int, kinds: tuple[str, ...]
) -> None:
    folder_with(tmp_path / "first", ITEMS)
    store_of_machine(server, tmp_path / "first", units, []).push(KEYS)
    server.log.clear()
    server.fault = lambda handler: handler.path.split("/")[1] in kinds and FAULTS[fault](handler)
    said = list[str]()
    one = store_of_machine(server, tmp_path / "second", units, said, patience_s=0.2)
    one.fetch(dict.fromkeys(KEYS, Request()))
    assert count_right_results(tmp_path / "second") == 0
    folder_with(tmp_path / "second", ITEMS)
    one.push(KEYS)
    assert len(said) <= 1
    assert len(said) == (fault not in SILENT) or fault.startswith("404")
    assert not any("secret" in text or "passwd" in text for text in said)
    server.fault = lambda _handler: False
    later = list[str]()
    again = store_of_machine(server, tmp_path / "third", units, later)
    again.fetch(dict.fromkeys(KEYS, Request()))
    got = count_right_results(tmp_path / "third")
    assert got == len(again.fetched)
    folder_with(tmp_path / "third", ITEMS)
    again.push(KEYS)
    last = store_of_machine(server, tmp_path / "fourth", units, later)
    last.fetch(dict.fromkeys(KEYS, Request()))
    assert count_right_results(tmp_path / "fourth") == len(ITEMS)
    assert later == []


@SMALL_AND_LARGE_PROJECT
def test_a_store_that_lost_half_its_blobs_serves_the_other_half(
    tmp_path: Path, server: StoreServer, units: int
) -> None:
    said = list[str]()
    for start in range(0, len(ITEMS), 5):  # packs of five
        folder_with(tmp_path / "first", ITEMS[start : start + 5])
        store_of_machine(server, tmp_path / "first", units, said).push(KEYS[: start + 5])
    lost = sorted(name for name in server.files if name.startswith("/cas/"))[::2]
    for name in lost:
        del server.files[name]
    one = store_of_machine(server, tmp_path / "second", units, said)
    one.fetch(dict.fromkeys(KEYS, Request()))
    assert count_right_results(tmp_path / "second") == len(one.fetched) == len(ITEMS) // 2
    folder_with(tmp_path / "second", ITEMS)
    one.push(KEYS)
    store_of_machine(server, tmp_path / "third", units, said).fetch(dict.fromkeys(KEYS, Request()))
    assert count_right_results(tmp_path / "third") == len(ITEMS)
    assert said == []


@SMALL_AND_LARGE_PROJECT
def test_a_blob_with_a_flipped_bit_is_not_used(
    tmp_path: Path, server: StoreServer, units: int, chance: random.Random, figures: Any
) -> None:
    folder_with(tmp_path / "first", ITEMS)
    store_of_machine(server, tmp_path / "first", units, []).push(KEYS)
    whole = dict(server.files)
    for number in range(figures.pick(20, 2000)):
        server.files |= whole
        name = chance.choice(sorted(whole))
        data = bytearray(whole[name])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        server.files[name] = bytes(data)
        folder = tmp_path / f"flip {number}"
        store_of_machine(server, folder, units, []).fetch(dict.fromkeys(KEYS, Request()))
        assert count_right_results(folder) <= len(ITEMS)


@SMALL_AND_LARGE_PROJECT
def test_many_writers_at_once_leave_right_results(tmp_path: Path, server: StoreServer, units: int) -> None:
    said = list[str]()
    start = threading.Barrier(8, timeout=60)

    def write(number: int) -> None:
        own = ITEMS[number * 2 : number * 2 + 8]
        folder_with(tmp_path / f"{number}", own)
        one = store_of_machine(server, tmp_path / f"{number}", units, said)
        start.wait()
        one.push([each.key for each in own])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    run_threads(threads)
    one = store_of_machine(server, tmp_path / "reader", units, said)
    one.fetch(dict.fromkeys(KEYS, Request()))
    assert count_right_results(tmp_path / "reader") == len(one.fetched) > 0
    assert said == []


# Whole builds


@pytest.fixture
def build(
    tmp_path: Path, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Return a function that builds with a new cache folder and the server, and returns the report."""
    pytest.importorskip("cuda.core")
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path / "own")
    machines = iter(range(100))

    def run(**environ: str) -> dict[str, Any]:
        said, here = list[str](), tmp_path / f"machine {next(machines)}"
        kernels = {f"k{number}.cu": SAXPY.replace("saxpy", f"k{number}") for number in range(3)}
        own = {
            "HATCH_CUBIN_CACHE_DIR": str(here / "cache"),
            "HATCH_CUBIN_REMOTE": server.url,
            "HATCH_CUBIN_REPORT": str(here / "report.json"),
        }
        project = make_project(here, kernels, "archs = ['sm_90']\n", **own, **environ)
        files = pipeline.build(replace(project, warn=said.append))
        report = json.loads((here / "report.json").read_text("utf-8"))
        return {"files": files, "said": said, **report}

    return run


@pytest.mark.nvrtc
def test_the_next_machine_fetches_what_a_build_compiled(
    server: StoreServer, build: Callable[..., Any]
) -> None:
    first = build()
    assert (first["compiled"], first["remote"]["pushed"], server.files) == (3, 0, {})
    second = build(HATCH_CUBIN_REMOTE_WRITE="1")
    assert (second["compiled"], second["remote"]["pushed"]) == (3, 3)
    third = build(HATCH_CUBIN_REQUIRE_HITS="1")
    assert (third["hits"], [unit["tier"] for unit in third["units"]]) == (3, ["remote"] * 3)
    assert first["files"] == second["files"] == third["files"]
    assert [each["said"] for each in (first, second, third)] == [[], [], []]


@pytest.mark.nvrtc
@pytest.mark.parametrize("fault", ["500", "hang", "another's"])
def test_a_faulty_store_does_not_change_the_wheel(
    server: StoreServer, build: Callable[..., Any], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatch_cubin.remote.opening.PATIENCE_S", 0.2)
    sound = build(HATCH_CUBIN_REMOTE_WRITE="1")
    server.fault = FAULTS[fault]
    found = build(HATCH_CUBIN_REMOTE_WRITE="1")
    assert (found["files"], found["compiled"], found["hits"]) == (sound["files"], 3, 0)
    (said,) = found["said"]
    assert said == f"the remote cache at {server.url} cannot be used fully: {found['remote']['fault']}"


@pytest.mark.nvrtc
def test_verify_rebuild_does_not_use_the_store(
    tmp_path: Path, server: StoreServer, build: Callable[..., Any]
) -> None:
    from hatch_cubin.wheels.checking.rebuild import rebuild

    build(HATCH_CUBIN_REMOTE_WRITE="1")
    server.log.clear()
    project = make_project(tmp_path / "again", {"k0.cu": SAXPY}, HATCH_CUBIN_REMOTE=server.url)
    assert isinstance(project, Project)
    rebuild(project)
    assert server.log == []
