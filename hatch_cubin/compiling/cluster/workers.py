"""The interface of clusters: a build sends leases (groups of compiles) to workers, and receives events."""

from __future__ import annotations

import queue
from typing import NamedTuple, Protocol, TypeAlias

from .lease import Lease


class WorkerJoined(NamedTuple):
    """The event that a worker is ready to run *slots* leases (groups of compiles) at once.

    *memory* is the memory limit for each of the worker's compiler processes, in bytes.
    """

    worker: str
    process: str
    slots: int
    memory: int = 0


class WorkerUnfit(NamedTuple):
    """The event that a worker cannot compile for this build, for example because its compiler differs."""

    worker: str
    why: str


class WorkerLost(NamedTuple):
    """The event that a worker has left or stopped answering; the worker may join again.

    *ended* is true if the worker may have crashed because of the task that it was compiling.
    """

    worker: str
    why: str
    ended: bool = True


class LeaseAnswered(NamedTuple):
    """The event that a worker has answered a lease (a group of compiles), with results or with an error."""

    number: int
    reply: object
    wrong: str | None = None


class NoMoreWorkers(NamedTuple):
    """The event that the cluster is lost: all workers are lost, and no other worker can join."""

    why: str
    hint: str | None = None


Event: TypeAlias = "WorkerJoined | WorkerUnfit | WorkerLost | LeaseAnswered | NoMoreWorkers"


class Cluster(Protocol):
    """The interface of a cluster and its workers."""

    name: str  # The cluster's name, as the user wrote it in the option or environment variable.
    events: queue.SimpleQueue[Event]

    @property
    def expected_workers(self) -> int:
        """The number of workers that may still join.

        The number no longer includes a worker after an event reports that the worker has joined or cannot be
        used.
        """

    def give(self, worker: str, lease: Lease) -> None:
        """Send a lease (a group of compiles) to a worker. A `LeaseAnswered` event reports the results."""

    def close(self) -> None:
        """Stop this build's processes on the workers and disconnect, within at most two seconds."""


def exception_text(exc: BaseException) -> str:
    """Return the type and the first line of an exception as one line of text."""
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0]}" if lines else type(exc).__name__
