"""Compile here too, for comparison, a sample of what the workers of a cluster have compiled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...common.digest import digest
from .. import executor
from ..executor import Result, Setup, Task


class Sample:
    """Chooses results, of each worker at least the first, and compares them with those of this machine."""

    def __init__(self, part: float) -> None:
        self._part = part
        self._chosen: dict[int, tuple[str, str]] = {}  # by number: the worker, and a digest of the result
        self._known: set[str] = set()
        self._chance = random.SystemRandom()  # which nobody foresees

    def note(self, result: Result) -> None:
        """Choose a result or not."""
        if not result.ok or not result.worker:
            return
        if result.worker not in self._known or self._chance.random() < self._part:
            self._known.add(result.worker)
            self._chosen[result.id] = result.worker, _digest(result)

    def differing(
        self, tasks: Sequence[Task], setup: Setup, unknown: Callable[[int, str], object]
    ) -> Iterator[tuple[int, str]]:
        """Yield the number of each result that is another one here, with the worker that made it.

        *unknown* is told the number of each that this machine has failed to compile, and why.
        """
        left = iter([replace(tasks[number], prelude=None) for number in self._chosen])
        for result in executor.run(lambda _held, _others: next(left, None), setup):
            worker, expected = self._chosen[result.id]
            if _failed_here(result):
                unknown(result.id, result.log.splitlines()[0].removeprefix("fatal: "))
            elif _digest(result) != expected:
                yield result.id, worker


def _failed_here(result: Result) -> bool:
    """Say whether it was the compiler's process that failed, or its time or memory that were too short."""
    return not result.ok and (result.log.startswith("fatal: ") or "out of memory" in result.log)


def _digest(result: Result) -> str:
    symbols = [each for item in sorted(result.symbols.items()) for each in item]
    return digest([str(result.ok), result.output, result.ptx, *symbols])
