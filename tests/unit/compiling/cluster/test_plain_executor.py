"""Executors that know no workers: each lease takes along what it reads."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from hatch_cubin.compiling.cluster import worker_side
from hatch_cubin.compiling.cluster.identity import Identity
from hatch_cubin.compiling.cluster.lease import FileListing, Lease
from hatch_cubin.compiling.cluster.plain_executor import ExecutorCluster
from hatch_cubin.compiling.cluster.worker_side import BuildRequirements, PackedArchive
from hatch_cubin.compiling.cluster.workers import LeaseAnswered, WorkerJoined

from .fake_workers import LISTING, task

ARCHIVE = PackedArchive(
    BuildRequirements(Identity("1", "k", "c", "lp64", "", "13.5.37"), None), FileListing.of({}, [], {}), b""
)
LEASE = Lease(7, "build", "", LISTING, (task(1),), 60.0, 0)


class Obedient(Executor):
    """Gives each call the future that a test has made; *end* is set when it was shut down."""

    def __init__(self, outcome: object) -> None:
        self.outcome, self.calls, self.end = outcome, list[tuple[object, ...]](), threading.Event()
        self.options: dict[str, Any] = {}

    def submit(self, fn: Any, /, *args: Any, **_kwargs: Any) -> Future[Any]:
        self.calls.append((fn, *args))
        if isinstance(self.outcome, (RuntimeError, KeyboardInterrupt)):
            raise self.outcome
        if isinstance(self.outcome, int):
            return self.outcome  # type: ignore[return-value]
        future: Future[Any] = Future()
        if isinstance(self.outcome, BaseException):
            future.set_exception(self.outcome)
        elif self.outcome is None:
            future.cancel()
        else:
            future.set_result(self.outcome)
        return future

    def shutdown(self, wait: bool = True, **options: Any) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        self.options = {"wait": wait, **options}
        self.end.set()


@pytest.mark.parametrize(
    ("outcome", "event"),
    [
        ("reply", LeaseAnswered(7, "reply")),
        (ModuleNotFoundError("No module named 'hatch_cubin'"), None),
        (RuntimeError("cannot schedule new futures after shutdown\nand more"), None),
        (None, LeaseAnswered(7, None, "CancelledError")),
        (SystemExit("of its thread"), None),
        (KeyboardInterrupt("at once"), None),
        (5, LeaseAnswered(7, None, "AttributeError: 'int' object has no attribute 'add_done_callback'")),
    ],
    ids=["reply", "raised", "refused", "cancelled", "ended", "interrupted", "no-future"],
)
def test_whatever_comes_of_a_call_is_heard(outcome: object, event: LeaseAnswered | None) -> None:
    executor = Obedient(outcome)
    cluster = ExecutorCluster("mine:make", executor, ARCHIVE, 3)
    assert cluster.events.get(timeout=60) == WorkerJoined("mine:make", "", 3)
    cluster.give("mine:make", LEASE)
    said = f"{type(outcome).__name__}: {str(outcome).splitlines()[0]}" if event is None else None
    assert cluster.events.get(timeout=60) == (event or LeaseAnswered(7, None, said))
    cluster.close()
    assert executor.end.wait(60)
    assert executor.calls == [(worker_side.compile_with, ARCHIVE, LEASE)]
    assert executor.options == {"wait": False, "cancel_futures": True}


class Old(Obedient):
    def shutdown(self, wait: bool = True) -> None:  # type: ignore[override]  # noqa: FBT001, FBT002 - as above
        super().shutdown(wait)


def test_an_executor_of_before_can_be_shut_down_too() -> None:
    executor = Old("reply")
    ExecutorCluster("old:make", executor, ARCHIVE, 1).close()
    assert executor.end.wait(60)
    assert executor.options == {"wait": False}


class Stubborn(Obedient):
    def shutdown(self, wait: bool = True, **_options: Any) -> None:  # noqa: FBT001, FBT002 - as above
        raise ConnectionError("its queue is gone")


def test_what_an_executor_says_at_its_end_is_no_matter() -> None:
    cluster = ExecutorCluster("mine:make", Stubborn("reply"), ARCHIVE, 1)
    cluster.close()
    cluster.close()
    cluster._submit()  # as its own thread does, where nobody would hear of an error
