"""Store several results in the cache at the same time, because each result waits for the disk.

A build with many results uses a separate process to store the results, because Python runs only one thread of
a process at a time. Without the separate process, storing would take half of the processor time of the
build's main process. If this separate process crashes, threads of the build store the remaining results.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ..cache.entries import Cache, CacheEntry
from .processes import Process, WorkerMessages
from .storing_process import THREADS

# The fewest results for which the build starts a separate process. With fewer results, the build stores them
# itself, which is faster.
MANY = 500
_MOST = 32  # The most results that may wait to be stored. If the build is killed, waiting results are lost.
# The most results, and bytes of results, that may wait to be stored in the separate process.
_MOST_SENT, _MOST_BYTES = 256, 1 << 26
_PATIENCE_S = 60.0  # The longest time, in seconds, to wait for an answer of the separate process.
_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; from hatch_cubin.compiling.storing_process import main; main()"
)

Make = Callable[[], Sequence[CacheEntry]]


class Storing:
    """Stores numbered results in the cache, and calls the function *stored* with the number of each result.

    *count* is the expected number of results.

    After a result was written to the disk, the next call of a method of `Storing` calls the function
    *stored*.
    """

    def __init__(self, cache: Cache, stored: Callable[[int], object], count: int) -> None:
        self._cache, self._stored = cache, stored
        self._left: dict[int, Make] = {}
        self._writer: _ThreadWriter | _ProcessWriter = _writer(cache, count)

    def start(self, number: int, make: Make) -> None:
        """Begin to store a result.

        If too many results are not stored yet, wait first.
        """
        self._writer.take(number, make)
        self._left[number] = make
        self.settle(len(self._left))
        while self._writer.full:
            self._report_stored(wait=True)

    def settle(self, most: int) -> bool:
        """Wait until the number of results that are still to be stored is at most *most*.

        Return whether a result was stored during this call.
        """
        before = len(self._left)
        while self._left and self._report_stored(wait=len(self._left) > most):
            pass
        return len(self._left) < before

    def close(self) -> None:
        """Wait until all results are stored, and end the threads or the process."""
        try:
            self.settle(0)
        finally:
            self._writer.close()

    def _report_stored(self, *, wait: bool) -> bool:
        """Report each result that was stored since the last call.

        Return whether any result was stored since the last call.
        """
        try:
            numbers = self._writer.done(wait=wait)
        except _ProcessEndedError:
            self._writer.close()
            self._writer = _ThreadWriter(self._cache)
            for number, make in self._left.items():
                self._writer.take(number, make)
            return True
        for number in numbers:
            del self._left[number]
            self._stored(number)
        return bool(numbers)


def _writer(cache: Cache, count: int) -> _ThreadWriter | _ProcessWriter:
    if count >= MANY:
        try:
            return _ProcessWriter(cache)
        except OSError:  # The system could not start the separate process.
            pass
    return _ThreadWriter(cache)


class _ProcessEndedError(Exception):
    """Raised if the separate process has ended or does not answer."""


class _ThreadWriter:
    """Stores results in the cache with threads of this process."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._threads = ThreadPoolExecutor(THREADS)
        self._pending: deque[tuple[int, Future[None]]] = deque()

    @property
    def full(self) -> bool:
        return len(self._pending) > _MOST

    def take(self, number: int, make: Make) -> None:
        self._pending.append((number, self._threads.submit(self._store, make)))

    def done(self, *, wait: bool) -> list[int]:
        """Return the numbers of the results that were stored since the last call.

        With *wait*, wait until at least one result is stored.
        """
        numbers = list[int]()
        while self._pending and ((wait and not numbers) or self._pending[0][1].done()):
            number, future = self._pending.popleft()
            future.result()
            numbers.append(number)
        return numbers

    def close(self) -> None:
        self._threads.shutdown()

    def _store(self, make: Make) -> None:
        for pair in make():
            self._cache.store(pair)


class _ProcessWriter:
    """Sends results to a separate process, which stores all of them even if the build's process ends."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._messages = WorkerMessages()
        self._sent: dict[int, Sequence[CacheEntry]] = {}
        self._bytes = 0
        paths = [os.path.abspath(path) for path in sys.path]
        folder = os.path.abspath(cache.folder)
        self._process = Process([sys.executable, "-I", "-c", _MAIN, folder, *paths], self._messages)

    @property
    def full(self) -> bool:
        return len(self._sent) > _MOST_SENT or self._bytes > _MOST_BYTES

    def take(self, number: int, make: Make) -> None:
        self._sent[number] = pairs = make()
        self._bytes += sum(len(pair.data) for pair in pairs)
        self._process.send({"id": number, "pairs": [tuple(pair) for pair in pairs]})

    def done(self, *, wait: bool) -> list[int]:
        """Return the numbers of the results that the separate process has stored since the last call.

        With *wait*, wait until at least one result is stored. Raise _ProcessEndedError if the separate
        process has ended.
        """
        numbers = list[int]()
        patience_s = _PATIENCE_S if wait else 0.0
        while (heard := self._messages.next(patience_s)) is not None:
            _process, answer = heard
            if answer is None or answer["id"] is None:
                raise _ProcessEndedError
            numbers.append(self._stored(**answer))
            patience_s = 0.0
        if wait and not numbers:
            raise _ProcessEndedError
        return numbers

    def close(self) -> None:
        self._process.close()
        self._messages.close()

    def _stored(self, id: int, fault: str | None) -> int:  # noqa: A002 - messages use the name `id`
        for pair in self._sent.pop(id):
            self._bytes -= len(pair.data)
            self._cache.mark_stored(pair.key)
        if fault is not None:
            self._cache.warn(fault)
        return id
