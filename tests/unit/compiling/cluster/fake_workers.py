"""Results, leases and a cluster without machines, for tests of those who use them."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from hatch_cubin.compiling.cluster.lease import Lease, Reply, with_proof
from hatch_cubin.compiling.cluster.workers import Event, LeaseAnswered
from hatch_cubin.compiling.executor import Result, Task

LISTING = "of these files"


def task(number: int, name: str = "k.cu") -> Task:
    return Task(number, "c++", f"code {number}".encode(), name.encode(), (b"-arch=sm_90",))


def done(number: int, seconds: float = 0.1) -> Result:
    return Result(number, ok=True, output=f"of {number}".encode(), seconds=seconds)


def reply(lease: Lease, *results: Result, worker: str = "far") -> Reply:
    """Return what a worker replies: these results, or one for each task."""
    found = results or tuple(map(done, (each.id for each in lease.tasks)))
    tasks = {each.id: each for each in lease.tasks}
    parts = tuple(with_proof(tasks[result.id], lease.listing, result) for result in found)
    return Reply(worker, lease.process, lease.number, parts)


class Gift(NamedTuple):
    """What was given to whom."""

    worker: str
    lease: Lease

    @property
    def numbers(self) -> list[int]:
        return [each.id for each in self.lease.tasks]


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class FakeFleet:
    """Workers that do what a test says, each time that nothing is left to be heard."""

    name = "fake://"

    def __init__(self, clock: Clock, act: Callable[[FakeFleet], object], *events: Event) -> None:
        self._clock, self._act = clock, act
        self._events = deque(events)
        self.gifts: list[Gift] = []
        self.expected_workers = 0
        self.closed = False
        self.events: Any = self

    def get(self, timeout: float) -> Event:
        if not self._events:
            self._act(self)
        if not self._events:
            self._clock.now += timeout
            raise queue.Empty
        return self._events.popleft()

    def empty(self) -> bool:
        return not self._events

    def say(self, *events: Event) -> None:
        self._events.extend(events)

    def answer(self, gift: Gift, *results: Result) -> None:
        self.say(LeaseAnswered(gift.lease.number, reply(gift.lease, *results)))

    def give(self, worker: str, lease: Lease) -> None:
        self.gifts.append(Gift(worker, lease))

    def close(self) -> None:
        self.closed = True
