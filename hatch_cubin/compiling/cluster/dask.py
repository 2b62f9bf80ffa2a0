"""Use the workers of a Dask cluster. Calls to Dask run in a separate thread because any call may hang.

Dask runs each function call on the worker that hatch-cubin chooses. If a worker fails, Dask does not run its
tasks again: `scheduler.py` chooses another worker for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import os
import pickle
import queue
import threading
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from . import worker_side
from .lease import Lease
from .shipped_files import SourceArchive
from .worker_side import BuildRequirements
from .workers import (
    Event,
    LeaseAnswered,
    NoMoreWorkers,
    WorkerJoined,
    WorkerLost,
    WorkerUnfit,
    exception_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_CONNECT_S = 10.0
_LOOK_S = 1.0  # how many seconds to wait before the list of workers is read again
# A worker without a heartbeat for so many seconds counts as lost. Large clusters get more time.
_SILENT_S = 10.0
_PATIENCE_S = 10.0  # how many seconds to wait for the first worker
_ANSWER_S = 120.0  # How many seconds the preparation of a new worker may take.
# How many times to send missing files to a worker, which may remove files between two messages.
_MOST_ROUNDS = 3
_CLOSE_S = 1.5
_MISSING = "Dask's package 'distributed' is not installed on this machine"
_INSTALL = "pip install 'hatch-cubin[dask]'"
# If the connection to a scheduler failed: how many seconds to wait for the scheduler's version of Dask.
_VERSION_S = 3.0
_REACH = (
    "check that the scheduler is running, is reachable from this machine, and does not require certificates"
)
_TRUST = (
    "check that the scheduler is running, and that the certificates of the scheduler and of this machine are "
    "valid and signed by the same CA"
)
_CERTIFICATES = (
    "set the certificates in Dask's configuration, or in the variables "
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
)


class DaskCluster:
    """The workers that the scheduler of a Dask cluster lists."""

    def __init__(
        self, name: str, address: str, requirements: BuildRequirements, archive: SourceArchive
    ) -> None:
        self.name = name
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._address, self._requirements, self._archive = address, requirements, archive
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._refused: set[str] = set()
        self._ready: dict[str, WorkerJoined] = {}
        # For each worker: its last heartbeat, and when the heartbeat arrived.
        self._seen: dict[str, tuple[object, float]] = {}
        self._builds: set[str] = set()
        self._connected = threading.Event()
        self._until = 0.0  # Until this time, workers that are missing or have no heartbeat may still join.
        self._leases: dict[str, set[asyncio.Task[None]]] = {}
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def expected_workers(self) -> int:
        """The number of workers in preparation, plus 1 if the build still waits for more workers to join."""
        soon = time.monotonic() < self._until
        return len(self._preparing) + (soon or not self._connected.is_set())

    def give(self, worker: str, lease: Lease) -> None:
        """Send a lease (a group of compiles) to a worker."""
        self._builds.add(lease.build)
        # The thread that calls Dask has already ended, and has reported why.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, worker, lease)

    def close(self) -> None:
        """Stop this build's compiler processes on the workers, and disconnect from the cluster."""
        with contextlib.suppress(RuntimeError):  # the thread that calls Dask has already ended
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_CLOSE_S + 0.5)

    def _take(self, worker: str, lease: Lease) -> None:
        leases = self._leases.setdefault(worker, set())
        leases.add(task := self._start(partial(self._compile, worker, lease)))
        task.add_done_callback(leases.discard)

    def _start(self, make: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return self._loop.create_task(make())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            self._connected.set()
            self._loop.close()

    async def _serve(self) -> None:
        gone: NoMoreWorkers | None = None
        try:
            gone = await self._connect()
            while gone is None and not self._over.is_set():
                if (gone := await self._check_workers()) is not None:
                    break  # The event in `gone` is sent after the loop, so that earlier events come first.
                self._connected.set()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _LOOK_S)
        except Exception as exc:  # noqa: BLE001 - Dask may raise anything
            gone = NoMoreWorkers(exception_text(exc))
        if gone is not None:
            self.events.put(gone)
        self._connected.set()
        await self._leave()

    async def _connect(self) -> NoMoreWorkers | None:
        try:
            import distributed
        except ImportError:
            return NoMoreWorkers(_MISSING, _INSTALL)
        for name in [*logging.root.manager.loggerDict]:
            # Dask's log messages are hidden, because hatch-cubin itself reports problems with a cluster.
            if name.partition(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            # Dask's warnings about different versions are ignored. `catch_warnings` affects all threads, but
            # no other thread is running now.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._client = distributed.Client(  # type: ignore[no-untyped-call]
                    self._address, asynchronous=True, set_as_default=False, timeout=_CONNECT_S
                )
                await asyncio.wait_for(self._client, 2 * _CONNECT_S)
        except Exception as exc:  # noqa: BLE001 - Dask may raise anything
            return await self._why_unusable(distributed, exc)
        return None

    async def _why_unusable(self, distributed: Any, exc: Exception) -> NoMoreWorkers:
        """Return why the connection failed, for example because the scheduler has another version of Dask."""
        mine, theirs = distributed.__version__, None
        with contextlib.suppress(Exception):
            security = distributed.Security() if self._client is None else self._client.security
            if self._address.startswith("tls://") and (missing := _missing_certificate(security)):
                return NoMoreWorkers(missing, _CERTIFICATES)
            theirs = await asyncio.wait_for(self._version(distributed, security), _VERSION_S)
        if theirs not in {None, mine}:
            hint = f"this machine and the cluster need the same version: pip install distributed=={theirs}"
            why = (
                f"the cluster has version {theirs} of the package 'distributed', "
                f"but this machine has version {mine}"
            )
            return NoMoreWorkers(why, hint)
        return NoMoreWorkers(exception_text(exc), _TRUST if self._address.startswith("tls://") else _REACH)

    async def _version(self, distributed: Any, security: Any) -> object:
        connection_args = security.get_connection_args("client")
        async with distributed.core.rpc(self._address, connection_args=connection_args) as scheduler:
            answer = await scheduler.versions(packages=[])
            return answer["packages"]["distributed"]

    async def _check_workers(self) -> NoMoreWorkers | None:
        """Get the list of workers from the scheduler; prepare new workers and report lost workers."""
        # Dask would connect again, but the scheduler has already dropped the tasks of this build.
        if self._client.status != "running":
            return NoMoreWorkers("the connection to the scheduler is lost")
        try:
            found = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), _SILENT_S)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - Dask may raise anything
            return NoMoreWorkers(f"the scheduler does not answer any more: {exception_text(exc)}")
        self._record_workers(found["workers"])
        return None

    def _record_workers(self, workers: dict[str, dict[str, Any]]) -> None:
        """Compare the scheduler's list of workers with the workers that this build already uses."""
        for name in {*self._ready, *self._preparing} - workers.keys():
            self._lose(name, "the worker has left the cluster")
        now, silent_s = time.monotonic(), max(_SILENT_S, len(workers) / 20)
        for name, facts in workers.items():
            sign, since = self._seen.get(name, (None, 0.0))
            if facts["last_seen"] != sign:
                self._seen[name] = sign, since = facts["last_seen"], now
            if now - since > silent_s:
                self._lose(name, f"the worker has not sent a heartbeat for {silent_s:.0f} s")
            elif facts["status"] != "running":
                self._lose(name, f"the worker's status is {facts['status']!r}", ended=False)
            elif name not in {*self._ready, *self._preparing, *self._refused}:
                self._preparing[name] = self._start(partial(self._prepare, name, facts))
        if not workers or workers.keys() - {*self._ready, *self._preparing, *self._refused}:
            self._until = self._until or now + _PATIENCE_S
        else:
            self._until = 0.0

    def _lose(self, name: str, why: str, *, ended: bool = True) -> None:
        if (preparing := self._preparing.pop(name, None)) is not None:
            preparing.cancel()
        if self._ready.pop(name, None) is None:
            return
        # The tasks are cancelled, so that the lost worker does not compile them if it comes back.
        for task in self._leases.pop(name, ()):
            task.cancel()
        self.events.put(WorkerLost(name, why, ended))

    async def _prepare(self, name: str, facts: dict[str, Any]) -> None:
        """Check that a worker has the right versions, and send the worker its missing files."""
        try:
            joined = await asyncio.wait_for(self._prepared(name, facts), _ANSWER_S)
        except asyncio.TimeoutError:
            joined = WorkerUnfit(name, f"the worker did not answer within {_ANSWER_S:g} s")
        except Exception as exc:  # noqa: BLE001 - the worker may raise anything
            joined = WorkerUnfit(name, exception_text(exc))
        if isinstance(joined, WorkerJoined):
            self._ready[name] = joined
        else:
            self._refused.add(name)
        self.events.put(joined)
        self._preparing.pop(name, None)

    async def _prepared(self, name: str, facts: dict[str, Any]) -> WorkerJoined | WorkerUnfit:
        mine = self._requirements.identity
        try:
            version = await self._submit(name, importlib.metadata.version, "hatch-cubin")
        except importlib.metadata.PackageNotFoundError:
            return WorkerUnfit(
                name, f"hatch-cubin is not installed on the worker; this build uses {mine.version}"
            )
        if version != mine.version:
            return WorkerUnfit(
                name, f"the worker has hatch-cubin {version}, but this build has {mine.version}"
            )
        process, differs = await self._call(name, worker_side.identify, self._requirements)
        if differs is not None:
            return WorkerUnfit(name, differs)
        listing = self._archive.listing
        missing_files = await self._call(name, worker_side.store_files, self._requirements, listing)
        for _round in range(_MOST_ROUNDS):
            for piece in self._archive.pieces(missing_files):
                missing_files = await self._call(
                    name, worker_side.store_files, self._requirements, listing, worker_side.packed(piece)
                )
        if missing_files:
            return WorkerUnfit(name, "the worker does not keep the files that the build sends")
        slots = max(1, facts["nthreads"])
        return WorkerJoined(name, process, slots, (facts["memory_limit"] or 0) // slots)

    async def _call(self, worker: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of hatch-cubin on a worker that has hatch-cubin installed."""
        # The arguments are pickled, because Dask searches all other arguments for Dask tasks.
        return await self._submit(worker, worker_side.call_packed, pickle.dumps((function, arguments)))

    async def _submit(self, worker: str, function: Callable[..., Any], argument: object) -> Any:
        """Call a function on *worker*, exactly once and on no other worker."""
        return await self._client.submit(
            function, argument, workers=[worker], allow_other_workers=False, retries=0, pure=False
        )

    async def _compile(self, worker: str, lease: Lease) -> None:
        reply, wrong = None, None
        try:
            reply = await self._call(worker, worker_side.compile_lease, self._requirements, lease)
        except Exception as exc:  # noqa: BLE001 - the worker may raise anything
            wrong = exception_text(exc)
        self.events.put(LeaseAnswered(lease.number, reply, wrong))

    async def _leave(self) -> None:
        """Stop the compiler processes on the workers, and disconnect, both within a short time limit."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._part(), _CLOSE_S)

    async def _part(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                for build in self._builds:
                    await asyncio.wait_for(
                        self._client.run(worker_side.stop, build, workers=[*self._ready], on_error="ignore"),
                        _CLOSE_S / 2,
                    )
            await self._client.close()


def _missing_certificate(security: Any) -> str | None:
    """Return a message if Dask's configuration names no existing file for a certificate or its key."""
    names = {"ca-file": security.tls_ca_file, "client.cert": security.tls_client_cert}
    for name, path in {**names, "client.key": security.tls_client_key}.items():
        # The file `client.key` may be missing, because `client.cert` may contain the key.
        if path is None and name in names:
            return f"tls:// needs certificates, but distributed.comm.tls.{name} is not set"
        if path is not None and "\n" not in path and not os.path.isfile(path):
            return f"distributed.comm.tls.{name} is {path!r}, which is not a file"
    return None
