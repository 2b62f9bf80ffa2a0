"""Run compiles in worker processes that can be killed, timed out and restarted."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, BinaryIO, TypeAlias, cast

from .._environment import without_secrets
from ..errors import Problem, ToolchainError
from ..toolkit.worker import SCRIPT, receive, send

_PATIENCE_S = 5.0  # with a process that has closed its pipe


@dataclass(frozen=True, slots=True)
class Prelude:
    """Includes that many tasks begin with, the options to precompile them with, and the rest of this task."""

    id: int
    includes: bytes
    options: tuple[bytes, ...]
    rest: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """One compile, in the compiler's own terms."""

    id: int
    kind: str  # "c++" or "ptx"
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()
    prelude: Prelude | None = None
    searches: bool = False  # for headers
    ptx: bool = False  # is wanted too, of C++


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a task: *output* is a cubin, *ptx* that of C++, or what no assembler takes of it."""

    id: int
    ok: bool
    output: bytes = b""
    log: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    ptx: bytes = b""
    seconds: float = 0.0
    shared: bool = False  # compiled with the precompiled prelude of its task


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = SCRIPT
    scratch: str = ""  # a folder for precompiled headers


# Returns the next task for a worker, given the prelude that it has precompiled and those that others have.
Next: TypeAlias = Callable[[int | None, Sequence[int]], Task | None]


def run(
    upcoming: Next, setup: Setup, accepts: Callable[[Result], bool] = lambda _result: True
) -> Generator[Result]:
    """Yield each task's result as it is done.

    *upcoming* is asked for a task whenever there is room for one. None says that there is no task now; while
    nothing is running, None says that there are no more.

    A task whose process dies while others run may only have been short of memory; one with a precompiled
    header may have died of that. Either runs again when all others are done, alone and without a precompiled
    header; if its process dies again, it fails. A task that runs too long fails, and its process is ended. A
    task with a precompiled header runs again without it where it runs too long, or where nobody *accepts* its
    result.
    """
    crew = _Crew(upcoming, setup, accepts)
    try:
        while crew.set_to_work():
            result = crew.wait()
            if result is not None:
                crew.set_to_work()  # no worker waits while the result is stored
                yield result
    finally:
        crew.close()


class _Crew:
    """Worker processes, what each is doing and until when, and what is still to do.

    NVRTC parses in one thread of a process at a time, so each task in flight has a process of its own.
    """

    def __init__(self, upcoming: Next, setup: Setup, accepts: Callable[[Result], bool]) -> None:
        self._setup, self._accepts = setup, accepts
        self._next, self._again, self._suspects = upcoming, deque[Task](), deque[Task]()
        self._harmful: set[int] = set()  # preludes that ended a process
        self._alone = False
        self._width = setup.jobs
        self._busy: dict[_Worker, tuple[Task, float]] = {}
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._events: _Events = queue.SimpleQueue()

    def set_to_work(self) -> bool:
        """Start as many tasks as may run at once; say whether any is running."""
        self._alone = self._alone and bool(self._busy)
        while not self._alone and len(self._busy) < self._width and (task := self._upcoming()) is not None:
            if not self._start(task):
                self._again.appendleft(task)
                self._width = len(self._busy)
        if self._suspects and not self._busy:
            self._alone = self._start(self._suspects.popleft())
        return bool(self._busy)

    def _upcoming(self) -> Task | None:
        """Return a task for the worker that will be free."""
        if self._again:
            return self._again.popleft()
        *waiting, held = [worker.held for worker in self._idle] or [None]
        others = (*waiting, *(worker.held for worker in self._busy))
        task = self._next(held, [each for each in others if each is not None])
        return replace(task, prelude=None) if task and self._harms(task) else task

    def _harms(self, task: Task) -> bool:
        return task.prelude is not None and task.prelude.id in self._harmful

    def _start(self, task: Task) -> bool:
        """Have a task done, if there is room for a worker."""
        if (worker := self._free_worker()) is None:
            return False
        self._busy[worker] = (task, time.monotonic() + self._setup.timeout_s)
        worker.give(task)
        return True

    def _free_worker(self) -> _Worker | None:
        """Return an idle worker or a new one; None where the busy ones leave no room for another."""
        if self._idle:
            return self._idle.pop()
        try:
            self._all.append(worker := _Worker(self._setup, self._events))
        except OSError as exc:
            if self._busy:
                return None
            raise ToolchainError(Problem(f"the compiler process could not start: {exc.strerror}")) from exc
        return worker

    def wait(self) -> Result | None:
        """Wait for the first task that ends, and return what came of it; None where it has to run again."""
        first = min(self._busy, key=lambda worker: self._busy[worker][1])
        try:
            left = max(0.0, self._busy[first][1] - time.monotonic())
            worker, result = self._events.get(timeout=min(left, threading.TIMEOUT_MAX))
        except queue.Empty:
            return self._overdue(first)
        if worker not in self._busy:  # it had nothing to do, and was ended or died
            if worker in self._idle:
                self._idle.remove(worker)
                worker.close()
            return None
        task, _deadline = self._busy.pop(worker)
        if result is None:
            return self._ended(worker, task)
        self._idle.append(worker)
        if not self._accepts(result):
            self._again.append(replace(task, prelude=None))
            return None
        return result

    def _overdue(self, worker: _Worker) -> Result | None:
        task, _deadline = self._busy.pop(worker)
        worker.close()
        if task.prelude:  # to precompile takes longer, and that is not the task's fault
            self._again.append(replace(task, prelude=None))
            return None
        limit = f"{self._setup.timeout_s:g} s"
        what = f"took longer than {limit} and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
        return Result(task.id, ok=False, log=f"fatal: {what}")

    def _ended(self, worker: _Worker, task: Task) -> Result | None:
        """Return what came of a task whose process is gone; None where the task runs again."""
        worker.close(_PATIENCE_S)
        if not worker.ready:  # it never got to the task, whose fault this is not
            if not self._busy and not self._idle:
                what = f"the compiler process could not start ({worker.ending})"
                raise ToolchainError(Problem(what, details=tuple(worker.complaints)[-5:]))
            self._width = max(1, len(self._busy))
            self._again.appendleft(task)
            return None
        if task.prelude:
            self._harmful.add(task.prelude.id)
        if self._busy or task.prelude:
            self._suspects.append(replace(task, prelude=None))
            return None
        said = "\n".join([f"fatal: the compiler crashed ({worker.ending})", *worker.complaints])
        return Result(task.id, ok=False, log=said)

    def close(self) -> None:
        """End every process, whatever it is doing."""
        for worker in self._all:
            worker.close()


class _Worker:
    """One worker process, which reports to the crew's queue: each result, then None when it has ended."""

    def __init__(self, setup: Setup, events: _Events) -> None:
        self.ready = False
        self.held: int | None = None  # the prelude that it has precompiled, or is precompiling
        self.complaints: deque[str] = deque(maxlen=20)
        self._events = events
        self._requests: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
        self._requests.put(
            {
                "sys_path": [os.path.abspath(entry) for entry in sys.path],
                "libraries": setup.libraries,
                "folders": dict(setup.folders),
                "scratch": setup.scratch,
            }
        )
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", setup.script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=without_secrets(os.environ),
            start_new_session=True,  # an interrupt at the terminal is the front end's to answer
        )
        self._threads: list[threading.Thread] = []
        # A thread for each pipe: to write to a full one would mean to wait until the process has started.
        for target in (self._write_requests, self._read_results, self._read_errors):
            thread = threading.Thread(target=target, daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                self.close()
                raise OSError(errno.EAGAIN, str(exc)) from exc
            self._threads.append(thread)

    @property
    def ending(self) -> str:
        """How the process ended."""
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def give(self, task: Task) -> None:
        """Start one task."""
        if (shared := task.prelude) is not None:
            self.held = shared.id
        self._requests.put(
            {
                "id": task.id,
                "kind": task.kind,
                "code": task.code,
                "name": task.name,
                "options": list(task.options),
                "instantiate": list(task.instantiate),
                "searches": task.searches,
                "ptx": task.ptx,
                "prelude": shared and (shared.id, shared.includes, list(shared.options), shared.rest),
            }
        )

    def close(self, patience_s: float = 0.0) -> None:
        """End the process, whatever it is doing, unless it ends by itself within *patience_s*."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._requests.put(None)
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                _open(stream).close()

    def _write_requests(self) -> None:
        with contextlib.suppress(OSError):  # the thread that reads results notices a dead worker
            while (message := self._requests.get()) is not None:
                send(_open(self._process.stdin), message)

    def _read_results(self) -> None:
        stream = _open(self._process.stdout)
        try:
            self.ready = receive(stream) is not None
            while (message := receive(stream)) is not None:
                self._events.put((self, Result(**message)))
        finally:  # whatever ends this thread must not leave the crew waiting
            self._events.put((self, None))

    def _read_errors(self) -> None:
        for line in _open(self._process.stderr):
            self.complaints.append(line.decode("utf-8", "replace").rstrip())


_Events: TypeAlias = "queue.SimpleQueue[tuple[_Worker, Result | None]]"


def _open(stream: IO[bytes] | None) -> BinaryIO:
    assert stream is not None  # every stream of the worker is a pipe
    return cast("BinaryIO", stream)
