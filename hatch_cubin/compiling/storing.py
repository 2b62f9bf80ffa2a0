"""Results on their way into the cache, a few at once: each waits for the disk, and nothing else has to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_THREADS = 16  # as many as a disk can serve together; each is started when it is needed
_MOST = 32  # results that are not stored yet, and would be lost with a process that is killed


class Storing:
    """Stores results by their numbers, and says of each, in the order that they came, that it is done.

    That is said when the next event is looked at: what waits for it may wait a little longer than the disk.
    """

    def __init__(self, stored: Callable[[int], object]) -> None:
        self._stored = stored
        self._threads = ThreadPoolExecutor(_THREADS)
        self._pending: deque[tuple[int, Future[object]]] = deque()

    def start(self, number: int, store: Callable[[], object]) -> None:
        """Have a result stored, as soon as there are not too many."""
        self._pending.append((number, self._threads.submit(store)))
        self.settle(_MOST)

    def settle(self, most: int) -> bool:
        """Wait until no more than so many are left to be stored, and say whether any was by now."""
        before = len(self._pending)
        while self._pending and (len(self._pending) > most or self._pending[0][1].done()):
            number, future = self._pending.popleft()
            future.result()
            self._stored(number)
        return len(self._pending) < before

    def close(self) -> None:
        """Wait for all."""
        with self._threads:
            self.settle(0)
