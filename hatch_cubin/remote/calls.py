"""Ask a store many things at once, and go on without it where it stalls or fails.

Requests are made in threads that nobody has to wait for: a name server, a handshake or a header that comes
byte by byte can hold a request for longer than any timeout of its socket.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from .store import Store, StoreError

_FAULTS = 3  # after so many a store is asked for nothing more
PATIENCE_S = 3.5  # of waiting in all, beyond what the answers and bytes that came are worth
_POLL_S = 0.25  # how often that is counted; no more than it counts where the machine itself was busy
_MIN_BYTES_PER_S = 1 << 19  # bytes a second: a slower line costs patience
_CREDIT_PER_ANSWER_S = (
    0.01  # an answer is worth as much: many are under way at once, and stores may be far away
)
_ASSUMED_SENT_PER_POLL = 1 << 17  # bytes in a slice, of what goes where nobody can see it

_K = TypeVar("_K")
_R = TypeVar("_R")


class StoreCalls:
    """The requests of one build to one store. What goes wrong is told once, and never raised."""

    def __init__(self, store: Store, warn: Callable[[str], object], patience_s: float = PATIENCE_S) -> None:
        self.store = store
        self.first_fault: str | None = None  # the first that there was
        self.warn = warn
        self._faults = 0
        self._patience_s = self._patience_left_s = patience_s
        self._counted = 0  # bytes that were taken into account

    @property
    def _gave_up(self) -> bool:
        return self._faults >= _FAULTS or self._patience_left_s <= 0

    def run_all(self, tasks: Iterable[tuple[_K, Callable[[], _R]]], at_once: int) -> Iterator[tuple[_K, _R]]:
        """Do *tasks*, so many at once, and yield what came of those that did not fail, as it comes."""
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
        """Do one task; None where it failed."""
        return next((result for _key, result in self.run_all([(None, task)], 1)), None)

    def pause(self, seconds: float) -> None:
        """Wait because of others who use the store, at the cost of patience."""
        if not self._gave_up:
            time.sleep(min(seconds, self._patience_left_s))
            self._spend_patience(seconds)

    def count_fault(self, why: str) -> None:
        """Count a fault of the store."""
        self._faults += 1
        if self._gave_up:
            self.store.close()
        if self.first_fault is None:
            self.first_fault = why
            self.warn(why)

    def _next(self, pool: _RequestPool[_K, _R]) -> tuple[_K, _R | StoreError] | None:
        """Return what is done next; None where nothing is left, or the store is not asked any more."""
        if self._gave_up:
            return None
        pool.start_tasks()
        while pool.busy and self._patience_left_s > 0:
            begun = time.monotonic()
            try:
                answer = pool.next_answer(_POLL_S)
            except Empty:
                self._spend_patience(
                    0.0 if self.store.traffic.assume_sent(_ASSUMED_SENT_PER_POLL) else _POLL_S, heard=False
                )
            else:
                self._spend_patience(min(time.monotonic() - begun, _POLL_S) - _CREDIT_PER_ANSWER_S)
                return answer
        return None

    def _spend_patience(self, seconds: float, *, heard: bool = True) -> None:
        """Take off the time of a wait, less what came meanwhile is worth: what is left over is not kept."""
        moved, self._counted = self.store.traffic.bytes - self._counted, self.store.traffic.bytes
        self._patience_left_s = min(
            self._patience_s, self._patience_left_s - seconds + moved / _MIN_BYTES_PER_S
        )
        if self._patience_left_s <= 0:
            self.count_fault("it is too slow" if heard or moved else "it does not answer")


class _RequestPool(Generic[_K, _R]):
    """Threads that do tasks, and do not outlive the process. They take no more than are asked for."""

    def __init__(self, tasks: Iterable[tuple[_K, Callable[[], _R]]], at_once: int) -> None:
        self.busy = 0
        self._tasks, self._at_once = iter(tasks), at_once
        self._todo = SimpleQueue[tuple[_K, Callable[[], _R]] | None]()
        self._done = SimpleQueue[tuple[_K, _R | StoreError]]()
        self._threads = 0

    def start_tasks(self) -> None:
        """Begin as many tasks as there may be at once."""
        for task in itertools.islice(self._tasks, self._at_once - self.busy):
            self.busy += 1
            self._todo.put(task)
            if self.busy > self._threads:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()

    def next_answer(self, patience_s: float) -> tuple[_K, _R | StoreError]:
        """Return what came of a task; Empty where nothing did in that time."""
        answer = self._done.get(timeout=patience_s)
        self.busy -= 1
        return answer

    def stop(self) -> None:
        """Let the threads end, each when it is done with what it does."""
        for _ in range(self._threads):
            self._todo.put(None)

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            key, do = task
            try:
                self._done.put((key, do()))
            except StoreError as exc:
                self._done.put((key, exc))
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is no reason for a build to fail
                self._done.put((key, StoreError(f"asking it ended with {type(exc).__name__}")))
