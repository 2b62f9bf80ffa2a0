"""Functions that a build calls on a worker of a cluster: identify itself, take files, compile, stop.

Compiles run in separate processes, as on the build's machine. They end with the worker, because their input
ends then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import threading
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...common import temporary_folders
from .. import executor
from . import identity
from .identity import Identity, Installed
from .lease import Lease, Listing, Reply, sealed
from .worker_files import Shelf

_IDLE_S = 30.0  # that idle compilers wait for another lease
_MOST_OVER = 100  # finished builds that are remembered


class BuildIsOverError(Exception):
    """The build that wanted the results is over."""


class Asked(NamedTuple):
    """The facts about a build that a worker needs before its first task."""

    identity: Identity  # the build's own
    wanted: str | None  # "system" if the toolkit of CUDA_HOME is meant


class Parcel(NamedTuple):
    """All files that a build's compiles can read, for a worker that may have none of them."""

    asked: Asked
    listing: Listing
    blobs: bytes  # packed


class _Here:
    """The files of this worker process, and its compilers that wait for their next lease."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self.pid = os.getpid()
        self.name = f"{socket.gethostname()}:{self.pid}"
        self._lock = threading.Lock()
        self._shelf: Shelf | None = None
        self._scratch: temporary_folders.Folder | None = None
        self._idle: list[tuple[executor.Setup, executor.Crew]] = []
        self._busy: dict[executor.Crew, str] = {}  # with the build of each
        self._timer: threading.Timer | None = None
        self._over: deque[str] = deque(maxlen=_MOST_OVER)

    @property
    def shelf(self) -> Shelf:
        with self._lock:
            if self._shelf is None:
                self._shelf = Shelf()
            return self._shelf

    @property
    def scratch(self) -> str:
        """A folder for files that ptxas reads and writes."""
        with self._lock:
            if self._scratch is None:
                self._scratch = temporary_folders.make()
            return str(self._scratch.path)

    @contextlib.contextmanager
    def crew(self, setup: executor.Setup, build: str) -> Iterator[executor.Crew]:
        """Lend a crew, an idle one if possible. A crew whose work was interrupted is not used again."""
        with self._lock:
            if build in self._over:
                raise BuildIsOverError
            found = next((each for each in self._idle if each[0] == setup), None)
            if found is not None:
                self._idle.remove(found)
            crew = executor.Crew(setup) if found is None else found[1]
            self._busy[crew] = build
        undisturbed = False
        try:
            yield crew
            undisturbed = True
        finally:
            with self._lock:
                del self._busy[crew]
                if undisturbed and not crew.halted:
                    self._idle.append((setup, crew))
                    self._wait()
                else:
                    crew.close()

    def stop(self, build: str | None) -> None:
        """End the compilers of a build, and idle ones. None means all builds."""
        with self._lock:
            if build:
                self._over.append(build)  # its next lease may already have been sent
            for crew, whose in self._busy.items():
                if build is None or build == whose:
                    crew.halt()
            self._dismiss()

    def close(self) -> None:
        """End all compilers and remove all files, unless they belong to the process that forked this one."""
        if self.pid != os.getpid():
            return
        self.stop(None)
        with self._lock:
            if self._shelf is not None:
                self._shelf.close()
                self._shelf = None
            if self._scratch is not None:
                self._scratch.close()
                self._scratch = None

    def _wait(self) -> None:
        """Dismiss idle compilers if there is no further lease for some time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_IDLE_S, self.stop, [""])
        self._timer.daemon = True
        self._timer.start()

    def _dismiss(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle:
            self._idle.pop()[1].close()


_here: list[_Here] = []
_first = threading.Lock()


def here() -> _Here:
    """Return the state of this process. A forked process starts with a new state."""
    with _first:
        if not _here or _here[0].pid != os.getpid():
            _here[:] = [_Here()]
            atexit.register(_here[0].close)
        return _here[0]


def identify(asked: Asked) -> tuple[str, str | None]:
    """Return this process's name, and how the machine differs from the identity that the build needs."""
    try:
        found = _installed(asked)
    except ValueError as exc:
        return here().process, str(exc)
    if found.identity.code != identity.CODE:
        return here().process, "its hatch-cubin was replaced after it was started: start it again"
    return here().process, identity.difference(found.identity, asked.identity)


def equip(asked: Asked, listing: Listing, blobs: bytes = b"") -> list[str]:
    """Store files. Return the digests of those that are still missing."""
    if blobs:
        here().shelf.add(unpacked(blobs))
    return here().shelf.lacking(listing, _installed(asked).headers)


def compile_lease(asked: Asked, lease: Lease) -> Reply:
    """Compile the tasks of a lease, one after another."""
    mine = here()
    if lease.process not in {"", mine.process}:
        return Reply(mine.name, mine.process, lease.number, refusal="it was started again")
    with contextlib.ExitStack() as stack:
        try:
            folders = stack.enter_context(mine.shelf.using(lease.listing))
        except KeyError:
            return Reply(mine.name, mine.process, lease.number, refusal="it lacks the build's files")
        installed = _installed(asked)
        setup = executor.Setup(
            installed.libraries,
            folders,
            1,
            lease.timeout_s,
            scratch=mine.scratch if installed.assembler else "",
            memory=lease.memory,
            assembler=installed.assembler,
        )
        tasks = {task.id: task for task in lease.tasks}
        left = iter(lease.tasks)
        crew = stack.enter_context(mine.crew(setup, lease.build))
        results = tuple(
            sealed(tasks[result.id], lease.listing, result)
            for result in crew.results(lambda _held, _others: next(left, None))
        )
    return Reply(mine.name, mine.process, lease.number, results)


def compile_with(parcel: Parcel, lease: Lease) -> Reply:
    """Compile a lease sent together with all its files, for fleets that do not list their workers."""
    process, refusal = identify(parcel.asked)
    if refusal is None:
        if equip(parcel.asked, parcel.listing):
            equip(parcel.asked, parcel.listing, parcel.blobs)
        return compile_lease(parcel.asked, lease)
    return Reply(here().name, process, lease.number, refusal=refusal)


def stop(build: str) -> None:
    """End the compilers of a build that is over."""
    here().stop(build)


def called(data: bytes) -> Any:
    """Call a function with its arguments, as packed by a build."""
    function, arguments = pickle.loads(data)  # noqa: S301 - of a build, which this worker trusts
    return function(*arguments)


def packed(blobs: Sequence[bytes]) -> bytes:
    """Return files in the form in which they are sent."""
    return zlib.compress(pickle.dumps(blobs), 6)


def unpacked(data: bytes) -> list[bytes]:
    """Return the files from their sent form."""
    blobs: list[bytes] = pickle.loads(zlib.decompress(data))  # noqa: S301 - of a build, which this worker trusts
    return blobs


def _installed(asked: Asked) -> Installed:
    tools = asked.identity
    return identity.ask(asked.wanted, links=tools.nvjitlink is not None, assembles=tools.ptxas is not None)
