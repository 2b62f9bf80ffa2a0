"""Which units this build compiles while other builds of the machine compile the same ones."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeAlias

from ..cache.entries import Cache, Compiled

# The groups that are left, and those that other builds are at, once for each key: which one to go on with.
Choice: TypeAlias = Callable[[Mapping[int | None, Sized], Sequence[int]], int | None]


class Turns:
    """Numbers of keys, each given out when it is this build's to compile.

    What another build compiles is put off, and taken from the cache once it is there. Nothing is waited
    for while there is something to do, and no claim is kept while waiting: two builds cannot wait for
    each other. After *patience_s* in which nothing came of it, the others' claims count no more.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        cache: Cache,
        found: Callable[[int, Compiled], object],
        patience_s: float,
        groups: Sequence[int | None] = (),
    ) -> None:
        self._keys = keys
        self._groups = groups or [None] * len(keys)
        self._cache = cache
        self._found = found
        self._patience_s = patience_s
        self._running: set[int] = set()
        self._since, self._patient = time.monotonic(), True
        self._begin_round(range(len(keys)))

    def done(self, number: int) -> None:
        """Let others have what was taken: its result is stored by now, or never will be."""
        self._running.discard(number)
        self._since = time.monotonic()
        self._cache.release(self._keys[number])

    def left_like(self, number: int) -> int:
        """Return how many more of its group are left."""
        return len(self._left.get(self._groups[number], ()))

    def take(self, choose: Choice = lambda left, _elsewhere: next(iter(left))) -> int | None:
        """Return a number to compile, the first that is left of the group that *choose* names.

        None says that there is nothing to start until one of those taken is done, and without any, nothing
        at all.
        """
        while self._left or self._ask_again():
            number = self._pop(choose(self._left, self._elsewhere))
            mine = self._cache.claim(self._keys[number]) or not self._patient
            # Looked for again: another build may have stored it a moment ago.
            if (hit := self._cache.get(self._keys[number])) is not None:
                self._cache.release(self._keys[number])
                self._found(number, hit)
            elif mine:
                self._running.add(number)
                return number
            else:
                self._put_off.append(number)
                if (group := self._groups[number]) is not None:
                    self._elsewhere.append(group)
        return None

    def _pop(self, group: int | None) -> int:
        numbers = self._left[group]
        number = numbers.popleft()
        if not numbers:
            del self._left[group]
        return number

    def _begin_round(self, numbers: Sequence[int]) -> None:
        self._left: dict[int | None, deque[int]] = {}
        for number in numbers:
            self._left.setdefault(self._groups[number], deque()).append(number)
        self._size = len(numbers)
        self._put_off: list[int] = []
        self._elsewhere: list[int] = []

    def _ask_again(self) -> bool:
        """Begin a round with what was put off and say whether to go on; wait if nothing came of the last."""
        before = self._size
        self._begin_round(self._put_off)
        if self._size < before:
            self._since = time.monotonic()
        elif self._running:
            return False
        elif self._size:
            waited = time.monotonic() - self._since
            self._patient = waited < self._patience_s
            time.sleep(min(max(0.02, waited / 4), 0.5))
        return bool(self._size)
