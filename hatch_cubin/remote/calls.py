"""Send many requests to a remote store in parallel, and stop using the store if it is too slow or fails.

Each request to the store runs in a thread. The build can stop waiting for a thread that takes too long. The
socket's time-out is not enough, because a slow name server, a slow handshake or a header that arrives byte by
byte can take longer than this time-out.

Each build has a time budget for waiting for the remote store; the code calls this budget patience. Waiting
for the store uses up the time budget; answers and transferred bytes add time to the budget. A large but fast
download does not use up the time budget, because each transferred byte adds time. A very slow download uses
up the time budget, and then the build stops waiting for the store.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from .store import Store, StoreError

_MAX_FAULTS = 3  # after this many errors of the store, the build stops using the store
PATIENCE_S = 3.5
# In seconds: a single wait subtracts at most this time from the patience, because a busy machine notices an
# answer late.
_POLL_S = 0.25
_MIN_BYTES_PER_S = 1 << 19  # a transfer that is slower uses up the patience (the time budget for waiting)
_CREDIT_PER_ANSWER_S = 0.01  # seconds that each answer of the store adds to the patience.
# If the progress of an upload is unknown, the build assumes that each wait sends this many bytes.
_ASSUMED_SENT_PER_POLL = 1 << 17

_K = TypeVar("_K")
_R = TypeVar("_R")


class StoreCalls:
    """The requests of one build to one remote store.

    Errors of the store are not raised; only the first error is reported as a warning.
    """

    def __init__(self, store: Store, warn: Callable[[str], object], patience_s: float = PATIENCE_S) -> None:
        self.store = store
        self.first_fault: str | None = None
        self.warn = warn
        self._faults = 0
        self._patience_s = self._patience_left_s = patience_s
        self._counted = 0  # the transferred bytes for which time was already added to the patience

    @property
    def _gave_up(self) -> bool:
        return self._faults >= _MAX_FAULTS or self._patience_left_s <= 0

    def run_all(self, tasks: Iterable[tuple[_K, Callable[[], _R]]], at_once: int) -> Iterator[tuple[_K, _R]]:
        """Run *tasks* in threads, with at most *at_once* tasks in parallel.

        Yield the result of each successful task as soon as the task ends.
        """
        pool = _RequestPool(tasks, at_once)
        try:
            while (answer := self._next(pool)) is not None:
                key, result = answer
                if isinstance(result, StoreError):
                    self.count_fault(str(result))
                else:
                    yield key, result
        finally:
            pool.stop()

    def run_one(self, task: Callable[[], _R]) -> _R | None:
        """Return the result of one task, which is a request to the store; None if the task failed."""
        return next((result for _key, result in self.run_all([(None, task)], 1)), None)

    def pause(self, seconds: float) -> None:
        """Wait while other builds write to the store; waiting uses up the build's time budget (patience)."""
        if not self._gave_up:
            time.sleep(min(seconds, self._patience_left_s))
            self._spend_patience(seconds)

    def count_fault(self, why: str) -> None:
        """Count an error of the store, and report the first error of the build as a warning."""
        self._faults += 1
        if self._gave_up:
            self.store.close()
        if self.first_fault is None:
            self.first_fault = why
            self.warn(why)

    def _next(self, pool: _RequestPool[_K, _R]) -> tuple[_K, _R | StoreError] | None:
        """Return the next result; None if no task is left, or if the build no longer uses the store."""
        if self._gave_up:
            return None
        pool.start_tasks()
        while pool.busy and self._patience_left_s > 0:
            started = time.monotonic()
            try:
                answer = pool.next_answer(_POLL_S)
            except Empty:
                self._spend_patience(
                    0.0 if self.store.traffic.assume_sent(_ASSUMED_SENT_PER_POLL) else _POLL_S, answered=False
                )
            else:
                self._spend_patience(min(time.monotonic() - started, _POLL_S) - _CREDIT_PER_ANSWER_S)
                return answer
        return None

    def _spend_patience(self, seconds: float, *, answered: bool = True) -> None:
        """Subtract a waiting time from the time budget (patience), and add time for transferred bytes."""
        moved, self._counted = self.store.traffic.bytes - self._counted, self.store.traffic.bytes
        self._patience_left_s = min(
            self._patience_s, self._patience_left_s - seconds + moved / _MIN_BYTES_PER_S
        )
        if self._patience_left_s <= 0:
            self.count_fault("the store is too slow" if answered or moved else "the store does not answer")


class _RequestPool(Generic[_K, _R]):
    """A pool of daemon threads that run tasks, which are requests to a remote store.

    While all threads are busy, the pool starts the next task only after the caller has read a result.
    """

    def __init__(self, tasks: Iterable[tuple[_K, Callable[[], _R]]], at_once: int) -> None:
        self.busy = 0
        self._tasks, self._at_once = iter(tasks), at_once
        self._todo = SimpleQueue[tuple[_K, Callable[[], _R]] | None]()
        self._done = SimpleQueue[tuple[_K, _R | StoreError]]()
        self._threads = 0

    def start_tasks(self) -> None:
        """Start tasks until the maximum number of tasks is running."""
        for task in itertools.islice(self._tasks, self._at_once - self.busy):
            self.busy += 1
            self._todo.put(task)
            if self.busy > self._threads:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()

    def next_answer(self, patience_s: float) -> tuple[_K, _R | StoreError]:
        """Return the result of a task; raise queue.Empty if no task ends within *patience_s* seconds."""
        answer = self._done.get(timeout=patience_s)
        self.busy -= 1
        return answer

    def stop(self) -> None:
        """Let each thread of the pool end after its current task."""
        for _ in range(self._threads):
            self._todo.put(None)

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            key, do = task
            try:
                self._done.put((key, do()))
            except StoreError as exc:
                self._done.put((key, exc))
            except Exception as exc:  # noqa: BLE001 - an error of the store must not make the build fail
                self._done.put((key, StoreError(f"a request ended with {type(exc).__name__}")))
