"""Use any `concurrent.futures.Executor` as a cluster.

An executor chooses the worker for each group of compiles, and the build does not know which files this worker
already has. So the build sends each group of compiles together with all files that the compiles read.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import Executor, Future

from . import worker_side
from .lease import Lease, Reply
from .workers import Event, LeaseAnswered, WorkerJoined, exception_text


class ExecutorCluster:
    """An executor, which is treated like one worker that runs several groups of compiles at once."""

    expected_workers = 0

    def __init__(self, name: str, executor: Executor, archive: worker_side.PackedArchive, slots: int) -> None:
        self.name = name
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._executor, self._archive = executor, archive
        self._leases: queue.SimpleQueue[Lease | None] = queue.SimpleQueue()
        self.events.put(WorkerJoined(name, "", slots))
        threading.Thread(target=self._submit, daemon=True).start()

    def give(self, worker: str, lease: Lease) -> None:  # noqa: ARG002 - there is only one worker
        """Send a lease (a group of compiles) to the executor."""
        self._leases.put(lease)

    def close(self) -> None:
        """Cancel all compiles that the executor has not started."""
        self._leases.put(None)

    def _submit(self) -> None:
        """Submit compiles in a separate thread, because the `submit` of some executors is slow or blocks."""
        while (lease := self._leases.get()) is not None:
            try:
                self._hear(
                    self._executor.submit(worker_side.compile_with, self._archive, lease), lease.number
                )
            except BaseException as exc:  # noqa: BLE001 - an executor may raise anything, and only this thread would see it
                self.events.put(LeaseAnswered(lease.number, None, exception_text(exc)))
        with contextlib.suppress(Exception):  # The executor was already shut down.
            try:
                self._executor.shutdown(wait=False, cancel_futures=True)
            except TypeError:
                # The executor was written for Python before 3.9, and its `shutdown` does not have the
                # argument `cancel_futures`.
                self._executor.shutdown(wait=False)

    def _hear(self, future: Future[Reply], number: int) -> None:
        def done(future: Future[Reply]) -> None:
            try:
                self.events.put(LeaseAnswered(number, future.result()))
            except BaseException as exc:  # noqa: BLE001 - a task may raise anything, even SystemExit
                self.events.put(LeaseAnswered(number, None, exception_text(exc)))

        future.add_done_callback(done)
