"""Coordinate builds that run at the same time: each missing unit is compiled by only one build."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeAlias

from ..cache.entries import Cache

# A function that chooses the group of compiles from which the next compile comes. The function's first
# argument maps each group to the compiles that are left in the group. The second argument lists the groups
# that other builds are compiling.
Choice: TypeAlias = Callable[[Mapping[int | None, Sized], Sequence[int]], int | None]


class CompileClaims:
    """Decides which unit this build compiles next, and locks (claims) it, so no other build compiles it too.

    Compiles are numbered from 0. *keys* contains, for each compile, a list with the cache keys of its
    results.

    A compile that another build is doing is postponed. When another build has stored the results of a
    postponed compile, *take_stored* gets the results from the cache. This build waits for another build only
    when all other compiles of this build are done. Before waiting, this build releases its locks, so that two
    builds cannot wait for each other. After *patience_s* seconds without progress, this build ignores the
    locks of other builds.
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
        """Release the locks of a compile after its results are stored, or after the compile has failed."""
        self._running.discard(number)
        self._since = time.monotonic()
        self._release(number)

    def left_like(self, number: int) -> int:
        """Return how many compiles of the group that contains the compile *number* have not started yet."""
        return len(self._left.get(self._groups[number], ()))

    def take(self, choose: Choice = lambda left, _elsewhere: next(iter(left))) -> int | None:
        """Choose the next compile, lock this compile against other builds, and return its number.

        Return None if all compiles are done, or if no compile can start before a running compile is done.
        """
        while self._left or self._ask_again():
            number = self._pop(choose(self._left, self._elsewhere))
            mine = all(map(self._cache.claim, self._keys[number])) or not self._patient
            # The cache is checked again, because another build may have stored the results since the last
            # check.
            if self._take_stored(number):
                self._release(number)
            elif mine:
                self._running.add(number)
                return number
            else:
                # Another build has locked one unit of this compile. The locks on the other units of the
                # compile are released.
                self._release(number)
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
        """Try the postponed compiles again; return False if no compile can start now.

        If other builds still have all locks and this build is not compiling, wait a moment.
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
