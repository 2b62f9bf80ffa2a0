"""The interface between a build and the workers of a cluster: giving leases, and events in return."""

from __future__ import annotations

import queue
from typing import NamedTuple, Protocol, TypeAlias

from .lease import Lease


class WorkerJoined(NamedTuple):
    """A worker is ready for so many leases at once. *memory* is the limit for each of their compilers."""

    worker: str
    process: str
    slots: int
    memory: int = 0


class WorkerUnfit(NamedTuple):
    """A worker cannot compile for this build, for the given reason."""

    worker: str
    why: str


class WorkerLost(NamedTuple):
    """A worker has gone or stopped answering; it may join again.

    *ended* says whether its task may have been what ended it.
    """

    worker: str
    why: str
    ended: bool = True


class LeaseAnswered(NamedTuple):
    """A lease has come back: with a reply, or with an error."""

    number: int
    reply: object
    wrong: str | None = None


class NoMoreWorkers(NamedTuple):
    """The cluster has ended: all its workers are lost, and others cannot join."""

    why: str
    hint: str | None = None


Event: TypeAlias = "WorkerJoined | WorkerUnfit | WorkerLost | LeaseAnswered | NoMoreWorkers"


class Cluster(Protocol):
    """The workers of one cluster."""

    name: str  # in the user's spelling
    events: queue.SimpleQueue[Event]

    @property
    def expected_workers(self) -> int:
        """The known number of workers that may still join. Their events come before the number goes down."""

    def give(self, worker: str, lease: Lease) -> None:
        """Have a worker compile a lease. An event reports the outcome. This does not block."""

    def close(self) -> None:
        """Stop the workers' processes for this build and disconnect. This takes two seconds at most."""


def exception_text(exc: BaseException) -> str:
    """Return an exception's text, in one line."""
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0]}" if lines else type(exc).__name__
