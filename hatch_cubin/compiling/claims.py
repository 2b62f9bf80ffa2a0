"""Which units this build compiles now, and which it leaves to other builds that run at the same time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeAlias

from ..cache.entries import Cache

# Chooses the group to go on with, given what is left of each group, and, for each key that other builds are
# compiling, the group of that key.
Choice: TypeAlias = Callable[[Mapping[int | None, Sized], Sequence[int]], int | None]


class Turns:
    """Gives out numbers, each one when this build shall compile what is missing under the number's *keys*.

    What another build is compiling is put off, and taken from the cache once it is there, which *take_stored*
    does if it can. A build waits only when it has nothing else to do, and it keeps no claim while it waits:
    two builds cannot wait for each other. After *patience_s* in which nothing was done, the claims of other
    builds no longer count.
    """

    def __init__(
        self,
        keys: Sequence[Sequence[bytes]],
        cache: Cache,
        take_stored: Callable[[int], bool],
        patience_s: float,
        groups: Sequence[int | None] = (),
    ) -> None:
        self._keys = keys
        self._groups = groups or [None] * len(keys)
        self._cache = cache
        self._take_stored = take_stored
        self._patience_s = patience_s
        self._running: set[int] = set()
        self._since, self._patient = time.monotonic(), True
        self._begin_round(range(len(keys)))

    def done(self, number: int) -> None:
        """Give up the claim on a number: its results are stored by now, or never will be."""
        self._running.discard(number)
        self._since = time.monotonic()
        self._release(number)

    def left_like(self, number: int) -> int:
        """Return how many more numbers are left in the group of this one."""
        return len(self._left.get(self._groups[number], ()))

    def take(self, choose: Choice = lambda left, _elsewhere: next(iter(left))) -> int | None:
        """Return a number to compile, the first that is left in the group that *choose* names.

        None says that there is nothing to start until a number that was taken is done. If none is taken,
        there is nothing left at all.
        """
        while self._left or self._ask_again():
            number = self._pop(choose(self._left, self._elsewhere))
            mine = all(map(self._cache.claim, self._keys[number])) or not self._patient
            # Looked for again: another build may have stored it a moment ago.
            if self._take_stored(number):
                self._release(number)
            elif mine:
                self._running.add(number)
                return number
            else:
                self._release(number)  # what of it was claimed
                self._put_off.append(number)
                if (group := self._groups[number]) is not None:
                    self._elsewhere.append(group)
        return None

    def _release(self, number: int) -> None:
        for key in self._keys[number]:
            self._cache.release(key)

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
        """Begin a round with what was put off, and say whether to go on.

        If nothing came of the last round, and nothing is being compiled, wait a moment.
        """
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
