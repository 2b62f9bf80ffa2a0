"""Requests to a store: in parallel, with a limit on waiting in total, and none after three faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hatch_cubin.remote import calls
from hatch_cubin.remote.calls import StoreCalls
from hatch_cubin.remote.store import StoreError, TrafficCounter


class Store:
    """A store with nothing but a counter of its traffic."""

    url = "https://cache.example"

    def __init__(self) -> None:
        self.traffic = TrafficCounter()

        self.closed = 0

    get = read = has = put = replace = close_idle = None

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(calls, "_POLL_S", 0.01)
    return Store()


@pytest.fixture
def asked(store: Store, said: list[str]) -> StoreCalls:
    return StoreCalls(store, said.append, patience_s=0.1)  # type: ignore[arg-type]  # it is asked for nothing itself


@pytest.fixture
def hang() -> Iterator[Callable[[], None]]:
    """Return a task that runs until the test is over."""
    over = threading.Event()
    yield lambda: assert_waited(over)
    over.set()


def assert_waited(over: threading.Event) -> None:
    assert over.wait(60)


def fail() -> None:
    raise StoreError("the store is full")


def test_each_result_comes_with_the_key_of_its_task(asked: StoreCalls, said: list[str]) -> None:
    tasks = [(number, lambda number=number: number * number) for number in range(100)]
    assert sorted(asked.run_all(tasks, 16)) == [(number, number * number) for number in range(100)]
    assert (said, asked.first_fault) == ([], None)


def test_tasks_run_in_parallel_up_to_the_limit(asked: StoreCalls) -> None:
    both = threading.Barrier(2, timeout=60)
    begun = list[int]()

    def tasks() -> Iterator[tuple[int, Callable[[], int]]]:
        for number in range(6):
            begun.append(number)
            yield number, both.wait

    asked._patience_left_s = 60
    answers = asked.run_all(tasks(), 2)
    next(answers)
    assert begun == [0, 1]  # the next one starts when its result is wanted
    assert len([*answers]) == 5


def test_after_three_faults_the_store_is_given_up_and_the_first_is_reported(
    asked: StoreCalls, said: list[str]
) -> None:
    begun = list[int]()

    def tasks() -> Iterator[tuple[int, Callable[[], None]]]:
        for number in range(100):
            begun.append(number)
            yield number, fail

    assert [*asked.run_all(tasks(), 1)] == []
    assert (begun, said, asked.first_fault) == ([0, 1, 2], ["the store is full"], "the store is full")
    assert asked.run_one(begun.clear) is None
    assert begun == [0, 1, 2]


def test_after_one_fault_the_other_tasks_still_run(asked: StoreCalls, said: list[str]) -> None:
    assert [*asked.run_all([(1, fail), (2, lambda: None)], 1)] == [(2, None)]
    assert said == ["the store is full"]


def test_an_unexpected_exception_is_a_fault_without_its_text(asked: StoreCalls, said: list[str]) -> None:
    def broken() -> None:
        raise ValueError("Invalid header value 'Bearer secret'")

    assert asked.run_one(broken) is None
    assert said == ["a request ended with ValueError"]


def test_a_store_that_hangs_is_given_up(asked: StoreCalls, said: list[str], hang: Callable[[], None]) -> None:
    assert [*asked.run_all([(1, hang), (2, hang)], 2)] == []
    assert said == ["the store does not answer"]
    assert asked.run_one(lambda: 1) is None


def test_a_store_that_sends_next_to_nothing_is_given_up(
    asked: StoreCalls, said: list[str], store: Store
) -> None:
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.001):
            store.traffic.count_bytes(1)

    assert asked.run_one(drip) is None
    over.set()
    assert said == ["the store is too slow"]


def test_a_store_that_sends_much_may_take_longer(asked: StoreCalls, said: list[str], store: Store) -> None:
    asked._patience_s = asked._patience_left_s = (
        1.0  # longer than a thread of a busy machine is kept from running
    )
    slices = 0

    def send() -> str:
        nonlocal slices
        over = threading.Event()
        for slices in range(100):  # noqa: B007 - it counts
            store.traffic.count_bytes(1 << 20)
            over.wait(0.015)
        return "all"

    assert asked.run_one(send) == "all"
    assert (said, slices) == ([], 99)


def trickled(bytes_a_second: int, seconds: float = 60) -> tuple[list[str], float]:
    """Read an answer at this speed; return the warnings, and for how long the store was waited for."""
    store, said = Store(), list[str]()
    over = threading.Event()

    def send() -> None:
        begun = time.monotonic()
        sent = 0
        while not over.wait(0.005) and time.monotonic() - begun < seconds:
            count = int((time.monotonic() - begun) * bytes_a_second) - sent
            store.traffic.count_bytes(count)
            sent += count

    begun = time.monotonic()
    StoreCalls(store, said.append, patience_s=0.5).run_one(send)  # type: ignore[arg-type]
    over.set()
    return said, time.monotonic() - begun


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_waits_for_a_trickling_store_add_up(share: float) -> None:
    """Some bytes come in each poll, so a limit for a single wait would never end it."""
    said, took = trickled(int(share * calls._MIN_BYTES_PER_S), seconds=20)
    assert said == ["the store is too slow" if share else "the store does not answer"]
    assert took < 20  # 0.5 to 1 s on an idle machine


def test_a_line_above_the_minimum_rate_may_take_longer() -> None:
    said, took = trickled(2 * calls._MIN_BYTES_PER_S, seconds=1.5)
    assert said == []
    assert took >= 1.5  # three times the wait for a store that sends nothing


def test_waits_for_many_slow_answers_add_up(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_CREDIT_PER_ANSWER_S", 0.001)
    asked = StoreCalls(Store(), said.append, patience_s=0.1)  # type: ignore[arg-type]
    tasks = [(number, lambda: time.sleep(0.01)) for number in range(1000)]
    assert len([*asked.run_all(tasks, 1)]) < 500
    assert said == ["the store is too slow"]
    assert asked.run_one(lambda: 1) is None


def test_answers_never_raise_patience_above_its_start(
    asked: StoreCalls, said: list[str], store: Store, hang: Callable[[], None]
) -> None:
    store.traffic.count_bytes(1 << 40)
    assert len([*asked.run_all([(number, lambda: 1) for number in range(1000)], 4)]) == 1000
    assert asked._patience_left_s <= 0.1
    assert asked.run_one(hang) is None
    assert said == ["the store does not answer"]


def test_a_pause_costs_patience(asked: StoreCalls, said: list[str]) -> None:
    asked.pause(0.05)
    assert asked._patience_left_s == pytest.approx(0.05)
    for _ in range(2):
        asked.pause(60)  # cut to the patience that is left
    assert said == ["the store is too slow"]


def test_an_upload_without_progress_may_take_time_by_its_size(
    asked: StoreCalls, said: list[str], store: Store, hang: Callable[[], None]
) -> None:
    slices = 20  # twice as long as the patience of these calls

    def send() -> str:
        store.traffic.begin_sending(slices * calls._ASSUMED_SENT_PER_POLL)
        while store.traffic.assume_sent(0):
            time.sleep(0.001)
        return "all"

    assert asked.run_one(send) == "all"
    store.traffic.begin_sending(calls._ASSUMED_SENT_PER_POLL)
    assert asked.run_one(hang) is None
    assert said == ["the store does not answer"]


def test_a_finished_upload_gives_no_more_time() -> None:
    traffic = TrafficCounter()
    traffic.begin_sending(10)
    assert traffic.assume_sent(4)
    traffic.begin_sending(2)
    traffic.end_sending(10)
    assert not traffic.assume_sent(1)


def test_threads_end_when_no_tasks_are_left(asked: StoreCalls) -> None:
    before = {*threading.enumerate()}
    [*asked.run_all([(number, threading.current_thread) for number in range(50)], 8)]
    for thread in {*threading.enumerate()} - before:
        assert thread.daemon  # otherwise it would keep the process alive
        thread.join(60)
        assert not thread.is_alive()
