"""Asking a store: at once, no longer than it is worth, and no more when it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hatch_cubin.remote import calls
from hatch_cubin.remote.calls import StoreCalls
from hatch_cubin.remote.store import StoreError, TrafficCounter


class Store:
    """A store of which only the traffic counts."""

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
    """Return what does not come back before the test is over."""
    over = threading.Event()
    yield lambda: assert_waited(over)
    over.set()


def assert_waited(over: threading.Event) -> None:
    assert over.wait(60)


def fail() -> None:
    raise StoreError("it is full")


def test_what_comes_of_each_task_is_told_with_its_name(asked: StoreCalls, said: list[str]) -> None:
    tasks = [(number, lambda number=number: number * number) for number in range(100)]
    assert sorted(asked.run_all(tasks, 16)) == [(number, number * number) for number in range(100)]
    assert (said, asked.first_fault) == ([], None)


def test_tasks_are_done_at_once_and_no_more_than_may_be(asked: StoreCalls) -> None:
    both = threading.Barrier(2, timeout=60)
    begun = list[int]()

    def tasks() -> Iterator[tuple[int, Callable[[], int]]]:
        for number in range(6):
            begun.append(number)
            yield number, both.wait

    asked._patience_left_s = 60
    answers = asked.run_all(tasks(), 2)
    next(answers)
    assert begun == [0, 1]  # the next begins when somebody wants it
    assert len([*answers]) == 5


def test_three_faults_are_enough_and_the_first_is_told(asked: StoreCalls, said: list[str]) -> None:
    begun = list[int]()

    def tasks() -> Iterator[tuple[int, Callable[[], None]]]:
        for number in range(100):
            begun.append(number)
            yield number, fail

    assert [*asked.run_all(tasks(), 1)] == []
    assert (begun, said, asked.first_fault) == ([0, 1, 2], ["it is full"], "it is full")
    assert asked.run_one(begun.clear) is None
    assert begun == [0, 1, 2]


def test_one_fault_costs_one_task(asked: StoreCalls, said: list[str]) -> None:
    assert [*asked.run_all([(1, fail), (2, lambda: None)], 1)] == [(2, None)]
    assert said == ["it is full"]


def test_what_no_store_should_do_is_a_fault_without_its_text(asked: StoreCalls, said: list[str]) -> None:
    def broken() -> None:
        raise ValueError("Invalid header value 'Bearer secret'")

    assert asked.run_one(broken) is None
    assert said == ["asking it ended with ValueError"]


def test_a_store_that_hangs_is_left_alone(
    asked: StoreCalls, said: list[str], hang: Callable[[], None]
) -> None:
    assert [*asked.run_all([(1, hang), (2, hang)], 2)] == []
    assert said == ["it does not answer"]
    assert asked.run_one(lambda: 1) is None


def test_a_store_that_sends_next_to_nothing_is_left_alone_too(
    asked: StoreCalls, said: list[str], store: Store
) -> None:
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.001):
            store.traffic.count_bytes(1)

    assert asked.run_one(drip) is None
    over.set()
    assert said == ["it is too slow"]


def test_a_store_that_sends_much_is_waited_for(asked: StoreCalls, said: list[str], store: Store) -> None:
    asked._patience_s = asked._patience_left_s = 1.0  # no thread of a busy machine waits so long for its turn
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
    """Return what is said of a store from which an answer comes so slowly, and how long it is waited for."""
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
def test_the_patience_with_a_store_that_trickles_is_a_total(share: float) -> None:
    """However its bytes are spread: in each slice something comes."""
    said, took = trickled(int(share * calls._MIN_BYTES_PER_S), seconds=20)
    assert said == ["it is too slow" if share else "it does not answer"]
    assert took < 20  # 0.5 to 1 s on a quiet machine; it would send for longer


def test_a_line_that_is_slow_and_fast_enough_is_waited_for() -> None:
    said, took = trickled(2 * calls._MIN_BYTES_PER_S, seconds=1.5)
    assert said == []
    assert took >= 1.5  # three times what it would wait for a store that sends nothing


def test_many_answers_that_are_each_slow_cost_patience_together(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_CREDIT_PER_ANSWER_S", 0.001)
    asked = StoreCalls(Store(), said.append, patience_s=0.1)  # type: ignore[arg-type]
    tasks = [(number, lambda: time.sleep(0.01)) for number in range(1000)]
    assert len([*asked.run_all(tasks, 1)]) < 500
    assert said == ["it is too slow"]
    assert asked.run_one(lambda: 1) is None


def test_answers_earn_no_more_patience_than_there_was(
    asked: StoreCalls, said: list[str], store: Store, hang: Callable[[], None]
) -> None:
    store.traffic.count_bytes(1 << 40)
    assert len([*asked.run_all([(number, lambda: 1) for number in range(1000)], 4)]) == 1000
    assert asked._patience_left_s <= 0.1
    assert asked.run_one(hang) is None
    assert said == ["it does not answer"]


def test_a_pause_because_of_others_costs_patience(asked: StoreCalls, said: list[str]) -> None:
    asked.pause(0.05)
    assert asked._patience_left_s == pytest.approx(0.05)
    for _ in range(2):
        asked.pause(60)  # of which no more is waited than patience is left
    assert said == ["it is too slow"]


def test_what_nobody_can_see_go_is_given_time_by_its_size_and_no_more(
    asked: StoreCalls, said: list[str], store: Store, hang: Callable[[], None]
) -> None:
    slices = 20  # twice what is waited for otherwise

    def send() -> str:
        store.traffic.begin_sending(slices * calls._ASSUMED_SENT_PER_POLL)
        while store.traffic.assume_sent(0):
            time.sleep(0.001)
        return "all"

    assert asked.run_one(send) == "all"
    store.traffic.begin_sending(calls._ASSUMED_SENT_PER_POLL)
    assert asked.run_one(hang) is None
    assert said == ["it does not answer"]


def test_what_has_gone_is_waited_for_no_more() -> None:
    traffic = TrafficCounter()
    traffic.begin_sending(10)
    assert traffic.assume_sent(4)
    traffic.begin_sending(2)
    traffic.end_sending(10)
    assert not traffic.assume_sent(1)


def test_threads_end_with_their_work(asked: StoreCalls) -> None:
    before = {*threading.enumerate()}
    [*asked.run_all([(number, threading.current_thread) for number in range(50)], 8)]
    for thread in {*threading.enumerate()} - before:
        assert thread.daemon  # or it would hold the process
        thread.join(60)
        assert not thread.is_alive()
