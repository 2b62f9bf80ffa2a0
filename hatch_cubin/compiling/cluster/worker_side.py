"""The functions that a build calls on a worker of a cluster.

A worker does not compile in its own process, but starts compiler processes. If the worker ends, its compiler
processes end too, because their standard input is closed.
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

_IDLE_S = 30.0  # How many seconds a compiler process waits for a task before it ends.
_MOST_OVER = 100  # How many ended builds to remember.


class BuildIsOverError(Exception):
    """Raised if a worker gets a task of a build that has ended."""


class BuildRequirements(NamedTuple):
    """The requirements of a build, which a worker checks before its first task."""

    identity: Identity  # The identity of the machine that runs the build.
    wanted: str | None  # "system" if the build uses the toolkit in CUDA_HOME.


class PackedArchive(NamedTuple):
    """All files that the compiles of a build can read, in compressed form, to be sent to workers."""

    requirements: BuildRequirements
    listing: FileListing
    blobs: bytes  # packed


class _ProcessState:
    """The files and compiler processes that this worker process keeps between two groups of compiles."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self.pid = os.getpid()
        self.name = f"{socket.gethostname()}:{self.pid}"
        self._lock = threading.Lock()
        self._files: WorkerFiles | None = None
        self._scratch: temporary_folders.Folder | None = None
        self._idle: list[tuple[executor.Setup, executor.WorkerPool]] = []
        # For each pool of compiler processes that is in use: the name of the build that uses it.
        self._busy: dict[executor.WorkerPool, str] = {}
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
        """The temporary folder for files that ptxas reads and writes."""
        with self._lock:
            if self._scratch is None:
                self._scratch = temporary_folders.make()
            return str(self._scratch.path)

    @contextlib.contextmanager
    def pool(self, setup: executor.Setup, build: str) -> Iterator[executor.WorkerPool]:
        """Provide a pool of compiler processes while the `with` block runs: an idle pool, or a new pool.

        If the `with` block raises an exception, the pool is not used again.
        """
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
        """End the compiler processes of a build (None means all builds), and all idle compiler processes."""
        with self._lock:
            if build:
                # More tasks of the ended build may still arrive, so its name is recorded.
                self._over.append(build)
            for pool, whose in self._busy.items():
                if build is None or build == whose:
                    pool.halt()
            self._close_idle()

    def close(self) -> None:
        """End all compiler processes and remove all files, except in a forked process."""
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
        """Start a timer that ends the compiler processes if they get no task for `_IDLE_S` seconds."""
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
    """Return the files and processes that this worker process keeps.

    A forked process gets a new, empty state: it does not use the files and processes of its parent process.
    """
    with _first:
        if not _states or _states[0].pid != os.getpid():
            _states[:] = [_ProcessState()]
            atexit.register(_states[0].close)
        return _states[0]


def identify(requirements: BuildRequirements) -> tuple[str, str | None]:
    """Return the name of this process, and why this machine cannot compile for a build (None if it can)."""
    try:
        found = _installed(requirements)
    except ValueError as exc:
        return here().process, str(exc)
    if found.identity.code != identity.CODE:
        return here().process, "hatch-cubin was replaced after the worker was started: restart the worker"
    return here().process, identity.difference(found.identity, requirements.identity)


def store_files(requirements: BuildRequirements, listing: FileListing, blobs: bytes = b"") -> list[str]:
    """Store the files in *blobs*, and return the digests of the files in *listing* that are still missing."""
    if blobs:
        here().files.add(unpacked(blobs))
    return here().files.missing_files(listing, _installed(requirements).headers)


def compile_lease(requirements: BuildRequirements, lease: Lease) -> Reply:
    """Compile the tasks of a lease (a group of tasks) one after another, and return the results."""
    mine = here()
    if lease.process not in {"", mine.process}:
        return Reply(mine.name, mine.process, lease.number, refusal="the worker was restarted")
    with contextlib.ExitStack() as stack:
        try:
            folders = stack.enter_context(mine.files.using(lease.listing))
        except KeyError:
            return Reply(
                mine.name, mine.process, lease.number, refusal="the worker does not have the build's files"
            )
        installed = _installed(requirements)
        setup = executor.Setup(
            installed.libraries,
            folders,
            1,
            lease.timeout_s,
            scratch=mine.scratch if installed.assembler or installed.tile_assembler else "",
            memory=lease.memory,
            assembler=installed.assembler,
            tile_assembler=installed.tile_assembler,
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
    """Compile a group of tasks that is sent together with the files that the compiles read."""
    process, refusal = identify(archive.requirements)
    if refusal is None:
        if store_files(archive.requirements, archive.listing):
            store_files(archive.requirements, archive.listing, archive.blobs)
        return compile_lease(archive.requirements, lease)
    return Reply(here().name, process, lease.number, refusal=refusal)


def stop(build: str) -> None:
    """End the compiler processes of a build that has ended."""
    here().stop(build)


def call_packed(data: bytes) -> Any:
    """Call a function; *data* is the pickled function with its arguments."""
    function, arguments = pickle.loads(data)  # noqa: S301 - the data come from a build, which this worker trusts
    return function(*arguments)


def packed(blobs: Sequence[bytes]) -> bytes:
    """Pickle and compress files for sending."""
    return zlib.compress(pickle.dumps(blobs), 6)


def unpacked(data: bytes) -> list[bytes]:
    """Return the files that `packed` has compressed."""
    blobs: list[bytes] = pickle.loads(zlib.decompress(data))  # noqa: S301 - the data come from a build, which this worker trusts
    return blobs


def _installed(requirements: BuildRequirements) -> Installed:
    return identity.find_installed(requirements.wanted, requirements.identity.uses)
