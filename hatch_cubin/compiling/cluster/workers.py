"""What the workers of a cluster are to a build: whoever takes leases, and what is heard of them."""

from __future__ import annotations

import queue
from typing import NamedTuple, Protocol, TypeAlias

from .lease import Lease


class Joined(NamedTuple):
    """A worker is ready for so many leases at once; *memory* is what one of their compilers may take."""

    worker: str
    process: str
    slots: int
    memory: int = 0


class Unfit(NamedTuple):
    """A worker cannot compile for this build, and why."""

    worker: str
    why: str


class Lost(NamedTuple):
    """A worker is not there any more, or says nothing; it may join again.

    *ended* says whether what it compiled may have been the end of it.
    """

    worker: str
    why: str
    ended: bool = True


class Answered(NamedTuple):
    """A lease has come back: with a reply, or with what went wrong."""

    number: int
    reply: object
    wrong: str | None = None


class Gone(NamedTuple):
    """There will be no more workers."""

    why: str
    hint: str | None = None


Event: TypeAlias = "Joined | Unfit | Lost | Answered | Gone"


class Fleet(Protocol):
    """The workers of one cluster."""

    name: str  # as the user wrote it
    events: queue.SimpleQueue[Event]

    @property
    def hopes(self) -> int:
        """How many workers may join yet, as far as is known. An event comes before a hope is given up."""

    def give(self, worker: str, lease: Lease) -> None:
        """Have a worker compile a lease; an event tells what came of it. This waits for nothing."""

    def close(self) -> None:
        """End what the workers do for this build, and let them go; this takes two seconds at most."""


def said(exc: BaseException) -> str:
    """Return what an exception says, in a line."""
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0]}" if lines else type(exc).__name__
