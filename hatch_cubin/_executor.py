"""Run compiles in a worker process that can be killed, timed out and restarted."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from ._worker import receive, send
from .errors import Problem, ToolchainError


@dataclass(frozen=True, slots=True)
class Task:
    """One compile, in the compiler's own terms."""

    id: int
    kind: str  # "c++", "c++ to ptx" or "ptx"
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a task."""

    id: int
    ok: bool
    output: bytes = b""
    log: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = str(Path(__file__).with_name("_worker.py"))


def run(
    tasks: Sequence[Task], setup: Setup, started: Callable[[Task], object] = lambda _task: None
) -> Generator[Result]:
    """Yield each task's result as it is done; *started* hears of each that is begun.

    A worker that dies takes the tasks in flight with it: they run again, one at a time, and the one
    that kills its worker then is the one that fails. A task that runs too long is ended likewise.
    """
    waiting, suspects = deque(tasks), deque[Task]()
    worker: _Worker | None = None
    alone = False
    try:
        while waiting or suspects or (worker and worker.running):
            worker = worker or _Worker(setup)
            alone = bool(suspects) or (alone and bool(worker.running))
            line, width = (suspects, 1) if alone else (waiting, setup.jobs)
            while line and len(worker.running) < width:
                task = line.popleft()
                started(task)
                worker.give(task)
            result = worker.wait()
            if result is not None:
                yield result
                continue
            failed, innocent, suspected = worker.culprits()
            worker.close()
            worker = None
            yield from failed
            waiting.extendleft(innocent)
            suspects.extend(suspected)
    finally:
        if worker is not None:
            worker.close()


class _Worker:
    """One worker process and the tasks it is running, each with its deadline."""

    def __init__(self, setup: Setup) -> None:
        self.running: dict[int, tuple[Task, float]] = {}
        self._timeout_s = setup.timeout_s
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-I", setup.script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # an interrupt at the terminal is the front end's to answer
            )
        except OSError as exc:
            raise ToolchainError(Problem(f"the compiler process could not start: {exc.strerror}")) from exc
        self._events: queue.SimpleQueue[Result | None] = queue.SimpleQueue()
        self._complaints: deque[str] = deque(maxlen=20)
        self._ready = self._ended = False
        self._readers = [
            threading.Thread(target=target, daemon=True) for target in (self._read_results, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()
        self._send(
            {
                "sys_path": [os.path.abspath(entry) for entry in sys.path],
                "libraries": setup.libraries,
                "folders": dict(setup.folders),
                "jobs": setup.jobs,
            }
        )

    def give(self, task: Task) -> None:
        """Start one task."""
        self.running[task.id] = (task, time.monotonic() + self._timeout_s)
        self._send(
            {
                "id": task.id,
                "kind": task.kind,
                "code": task.code,
                "name": task.name,
                "options": list(task.options),
                "instantiate": list(task.instantiate),
            }
        )

    def wait(self) -> Result | None:
        """Return the next result; None when the process has died or a task is overdue."""
        deadline = min(deadline for _, deadline in self.running.values())
        try:
            result = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if result is None:
            self._ended = True
        else:
            del self.running[result.id]
        return result

    def culprits(self) -> tuple[list[Result], list[Task], list[Task]]:
        """Split the tasks in flight: failed for good, to run again, to run again alone."""
        if not self._ended:
            # The first deadline has passed, whatever a clock read a moment later says.
            now = max(time.monotonic(), min(deadline for _, deadline in self.running.values()))
            overdue = [task for task, deadline in self.running.values() if deadline <= now]
            what = (
                f"took longer than {self._timeout_s:g} s and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
            )
            failed = [Result(task.id, ok=False, log=f"fatal: {what}") for task in overdue]
            return failed, [task for task, _ in self.running.values() if task not in overdue], []
        code = self._process.wait()
        self._readers[1].join()
        said = "\n".join(self._complaints)
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        if not self._ready:
            what = f"the compiler process could not start ({ending})"
            raise ToolchainError(Problem(what, details=tuple(self._complaints)[-5:]))
        tasks = [task for task, _ in self.running.values()]
        if len(tasks) > 1:
            return [], [], tasks
        log = f"fatal: the compiler crashed ({ending})" + (f"\n{said}" if said else "")
        return [Result(tasks[0].id, ok=False, log=log)], [], []

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                _open(stream).close()

    def _send(self, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # a dead worker is noticed by wait()
            send(_open(self._process.stdin), message)

    def _read_results(self) -> None:
        stream = _open(self._process.stdout)
        try:
            self._ready = receive(stream) is not None
            while (message := receive(stream)) is not None:
                self._events.put(Result(**message))
        finally:  # whatever ends this thread must not leave wait() waiting
            self._events.put(None)

    def _read_errors(self) -> None:
        for line in _open(self._process.stderr):
            self._complaints.append(line.decode("utf-8", "replace").rstrip())


def _open(stream: IO[bytes] | None) -> BinaryIO:
    assert stream is not None  # every stream of the worker is a pipe
    return cast("BinaryIO", stream)
