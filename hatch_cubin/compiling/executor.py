"""Run compiles in worker processes that can be killed, timed out and restarted."""

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

_PATIENCE_S = 5.0  # wait for a process that has closed its pipe


@dataclass(frozen=True, slots=True)
class PrecompiledHeader:
    """Includes that many tasks share, the options to precompile them with, and the rest of this task."""

    id: int
    includes: bytes
    options: tuple[bytes, ...]
    rest: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """One compile, in the terms of the compiler."""

    id: int
    kind: str  # "c++", "lto" (C++ to LTO-IR), "ptx", "link", or "xz" (pack the code)
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()
    precompiled_header: PrecompiledHeader | None = None
    searches: bool = False  # whether it searches for headers
    ptx: bool = False  # whether PTX is wanted too, from C++ or a link
    # For a link: kind, name and bytes of each input. `instantiate` then lists the symbols that inputs other
    # than LTO-IR define, and `code` is a probe that calls the functions among them.
    inputs: tuple[tuple[str, bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a task.

    *output* is a cubin; *ptx* is the PTX of C++, or PTX that no assembler accepts.
    """

    id: int
    ok: bool
    output: bytes = b""
    log: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    ptx: bytes = b""
    seconds: float = 0.0
    shared: bool = False  # compiled with its task's precompiled header
    worker: str = ""  # address of the other machine that compiled it


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings that a worker needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = SCRIPT
    scratch: str = ""  # a folder for precompiled headers, and for files that ptxas reads and writes
    assembler: str = ""  # the path of ptxas, if there are PTX sources
    memory: int = 0  # bytes that a worker may use; 0 if only the machine limits them


# Returns the next task for a worker, given its precompiled header and the headers of the other workers.
Next: TypeAlias = Callable[[int | None, Sequence[int]], Task | None]


def _anything(_result: Result) -> bool:
    return True


def run(upcoming: Next, setup: Setup, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
    """Yield each task's result when it is done.

    *upcoming* is called for the next task whenever a process is free. It returns None if no task is available
    yet; if no task is running then, all tasks are done.

    If a task's process dies while other tasks run, memory may just have been short. If the task used a
    precompiled header, that may be the cause. In both cases the task runs again after all others, alone and
    without a precompiled header. If its process dies again, the task fails. If a task runs too long, its
    process is ended and the task fails. But a task with a precompiled header runs again without it if it ran
    too long, or if *accepts* rejects its result.
    """
    pool = WorkerPool(setup)
    try:
        yield from pool.results(upcoming, accepts)
    finally:
        pool.close()


class WorkerPool:
    """Worker processes, the task and deadline of each, and the tasks that are still to do.

    NVRTC parses in only one thread of a process at a time, so each running task has its own process.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._again, self._suspects = deque[Task](), deque[Task]()
        self._harmful: set[int] = set()  # precompiled headers during whose use a process died
        self._alone = self.halted = False
        self._busy: dict[_CompilerProcess, tuple[Task, float]] = {}
        self._idle: list[_CompilerProcess] = []
        self._all: list[_CompilerProcess] = []
        self._watch: Watch = Watch()

    def results(self, upcoming: Next, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
        """Yield each task's result when it is done. The processes then stay ready for further tasks."""
        self._next, self._accepts, self._width = upcoming, accepts, self._setup.jobs
        while self._set_to_work():
            result = self._wait()
            if result is not None and not self.halted:  # ending a process looks like a crash
                self._set_to_work()  # so that no worker is idle while the result is stored
                yield result

    def halt(self) -> None:
        """Stop all work; may be called from any thread. `results` yields nothing more."""
        self.halted = True
        for worker in [*self._all]:
            worker.kill()

    def _set_to_work(self) -> bool:
        """Start as many tasks as may run at once. Return whether any task is running."""
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
        """Return a task for the worker that will be idle next."""
        if self._again:
            return self._again.popleft()
        *waiting, held = [worker.held for worker in self._idle] or [None]
        others = (*waiting, *(worker.held for worker in self._busy))
        task = self._next(held, [each for each in others if each is not None])
        return replace(task, precompiled_header=None) if task and self._harms(task) else task

    def _harms(self, task: Task) -> bool:
        return task.precompiled_header is not None and task.precompiled_header.id in self._harmful

    def _start(self, task: Task) -> bool:
        """Start a task if there is room for a worker. Return whether it was started."""
        if (worker := self._free_worker()) is None:
            return False
        self._busy[worker] = (task, time.monotonic() + self._setup.timeout_s)
        worker.give(task)
        return True

    def _free_worker(self) -> _CompilerProcess | None:
        """Return an idle worker or a new one. None if the busy workers leave no room for another."""
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
        """Wait for the first task to end, and return its result. None if the task has to run again."""
        first, (_task, until) = next(iter(self._busy.items()))  # all tasks have the same limit
        heard = self._watch.next(until - time.monotonic())
        if heard is None:
            return self._overdue(first)
        worker, message = heard
        if worker not in self._busy:  # an idle worker was ended or died
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
        if task.precompiled_header:  # precompiling takes longer, and that is not the task's fault
            self._again.append(replace(task, precompiled_header=None))
            return None
        limit = f"{self._setup.timeout_s:g} s"
        what = f"took longer than {limit} and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
        return Result(task.id, ok=False, log=f"fatal: {what}")

    def _ended(self, worker: _CompilerProcess, task: Task) -> Result | None:
        """Return the result of a task after its process has died. None if the task will run again."""
        worker.close(_PATIENCE_S)
        if not worker.ready:  # it died before it started the task, so the task is not the cause
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
        """End every process, even if it is busy."""
        for worker in self._all:
            worker.close()
        self._watch.close()


class _CompilerProcess(Process):
    """A process that compiles."""

    def __init__(self, setup: Setup, watch: Watch) -> None:
        super().__init__([sys.executable, "-I", setup.script], watch)
        self.served = False  # if so, an earlier task may be the cause when the process dies
        self.held: int | None = None  # the precompiled header that it has, or is making
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
        """Start one task."""
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
