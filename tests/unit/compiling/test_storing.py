"""Results are stored while others compile: a few at once, each told when it is done."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache, CacheEntry, Compiled
from hatch_cubin.compiling import processes, storing, storing_process
from hatch_cubin.compiling.storing import MANY, Storing
from hatch_cubin.toolkit.worker import framed, receive

pytestmark = pytest.mark.counted

pytest.importorskip("cuda.core")

FEW = 3
RESULTS = {
    number: (b"%032d" % number, Compiled(b"_Z%d\0" % number * 20, {"k": f"_Z{number}"}, ()))
    for number in range(3 * storing._MOST_SENT)
}
# A build that is killed as soon as a result has left it.
KILLED = """
import os, signal, sys
from pathlib import Path
from hatch_cubin.cache.entries import Cache
from hatch_cubin.compiling.storing import MANY, Storing
from tests.unit.compiling.test_storing import RESULTS, made

cache = Cache(Path(sys.argv[1]), None, print)
results = Storing(cache, print, MANY)
results._writer.take(0, made(cache, 0))
while results._writer._process._unsent:
    results._writer._watch.next(1)
print(results._writer._process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def ignore(_: object) -> None:
    """Take what nobody asks for."""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cubins", None, pytest.fail)


def made(cache: Cache, number: int) -> Callable[[], Sequence[CacheEntry]]:
    key, result = RESULTS[number]
    return lambda: [cache.make_entry(key, result, {"source": key.hex()})]


def store(cache: Cache, count: int, start: Callable[[Storing], object] = ignore) -> list[int]:
    """Store all results, as a build that expects *count* of them, and return those told."""
    told = list[int]()
    with contextlib.closing(Storing(cache, told.append, count)) as results:
        start(results)
        for number in RESULTS:
            results.start(number, made(cache, number))
    return told


def found(cache: Cache) -> dict[int, Compiled | None]:
    return {number: cache.get(key) for number, (key, _result) in RESULTS.items()}


def right() -> dict[int, Compiled]:
    return {number: result for number, (_key, result) in RESULTS.items()}


def wait_for_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        assert select.select([process], [], [], 60)[0]
        os.close(process)


def other_process(results: Storing) -> storing._ProcessWriter:
    assert isinstance(results._writer, storing._ProcessWriter)
    return results._writer


def test_each_is_told_once_it_is_stored_and_in_order(cache: Cache) -> None:
    told: list[int] = []
    first, kept = threading.Event(), list[str]()
    results = Storing(cache, told.append, FEW)

    def slow() -> list[CacheEntry]:
        first.wait(60)
        kept.append("slow")
        return []

    def fast() -> list[CacheEntry]:
        kept.append("fast")
        return []

    results.start(1, slow)
    results.start(2, fast)
    assert (results.settle(2), told) == (False, [])
    first.set()
    assert results.settle(0)
    assert (told, sorted(kept)) == ([1, 2], ["fast", "slow"])
    assert not results.settle(0)
    results.close()


@pytest.mark.parametrize(("count", "most"), [(FEW, storing._MOST), (MANY, storing._MOST_SENT)])
def test_no_more_than_a_few_can_be_lost(cache: Cache, count: int, most: int) -> None:
    told: list[int] = []
    results = Storing(cache, told.append, count)
    for number in RESULTS:
        results.start(number, list)
        assert number + 1 - len(told) <= most
    results.close()
    assert sorted(told) == [*RESULTS]


def test_large_results_are_waited_for(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "_MOST_BYTES", 0)
    told: list[int] = []
    with contextlib.closing(Storing(cache, told.append, MANY)) as results:
        results.start(0, made(cache, 0))
        assert told == [0]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_is_stored_is_found(cache: Cache, count: int) -> None:
    assert sorted(store(cache, count)) == [*RESULTS]
    assert found(cache) == right()


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_was_refused_counts_again_once_it_is_stored(cache: Cache, count: int) -> None:
    refused = RESULTS[0][0]
    cache._refused.add(refused)
    store(cache, count)
    assert found(cache) == right()


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_fault_of_the_folder_is_one_warning(tmp_path: Path, count: int) -> None:
    folder, said = tmp_path / "a-file/cubins", list[str]()
    folder.parent.write_text("no folder")
    assert sorted(store(Cache(folder, None, said.append), count)) == [*RESULTS]
    other = "set HATCH_CUBIN_CACHE_DIR to another folder"
    assert said == [
        f"the cache at {folder} cannot be used fully: {folder.parent} is a file, not a folder: {other}"
    ]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_goes_wrong_is_not_lost(cache: Cache, count: int) -> None:
    def fail() -> list[CacheEntry]:
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        contextlib.closing(Storing(cache, ignore, count)) as results,
    ):
        results.start(1, fail)


def test_what_goes_wrong_in_another_process_goes_wrong_here(cache: Cache) -> None:
    nothing_can_be_stored_under_it: bytes = True  # type: ignore[assignment]
    with (
        pytest.raises(TypeError),
        contextlib.closing(Storing(cache, ignore, MANY)) as results,
    ):
        results.start(1, lambda: [CacheEntry(nothing_can_be_stored_under_it, b"", b"")])


@pytest.mark.parametrize("when", ["before the first", "after the first"])
def test_threads_go_on_where_another_process_is_killed(cache: Cache, when: str) -> None:
    def kill(results: Storing) -> None:
        if when == "after the first":
            results.start(0, made(cache, 0))
            results.settle(0)
        other_process(results)._process.kill()

    assert {*store(cache, MANY, kill)} == {*RESULTS}
    assert found(cache) == right()


@pytest.mark.linux
def test_threads_go_on_where_another_process_is_stopped(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(results: Storing) -> None:
        results.start(0, made(cache, 0))
        results.settle(0)
        monkeypatch.setattr(storing, "_PATIENCE_S", 0.1)
        os.kill(other_process(results)._process._process.pid, signal.SIGSTOP)

    assert {*store(cache, MANY, stop)} == {*RESULTS}
    assert found(cache) == right()


def test_threads_do_it_where_no_process_can_be_started(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_arguments: object) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(processes, "_start", none)
    monkeypatch.setattr(processes, "_start_with_pipes", none)
    assert sorted(store(cache, MANY)) == [*RESULTS]
    assert found(cache) == right()


@pytest.mark.linux
def test_what_has_left_a_build_is_stored_even_where_that_is_killed(cache: Cache) -> None:
    command = [sys.executable, "-c", KILLED, str(cache.folder)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_for_end(int(killed.stdout))
    key, result = RESULTS[0]
    assert cache.get(key) == result


def test_another_process_answers_each_request(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cubins", None, pytest.fail)
    pairs = {number: [tuple(pair) for pair in made(cache, number)()] for number in (1, 2)}
    impossible = [(None, b"", b"")]
    requests = b"".join(
        framed({"id": number, "pairs": pairs}) for number, pairs in {**pairs, 3: impossible}.items()
    )
    answers = io.BytesIO()
    storing_process.serve(io.BytesIO(requests), answers, cache.folder)
    answers.seek(0)
    said = [*iter(lambda: receive(answers), None)]
    first, second, *rest = said
    assert [first, second] == [{"ready": True}, {"id": 1, "fault": None}]
    assert sorted(rest, key=str) == [{"id": 2, "fault": None}, {"id": None, "fault": None}]


def test_another_process_that_is_asked_for_nothing_stores_nothing(tmp_path: Path) -> None:
    storing_process.serve(io.BytesIO(), answers := io.BytesIO(), tmp_path / "cubins")
    assert answers.getvalue() == framed({"ready": True})
    assert not (tmp_path / "cubins").exists()
