"""The workers of a Dask cluster. Calls to Dask run in a separate thread because any of them may hang.

Dask runs each task on the worker that we name. `scheduler.py` decides if another worker runs it again.
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
_LOOK_S = 1.0  # between two checks of the list of workers
_SILENT_S = 10.0  # without a heartbeat for so long, a worker is lost; large clusters beat more slowly
_PATIENCE_S = 10.0  # longest wait for the first worker that answers
_ANSWER_S = 120.0  # for a worker's answer before its first lease
_MOST_ROUNDS = 3  # attempts to send files to a worker: it may remove some for another build before it has all
_CLOSE_S = 1.5
_MISSING = "Dask's distributed is not installed here"
_INSTALL = "pip install 'hatch-cubin[dask]'"
_VERSION_S = 3.0  # for the version of a scheduler that does not answer as expected
_REACH = "is the scheduler running, can this machine reach it, and is it one without certificates?"
_TRUST = (
    "is the scheduler running, and are the certificates of both sides signed by the same CA, and not expired?"
)
_CERTIFICATES = "Dask's configuration names them, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE and __CLIENT__CERT"


class DaskCluster:
    """The workers that a scheduler lists."""

    def __init__(
        self, name: str, address: str, requirements: BuildRequirements, archive: SourceArchive
    ) -> None:
        self.name = name
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._address, self._requirements, self._archive = address, requirements, archive
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._refused: set[str] = set()
        self._ready: dict[str, WorkerJoined] = {}
        self._seen: dict[str, tuple[object, float]] = {}  # each worker's last heartbeat, and when it came
        self._builds: set[str] = set()
        self._connected = threading.Event()
        self._until = 0.0  # until when missing or unhealthy workers may still join
        self._leases: dict[str, set[asyncio.Task[None]]] = {}
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def expected_workers(self) -> int:
        """The number of workers being prepared, plus one while others may come soon or come back."""
        soon = time.monotonic() < self._until
        return len(self._preparing) + (soon or not self._connected.is_set())

    def give(self, worker: str, lease: Lease) -> None:
        """Have a worker compile a lease."""
        self._builds.add(lease.build)
        with contextlib.suppress(RuntimeError):  # the thread has ended, and has reported that
            self._loop.call_soon_threadsafe(self._take, worker, lease)

    def close(self) -> None:
        """Stop the workers' processes for this build and disconnect from the workers."""
        with contextlib.suppress(RuntimeError):  # the thread has ended already
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
                    break  # events must be reported before hope is given up
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
            if name.partition(".")[0] == "distributed":  # its log messages are reported by this module
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            with warnings.catch_warnings():  # about other versions; nothing else runs yet
                warnings.simplefilter("ignore")
                self._client = distributed.Client(  # type: ignore[no-untyped-call]
                    self._address, asynchronous=True, set_as_default=False, timeout=_CONNECT_S
                )
                await asyncio.wait_for(self._client, 2 * _CONNECT_S)
        except Exception as exc:  # noqa: BLE001 - Dask may raise anything
            return await self._why_unusable(distributed, exc)
        return None

    async def _why_unusable(self, distributed: Any, exc: Exception) -> NoMoreWorkers:
        """Return why the scheduler cannot be used: it may have another version, or other certificates."""
        mine, theirs = distributed.__version__, None
        with contextlib.suppress(Exception):
            security = distributed.Security() if self._client is None else self._client.security
            if self._address.startswith("tls://") and (missing := _missing_certificate(security)):
                return NoMoreWorkers(missing, _CERTIFICATES)
            theirs = await asyncio.wait_for(self._version(distributed, security), _VERSION_S)
        if theirs not in {None, mine}:
            hint = f"both need the same version, here or there: pip install distributed=={theirs}"
            return NoMoreWorkers(f"the cluster has distributed {theirs}, and here is {mine}", hint)
        return NoMoreWorkers(exception_text(exc), _TRUST if self._address.startswith("tls://") else _REACH)

    async def _version(self, distributed: Any, security: Any) -> object:
        connection_args = security.get_connection_args("client")
        async with distributed.core.rpc(self._address, connection_args=connection_args) as scheduler:
            answer = await scheduler.versions(packages=[])
            return answer["packages"]["distributed"]

    async def _check_workers(self) -> NoMoreWorkers | None:
        """Check the list of workers: prepare new ones and report lost ones."""
        if self._client.status != "running":  # Dask would reconnect, but the scheduler has lost the leases
            return NoMoreWorkers("the connection to the scheduler is lost")
        try:
            found = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), _SILENT_S)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - Dask may raise anything
            return NoMoreWorkers(f"the scheduler does not answer any more: {exception_text(exc)}")
        self._record_workers(found["workers"])
        return None

    def _record_workers(self, workers: dict[str, dict[str, Any]]) -> None:
        """Record which workers are there, and their state."""
        for name in {*self._ready, *self._preparing} - workers.keys():
            self._lose(name, "it is gone")
        now, silent_s = time.monotonic(), max(_SILENT_S, len(workers) / 20)
        for name, facts in workers.items():
            sign, since = self._seen.get(name, (None, 0.0))
            if facts["last_seen"] != sign:
                self._seen[name] = sign, since = facts["last_seen"], now
            if now - since > silent_s:
                self._lose(name, f"it has said nothing for {silent_s:.0f} s")
            elif facts["status"] != "running":
                self._lose(name, f"it is {facts['status']}", ended=False)
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
        for task in self._leases.pop(name, ()):  # so that it does not start with these when it returns
            task.cancel()
        self.events.put(WorkerLost(name, why, ended))

    async def _prepare(self, name: str, facts: dict[str, Any]) -> None:
        """Ask a worker for its identity, and send it the files that it does not have."""
        try:
            joined = await asyncio.wait_for(self._prepared(name, facts), _ANSWER_S)
        except asyncio.TimeoutError:
            joined = WorkerUnfit(name, f"it did not answer within {_ANSWER_S:g} s")
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
            return WorkerUnfit(name, f"no hatch-cubin, this build has {mine.version}")
        if version != mine.version:
            return WorkerUnfit(name, f"hatch-cubin {version}, this build has {mine.version}")
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
            return WorkerUnfit(name, "it does not keep the files that it is given")
        slots = max(1, facts["nthreads"])
        return WorkerJoined(name, process, slots, (facts["memory_limit"] or 0) // slots)

    async def _call(self, worker: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Have a worker on which hatch-cubin is installed call one of our functions."""
        # Packed, because Dask would search visible arguments for tasks of its own.
        return await self._submit(worker, worker_side.call_packed, pickle.dumps((function, arguments)))

    async def _submit(self, worker: str, function: Callable[..., Any], argument: object) -> Any:
        """Have exactly this worker call a function once."""
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
        """Stop the compilers and disconnect within a short time."""
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
    """Return which certificate file is missing among those that Dask's configuration must name."""
    names = {"ca-file": security.tls_ca_file, "client.cert": security.tls_client_cert}
    for name, path in {**names, "client.key": security.tls_client_key}.items():
        if path is None and name in names:  # the file of a certificate may contain its key
            return f"tls:// needs certificates, and nothing says distributed.comm.tls.{name}"
        if path is not None and "\n" not in path and not os.path.isfile(path):
            return f"there is no file {path!r}, which distributed.comm.tls.{name} names"
    return None
