"""Decide which units this build compiles now, and which it leaves to other builds that are running."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeAlias

from ..cache.entries import Cache

# Chooses the group to continue with. Arguments: the numbers left in each group, and the group of each key
# that other builds are compiling.
Choice: TypeAlias = Callable[[Mapping[int | None, Sized], Sequence[int]], int | None]


class CompileClaims:
    """Decides which missing units this build compiles next, and claims them in the cache.

    Each number stands for the units that one compile makes, with the *keys* of that number.

    This build postpones units that another build is compiling. Once that build has stored them, *take_stored*
    gets them from the cache. This build waits only if all its other units are compiled. It releases its
    claims before it waits, so that two builds cannot wait for each other. After *patience_s* without
    progress, it ignores the claims of other builds.
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
        """Give up the claim on a number: its results have been stored, or will never be."""
        self._running.discard(number)
        self._since = time.monotonic()
        self._release(number)

    def left_like(self, number: int) -> int:
        """Return how many more numbers are left in the group of *number*."""
        return len(self._left.get(self._groups[number], ()))

    def take(self, choose: Choice = lambda left, _elsewhere: next(iter(left))) -> int | None:
        """Return a number to compile: the first that is left in the group that *choose* returns.

        None means that nothing can start until a number that was taken is done. If no taken number is
        unfinished, None means that nothing is left at all.
        """
        while self._left or self._ask_again():
            number = self._pop(choose(self._left, self._elsewhere))
            mine = all(map(self._cache.claim, self._keys[number])) or not self._patient
            # Checked again: another build may have stored it a moment ago.
            if self._take_stored(number):
                self._release(number)
            elif mine:
                self._running.add(number)
                return number
            else:
                self._release(number)  # gives up the keys that could be claimed
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
        """Begin a new round with the numbers that were put off. Return whether to continue.

        Waits a moment if the last round achieved nothing and nothing is being compiled.
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
