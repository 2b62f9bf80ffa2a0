"""Compile some tasks of a cluster again on this machine, and compare the results with the cluster's."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...common.digest import digest
from .. import executor
from ..executor import Result, Setup, Task


class Sample:
    """Compiles a random sample of the tasks again on this machine, to check the results of the workers.

    The sample contains at least the first result of each worker.
    """

    def __init__(self, part: float) -> None:
        self._part = part
        # For each task in the sample: the worker that compiled it, and the digest of the result.
        self._chosen: dict[int, tuple[str, str]] = {}
        self._known: set[str] = set()
        self._chance = random.SystemRandom()  # A random generator whose numbers a worker cannot predict.

    def note(self, result: Result) -> None:
        """Decide whether the random sample includes a result.

        If the sample includes the result, record the result's digest.
        """
        if not result.ok or not result.worker:
            return
        if result.worker not in self._known or self._chance.random() < self._part:
            self._known.add(result.worker)
            self._chosen[result.id] = result.worker, _digest(result)

    def differing(
        self, tasks: Sequence[Task], setup: Setup, unknown: Callable[[int, str], object]
    ) -> Iterator[tuple[int, str]]:
        """Compile the sample on this machine; yield the task number and worker of each result that differs.

        If this machine cannot compile a task of the sample, *unknown* is called with the task's number and
        the reason.
        """
        left = iter([replace(tasks[number], precompiled_header=None) for number in self._chosen])
        for result in executor.run(lambda _held, _others: next(left, None), setup):
            worker, expected = self._chosen[result.id]
            if _failed_here(result):
                unknown(result.id, result.log.splitlines()[0].removeprefix("fatal: "))
            elif _digest(result) != expected:
                yield result.id, worker


def _failed_here(result: Result) -> bool:
    """Return whether a compiler process crashed, or exceeded its time limit or memory limit."""
    return not result.ok and (result.log.startswith("fatal: ") or "out of memory" in result.log)


def _digest(result: Result) -> str:
    symbols = [each for item in sorted(result.symbols.items()) for each in item]
    return digest([str(result.ok), result.output, result.ptx, *symbols])
