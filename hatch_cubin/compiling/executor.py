"""Run compiles in worker processes, which can be killed, timed out and restarted."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..errors import ToolchainError, problem
from ..toolkit.worker import SCRIPT
from .processes import Process, Watch

_PATIENCE_S = 5.0  # seconds to wait for the end of a process that has closed its pipe


@dataclass(frozen=True, slots=True)
class PrecompiledHeader:
    """A precompiled header that tasks share: the includes, their options, and the rest of the task."""

    id: int
    includes: bytes
    options: tuple[bytes, ...]
    rest: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """One compile, with the text and options for the compiler."""

    id: int
    kind: str  # "c++", "lto" (C++ to LTO-IR), "ptx", "link", or "xz" (compress the code)
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()
    precompiled_header: PrecompiledHeader | None = None
    searches: bool = False  # whether the compiler searches for headers
    ptx: bool = False  # whether C++ or a link has to give PTX, in addition to the cubin
    # For a link: the kind, name and bytes of each input. In a link, `instantiate` lists the symbols that
    # inputs other than LTO-IR define, and `code` is a probe that calls the functions among these symbols.
    inputs: tuple[tuple[str, bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a task.

    *output* is the cubin. *ptx* is the PTX of C++ code, even if ptxas has rejected the PTX.
    """

    id: int
    ok: bool
    output: bytes = b""
    log: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    ptx: bytes = b""
    seconds: float = 0.0
    shared: bool = False  # whether the precompiled header of the task was used
    worker: str = ""  # the address of the cluster worker that compiled the task; empty for this machine


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings that a worker process needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = SCRIPT
    scratch: str = ""  # a temporary folder for precompiled headers, and for files that ptxas reads and writes
    assembler: str = ""  # the path of ptxas; empty without PTX sources
    memory: int = 0  # bytes of memory that a worker process may use; 0 for no limit


# A function that returns the next task for a worker process, given the number of the worker's precompiled
# header, and the numbers of the other workers' headers.
Next: TypeAlias = Callable[[int | None, Sequence[int]], Task | None]


def _anything(_result: Result) -> bool:
    return True


def run(upcoming: Next, setup: Setup, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
    """Yield each task's result when it is done.

    *upcoming* is called for the next task whenever a process is free. If *upcoming* returns None, no task is
    available now; if no task is running either, all tasks are done.

    If the process of a task dies, the reason may be a shortage of memory or the precompiled header. So the
    task runs again after all other tasks, alone and without a precompiled header. If its process dies again,
    the task fails. If a task exceeds its time limit, its process is killed and the task fails. A task with a
    precompiled header gets a second chance without the precompiled header if it exceeds its time limit, or if
    *accepts* rejects its result.
    """
    pool = WorkerPool(setup)
    try:
        yield from pool.results(upcoming, accepts)
    finally:
        pool.close()


class WorkerPool:
    """The worker processes, with the task and deadline of each, and the tasks that have to run again.

    NVRTC parses in only one thread of a process at a time, so each running task has its own process.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._again, self._suspects = deque[Task](), deque[Task]()
        self._harmful: set[int] = set()  # the numbers of precompiled headers with which a process died
        self._alone = self.halted = False
        self._busy: dict[_CompilerProcess, tuple[Task, float]] = {}
        self._idle: list[_CompilerProcess] = []
        self._all: list[_CompilerProcess] = []
        self._watch: Watch = Watch()

    def results(self, upcoming: Next, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
        """Yield the result of each task when it is done.

        After that, the processes stay ready for further tasks.
        """
        self._next, self._accepts, self._width = upcoming, accepts, self._setup.jobs
        while self._set_to_work():
            result = self._wait()
            if result is not None and not self.halted:  # after halt(), a killed process looks like a crash
                # starts the next task first, so that no worker is idle while the result is stored
                self._set_to_work()
                yield result

    def halt(self) -> None:
        """Stop all work. Any thread may call this method; `results` yields no more results."""
        self.halted = True
        for worker in [*self._all]:
            worker.kill()

    def _set_to_work(self) -> bool:
        """Start as many tasks as may run at once, and return whether a task is running."""
        if self.halted:
            return False
        self._alone = self._alone and bool(self._busy)
        while not self._alone and len(self._busy) < self._width and (task := self._upcoming()) is not None:
            if not self._start(task):
                self._again.appendleft(task)
                self._width = len(self._busy)
        if self._suspects and not self._busy:
            self._alone = self._start(self._suspects.popleft())
        return bool(self._busy)

    def _upcoming(self) -> Task | None:
        """Return the next task for the worker process that `_free_worker` will return."""
        if self._again:
            return self._again.popleft()
        *waiting, held = [worker.held for worker in self._idle] or [None]
        others = (*waiting, *(worker.held for worker in self._busy))
        task = self._next(held, [each for each in others if each is not None])
        return replace(task, precompiled_header=None) if task and self._harms(task) else task

    def _harms(self, task: Task) -> bool:
        return task.precompiled_header is not None and task.precompiled_header.id in self._harmful

    def _start(self, task: Task) -> bool:
        """Start a task if a worker process is free, and return whether the task was started."""
        if (worker := self._free_worker()) is None:
            return False
        self._busy[worker] = (task, time.monotonic() + self._setup.timeout_s)
        worker.give(task)
        return True

    def _free_worker(self) -> _CompilerProcess | None:
        """Return an idle worker process, or start one; None if no more processes can be started."""
        if self._idle:
            return self._idle.pop()
        try:
            self._all.append(worker := _CompilerProcess(self._setup, self._watch))
        except OSError as exc:
            if self._busy:
                return None
            what = f"the compiler process could not start: {exc.strerror}"
            raise ToolchainError(problem("compiler-not-startable", what)) from exc
        return worker

    def _wait(self) -> Result | None:
        """Wait until a task ends, and return its result; None if the task has to run again."""
        # the first task has the earliest deadline, because all tasks have the same time limit
        first, (_task, until) = next(iter(self._busy.items()))
        heard = self._watch.next(until - time.monotonic())
        if heard is None:
            return self._overdue(first)
        worker, message = heard
        if worker not in self._busy:  # an idle worker was killed or has died
            self._idle = [each for each in self._idle if each is not worker]
            worker.close()
            return None
        task, _deadline = self._busy.pop(worker)
        if message is None:
            return self._ended(worker, task)
        worker.served = True
        self._idle.append(worker)
        result = Result(**message)
        if not self._accepts(result):
            self._again.append(replace(task, precompiled_header=None))
            return None
        return result

    def _overdue(self, worker: _CompilerProcess) -> Result | None:
        task, _deadline = self._busy.pop(worker)
        worker.close()
        if task.precompiled_header:  # the time limit may have been exceeded because precompiling takes long
            self._again.append(replace(task, precompiled_header=None))
            return None
        limit = f"{self._setup.timeout_s:g} s"
        what = f"took longer than {limit} and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
        return Result(task.id, ok=False, log=f"fatal: {what}")

    def _ended(self, worker: _CompilerProcess, task: Task) -> Result | None:
        """Return the result of a task after its process has died; None if the task will run again."""
        worker.close(_PATIENCE_S)
        if not worker.ready:  # the process died before it started the task, so the task is not the cause
            if not self._busy and not self._idle:
                what = f"the compiler process could not start ({worker.ending})"
                details = tuple(worker.complaints)[-5:]
                raise ToolchainError(problem("compiler-not-startable", what, details=details))
            self._width = max(1, len(self._busy))
            self._again.appendleft(task)
            return None
        if task.precompiled_header:
            self._harmful.add(task.precompiled_header.id)
        if self._busy or task.precompiled_header or worker.served:
            self._suspects.append(replace(task, precompiled_header=None))
            return None
        said = "\n".join([f"fatal: the compiler crashed ({worker.ending})", *worker.complaints])
        return Result(task.id, ok=False, log=said)

    def close(self) -> None:
        """End all worker processes, even busy ones."""
        for worker in self._all:
            worker.close()
        self._watch.close()


class _CompilerProcess(Process):
    """A worker process, which runs the script `toolkit/worker.py`."""

    def __init__(self, setup: Setup, watch: Watch) -> None:
        super().__init__([sys.executable, "-I", setup.script], watch)
        # whether the process has completed a task, which may be the cause of a later crash
        self.served = False
        self.held: int | None = None  # the number of the precompiled header that the process has or is making
        self.send(
            {
                "sys_path": [os.path.abspath(entry) for entry in sys.path],
                "libraries": setup.libraries,
                "folders": dict(setup.folders),
                "scratch": setup.scratch,
                "assembler": setup.assembler,
                "memory": setup.memory,
            }
        )

    def give(self, task: Task) -> None:
        """Send one task to the process."""
        if (shared := task.precompiled_header) is not None:
            self.held = shared.id
        self.send(
            {
                "id": task.id,
                "kind": task.kind,
                "code": task.code,
                "name": task.name,
                "options": list(task.options),
                "instantiate": list(task.instantiate),
                "searches": task.searches,
                "ptx": task.ptx,
                "inputs": list(task.inputs),
                "precompiled_header": shared
                and (shared.id, shared.includes, list(shared.options), shared.rest),
            }
        )
