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
from .lease import FileListing, Lease, Reply, with_proof
from .worker_files import WorkerFiles

_IDLE_S = 30.0  # that idle compilers wait for another lease
_MOST_OVER = 100  # finished builds that are remembered


class BuildIsOverError(Exception):
    """The build has ended, so its lease is not compiled any more."""


class BuildRequirements(NamedTuple):
    """The facts about a build that a worker needs before its first task."""

    identity: Identity  # the build's own
    wanted: str | None  # "system" if the toolkit of CUDA_HOME is meant


class PackedArchive(NamedTuple):
    """All files that a build's compiles can read, in the form in which they are sent."""

    requirements: BuildRequirements
    listing: FileListing
    blobs: bytes  # packed


class _ProcessState:
    """The files of this worker process, and its compilers that wait for their next lease."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self.pid = os.getpid()
        self.name = f"{socket.gethostname()}:{self.pid}"
        self._lock = threading.Lock()
        self._files: WorkerFiles | None = None
        self._scratch: temporary_folders.Folder | None = None
        self._idle: list[tuple[executor.Setup, executor.WorkerPool]] = []
        self._busy: dict[executor.WorkerPool, str] = {}  # with the build of each
        self._timer: threading.Timer | None = None
        self._over: deque[str] = deque(maxlen=_MOST_OVER)

    @property
    def files(self) -> WorkerFiles:
        with self._lock:
            if self._files is None:
                self._files = WorkerFiles()
            return self._files

    @property
    def scratch(self) -> str:
        """A folder for files that ptxas reads and writes."""
        with self._lock:
            if self._scratch is None:
                self._scratch = temporary_folders.make()
            return str(self._scratch.path)

    @contextlib.contextmanager
    def pool(self, setup: executor.Setup, build: str) -> Iterator[executor.WorkerPool]:
        """Lend a pool, an idle one if possible. A pool whose work was interrupted is not used again."""
        with self._lock:
            if build in self._over:
                raise BuildIsOverError
            found = next((each for each in self._idle if each[0] == setup), None)
            if found is not None:
                self._idle.remove(found)
            pool = executor.WorkerPool(setup) if found is None else found[1]
            self._busy[pool] = build
        undisturbed = False
        try:
            yield pool
            undisturbed = True
        finally:
            with self._lock:
                del self._busy[pool]
                if undisturbed and not pool.halted:
                    self._idle.append((setup, pool))
                    self._wait()
                else:
                    pool.close()

    def stop(self, build: str | None) -> None:
        """End the compilers of a build, and idle ones. None means all builds."""
        with self._lock:
            if build:
                self._over.append(build)  # its next lease may already have been sent
            for pool, whose in self._busy.items():
                if build is None or build == whose:
                    pool.halt()
            self._close_idle()

    def close(self) -> None:
        """End all compilers and remove all files. A forked process does not: they are its parent's."""
        if self.pid != os.getpid():
            return
        self.stop(None)
        with self._lock:
            if self._files is not None:
                self._files.close()
                self._files = None
            if self._scratch is not None:
                self._scratch.close()
                self._scratch = None

    def _wait(self) -> None:
        """End idle compilers if the next lease does not come soon."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_IDLE_S, self.stop, [""])
        self._timer.daemon = True
        self._timer.start()

    def _close_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle:
            self._idle.pop()[1].close()


_states: list[_ProcessState] = []
_first = threading.Lock()


def here() -> _ProcessState:
    """Return the state of this process. A forked process starts with a new state."""
    with _first:
        if not _states or _states[0].pid != os.getpid():
            _states[:] = [_ProcessState()]
            atexit.register(_states[0].close)
        return _states[0]


def identify(requirements: BuildRequirements) -> tuple[str, str | None]:
    """Return this process's name, and how the machine differs from the identity that the build needs."""
    try:
        found = _installed(requirements)
    except ValueError as exc:
        return here().process, str(exc)
    if found.identity.code != identity.CODE:
        return here().process, "its hatch-cubin was replaced after it was started: start it again"
    return here().process, identity.difference(found.identity, requirements.identity)


def store_files(requirements: BuildRequirements, listing: FileListing, blobs: bytes = b"") -> list[str]:
    """Store files. Return the digests of those that are still missing."""
    if blobs:
        here().files.add(unpacked(blobs))
    return here().files.missing_files(listing, _installed(requirements).headers)


def compile_lease(requirements: BuildRequirements, lease: Lease) -> Reply:
    """Compile the tasks of a lease, one after another."""
    mine = here()
    if lease.process not in {"", mine.process}:
        return Reply(mine.name, mine.process, lease.number, refusal="it was started again")
    with contextlib.ExitStack() as stack:
        try:
            folders = stack.enter_context(mine.files.using(lease.listing))
        except KeyError:
            return Reply(mine.name, mine.process, lease.number, refusal="it lacks the build's files")
        installed = _installed(requirements)
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
        pool = stack.enter_context(mine.pool(setup, lease.build))
        results = tuple(
            with_proof(tasks[result.id], lease.listing, result)
            for result in pool.results(lambda _held, _others: next(left, None))
        )
    return Reply(mine.name, mine.process, lease.number, results)


def compile_with(archive: PackedArchive, lease: Lease) -> Reply:
    """Compile a lease sent together with all its files, for fleets that do not list their workers."""
    process, refusal = identify(archive.requirements)
    if refusal is None:
        if store_files(archive.requirements, archive.listing):
            store_files(archive.requirements, archive.listing, archive.blobs)
        return compile_lease(archive.requirements, lease)
    return Reply(here().name, process, lease.number, refusal=refusal)


def stop(build: str) -> None:
    """End the compilers of a build that is over."""
    here().stop(build)


def call_packed(data: bytes) -> Any:
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


def _installed(requirements: BuildRequirements) -> Installed:
    tools = requirements.identity
    return identity.find_installed(
        requirements.wanted, links=tools.nvjitlink is not None, assembles=tools.ptxas is not None
    )
