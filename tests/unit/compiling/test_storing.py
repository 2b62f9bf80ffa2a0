"""Results are stored while others compile: a few at once, each told when it is done."""

from __future__ import annotations

import contextlib
import threading

import pytest

from hatch_cubin.compiling import storing
from hatch_cubin.compiling.storing import Storing


def test_each_is_told_once_it_is_stored_and_in_order() -> None:
    told: list[int] = []
    first, kept = threading.Event(), list[str]()
    results = Storing(told.append)

    def slow() -> None:
        first.wait(60)
        kept.append("slow")

    results.start(1, slow)
    results.start(2, lambda: kept.append("fast"))
    assert (results.settle(2), told) == (False, [])
    first.set()
    assert results.settle(0)
    assert (told, sorted(kept)) == ([1, 2], ["fast", "slow"])
    assert not results.settle(0)
    results.close()


def test_several_wait_for_the_disk_together() -> None:
    together = threading.Barrier(storing._THREADS, timeout=60)
    results = Storing(lambda _number: None)
    for number in range(storing._THREADS):
        results.start(number, together.wait)
    results.close()
    assert not together.broken


def test_no_more_than_a_few_can_be_lost() -> None:
    told: list[int] = []
    results = Storing(told.append)
    for number in range(3 * storing._MOST):
        results.start(number, lambda: None)
        assert number + 1 - len(told) <= storing._MOST
    results.close()
    assert told == [*range(3 * storing._MOST)]


def test_what_goes_wrong_is_not_lost() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), contextlib.closing(Storing(lambda _number: None)) as results:
        results.start(1, fail)
