"""Which units this build compiles while other builds of the machine compile the same ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from ._cache import Cache, Compiled


class Turns:
    """Numbers of keys, each yielded when it is this build's to compile.

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
    ) -> None:
        self._keys = keys
        self._cache = cache
        self._found = found
        self._patience_s = patience_s
        self._running: set[int] = set()

    def done(self, number: int) -> None:
        """Let others have what was yielded: its result is stored by now, or never will be."""
        self._running.discard(number)
        self._cache.release(self._keys[number])

    def __iter__(self) -> Iterator[int | None]:
        """Yield a number, or None where there is nothing to start until one of those yielded is done."""
        left: Sequence[int] = range(len(self._keys))
        since, patient = time.monotonic(), True
        while left:
            put_off = []
            for number in left:
                mine = self._cache.claim(self._keys[number]) or not patient
                # Looked for again: another build may have stored it a moment ago.
                if (hit := self._cache.get(self._keys[number])) is not None:
                    self._cache.release(self._keys[number])
                    self._found(number, hit)
                elif mine:
                    self._running.add(number)
                    yield number
                else:
                    put_off.append(number)
            if len(put_off) < len(left):
                since = time.monotonic()
            elif self._running:
                yield None
                since = time.monotonic()
            else:
                waited = time.monotonic() - since
                patient = waited < self._patience_s
                time.sleep(min(max(0.02, waited / 4), 0.5))
            left = put_off
