"""Store results in the cache, several at once, because each one waits for the disk.

Storing a result takes as much processor time as everything else that a build does for it, and threads of one
process share an interpreter. So another process stores them if there are many. If that process ends, threads
continue.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ..cache.entries import Cache, CacheEntry
from .processes import Process, Watch
from .storing_process import THREADS

MANY = 500  # results: fewer are stored sooner than another process starts
_MOST = 32  # results not stored yet: they are lost if the process is killed
_MOST_SENT, _MOST_BYTES = 256, 1 << 26  # the same limits for results that are sent to another process at once
_PATIENCE_S = 60.0  # wait for a process that does not answer
_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; from hatch_cubin.compiling.storing_process import main; main()"
)

Make = Callable[[], Sequence[CacheEntry]]


class Storing:
    """Stores results by number and reports each one that is stored. It expects *count* results.

    Reports come when the build looks at its next event, so they may come a little later than the disk is
    done.
    """

    def __init__(self, cache: Cache, stored: Callable[[int], object], count: int) -> None:
        self._cache, self._stored = cache, stored
        self._left: dict[int, Make] = {}
        self._writer: _ThreadWriter | _ProcessWriter = _writer(cache, count)

    def start(self, number: int, make: Make) -> None:
        """Store a result as soon as there are not too many unfinished ones."""
        self._writer.take(number, make)
        self._left[number] = make
        self.settle(len(self._left))
        while self._writer.full:
            self._report_stored(wait=True)

    def settle(self, most: int) -> bool:
        """Wait until at most *most* results are left to be stored.

        Return whether any have been stored by now.
        """
        before = len(self._left)
        while self._left and self._report_stored(wait=len(self._left) > most):
            pass
        return len(self._left) < before

    def close(self) -> None:
        """Wait for all results."""
        try:
            self.settle(0)
        finally:
            self._writer.close()

    def _report_stored(self, *, wait: bool) -> bool:
        """Report each result that is stored by now. Return whether there were any."""
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
        except OSError:  # another process cannot be started
            pass
    return _ThreadWriter(cache)


class _ProcessEndedError(Exception):
    """The other process no longer reports stored results."""


class _ThreadWriter:
    """Stores results in this process."""

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
        """Return the numbers stored by now, in the order of their arrival.

        With *wait*, wait for one if needed.
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
    """Has another process store results. The other process continues even if this process ends."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._watch = Watch()
        self._sent: dict[int, Sequence[CacheEntry]] = {}
        self._bytes = 0
        paths = [os.path.abspath(path) for path in sys.path]
        folder = os.path.abspath(cache.folder)
        self._process = Process([sys.executable, "-I", "-c", _MAIN, folder, *paths], self._watch)

    @property
    def full(self) -> bool:
        return len(self._sent) > _MOST_SENT or self._bytes > _MOST_BYTES

    def take(self, number: int, make: Make) -> None:
        self._sent[number] = pairs = make()
        self._bytes += sum(len(pair.data) for pair in pairs)
        self._process.send({"id": number, "pairs": [tuple(pair) for pair in pairs]})

    def done(self, *, wait: bool) -> list[int]:
        """Return the numbers of the results that are stored so far.

        With *wait*, wait for one if needed. _ProcessEndedError if none will come.
        """
        numbers = list[int]()
        patience_s = _PATIENCE_S if wait else 0.0
        while (heard := self._watch.next(patience_s)) is not None:
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
        self._watch.close()

    def _stored(self, id: int, fault: str | None) -> int:  # noqa: A002 - as it is sent
        for pair in self._sent.pop(id):
            self._bytes -= len(pair.data)
            self._cache.mark_stored(pair.key)
        if fault is not None:
            self._cache.warn(fault)
        return id
