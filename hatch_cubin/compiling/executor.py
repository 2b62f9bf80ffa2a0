"""Run compiles in worker processes.

A worker process is killed when it exceeds a time limit, and can be restarted.
"""

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
from .processes import Process, WorkerMessages

TILE_KINDS = frozenset({"tile", "tileir"})  # the kinds of tasks that need tileiras
_PATIENCE_S = 5.0  # how many seconds a process may take to exit after it has closed its output


@dataclass(frozen=True, slots=True)
class PrecompiledHeader:
    """A header precompiled from the *includes* of a source; *rest* is the source text after the includes."""

    id: int
    includes: bytes
    options: tuple[bytes, ...]
    rest: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """One compile for a worker process: the source text, and the options of the compiler."""

    id: int
    # What to do with *code*: "c++", "lto" and "tile" compile C++ (to a cubin, to LTO-IR, or to a cubin with
    # tile kernels), "ptx" and "tileir" assemble, "link" links, and "xz" compresses.
    kind: str
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()
    precompiled_header: PrecompiledHeader | None = None
    searches: bool = False  # Whether the source includes headers for which the compiler has to search.
    ptx: bool = False  # Whether the compiler or linker has to return PTX too, not only a cubin.
    # The kind, name and bytes of each input of the linker. For a link, `instantiate` lists the symbols that
    # the inputs define. The list leaves out the symbols of LTO-IR. For a link, `code` is a test program: it
    # calls the functions in `instantiate`.
    inputs: tuple[tuple[str, bytes, bytes], ...] = ()
    tile_flags: tuple[bytes, ...] = ()  # The options of tileiras, for a C++ source with tile kernels.


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a task.

    *output* is the cubin, and *ptx* is the PTX from which ptxas made the cubin. *ptx* is set even if ptxas
    failed.
    """

    id: int
    ok: bool
    output: bytes = b""
    log: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    ptx: bytes = b""
    seconds: float = 0.0
    shared: bool = False  # Whether the task was compiled with its precompiled header.
    # The address of the cluster worker that compiled the task; empty if this machine compiled the task.
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings that a worker process needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = SCRIPT
    # A temporary folder for precompiled headers, and for the files of ptxas and tileiras.
    scratch: str = ""
    assembler: str = ""  # the path of ptxas; empty if no source is PTX
    tile_assembler: str = ""  # the path of tileiras; empty if there are no tile kernels
    memory: int = 0  # how many bytes of memory a worker process may use; 0 means no limit


# A function that returns the next task for a worker process. The first argument is the number of this
# process's precompiled header. The second argument lists the precompiled headers of all other processes.
Next: TypeAlias = Callable[[int | None, Sequence[int]], Task | None]


def _anything(_result: Result) -> bool:
    return True


def run(upcoming: Next, setup: Setup, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
    """Run tasks in worker processes, and yield the result of each task when the task is done.

    Whenever a worker process is free, *upcoming* is called to get a task. *upcoming* may return None while
    tasks are running, and is called again after the next result. If *upcoming* returns None while no task is
    running, all tasks are done.

    A worker process may die because memory is short, or because a precompiled header crashes the compiler.
    The task of a dead process runs again after all other tasks, alone and without a precompiled header. If
    the second worker process of a task dies like the first, the task fails. If a task exceeds the time limit,
    its process is killed: a task with a precompiled header is then compiled again without the header, and any
    other task fails. If *accepts* returns False for the result of a task with a precompiled header, the task
    is compiled again without the header.
    """
    pool = WorkerPool(setup)
    try:
        yield from pool.results(upcoming, accepts)
    finally:
        pool.close()


class WorkerPool:
    """The worker processes of a build, and the tasks that these processes are running or have to run again.

    Each running task has its own process, because NVRTC does not parse in several threads of one process at
    once.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._again, self._suspects = deque[Task](), deque[Task]()
        # The numbers of precompiled headers that worker processes used when they died.
        self._harmful: set[int] = set()
        self._alone = self.halted = False
        self._busy: dict[_CompilerProcess, tuple[Task, float]] = {}
        self._idle: list[_CompilerProcess] = []
        self._all: list[_CompilerProcess] = []
        self._messages: WorkerMessages = WorkerMessages()

    def results(self, upcoming: Next, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
        """Yield the result of each task as soon as the task is done.

        After the last result, the worker processes keep running, so that `results` can be called again.
        """
        self._next, self._accepts, self._width = upcoming, accepts, self._setup.jobs
        while self._set_to_work():
            result = self._wait()
            # A process that `halt` has killed must not be reported as crashed.
            if result is not None and not self.halted:
                # The next task starts before the result is stored, so that no worker process waits for the
                # disk.
                self._set_to_work()
                yield result

    def halt(self) -> None:
        """Kill all worker processes, so that `results` ends. Any thread may call `halt`."""
        self.halted = True
        for worker in [*self._all]:
            worker.kill()

    def _set_to_work(self) -> bool:
        """Start tasks until all worker processes are busy.

        Return whether any task is running.
        """
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
        """Return the next task; None if no task is available now."""
        if self._again:
            return self._again.popleft()
        *waiting, held = [worker.held for worker in self._idle] or [None]
        others = (*waiting, *(worker.held for worker in self._busy))
        task = self._next(held, [each for each in others if each is not None])
        return replace(task, precompiled_header=None) if task and self._harms(task) else task

    def _harms(self, task: Task) -> bool:
        return task.precompiled_header is not None and task.precompiled_header.id in self._harmful

    def _start(self, task: Task) -> bool:
        """Start a task if a worker process is free.

        Return whether the task was started.
        """
        if (worker := self._free_worker()) is None:
            return False
        self._busy[worker] = (task, time.monotonic() + self._setup.timeout_s)
        worker.give(task)
        return True

    def _free_worker(self) -> _CompilerProcess | None:
        """Return an idle or new worker process; None if the system cannot start another process."""
        if self._idle:
            return self._idle.pop()
        try:
            self._all.append(worker := _CompilerProcess(self._setup, self._messages))
        except OSError as exc:
            if self._busy:
                return None
            what = f"the compiler process could not start: {exc.strerror}"
            raise ToolchainError(problem("compiler-not-startable", what)) from exc
        return worker

    def _wait(self) -> Result | None:
        """Wait until a process answers or ends, and return the result of its task.

        Return None if the process had no task, or if its task has to run again.
        """
        # All tasks have the same time limit, so the task that started first has the earliest deadline.
        first, (_task, until) = next(iter(self._busy.items()))
        heard = self._messages.next(until - time.monotonic())
        if heard is None:
            return self._overdue(first)
        worker, message = heard
        if worker not in self._busy:  # The worker process was not compiling anything when it died.
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
        if task.precompiled_header:  # Perhaps it took too long to precompile the header.
            self._again.append(replace(task, precompiled_header=None))
            return None
        limit = f"{self._setup.timeout_s:g} s"
        what = f"took longer than {limit} and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
        return Result(task.id, ok=False, log=f"fatal: {what}")

    def _ended(self, worker: _CompilerProcess, task: Task) -> Result | None:
        """Return the result of a task after its process has died; None if the task will run again."""
        worker.close(_PATIENCE_S)
        if not worker.ready:  # The process died before it read the task, so the task did not cause the crash.
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
        self._messages.close()


class _CompilerProcess(Process):
    """A worker process, which runs the script `toolkit/worker.py`."""

    def __init__(self, setup: Setup, messages: WorkerMessages) -> None:
        super().__init__([sys.executable, "-I", setup.script], messages)
        # Whether the process has already completed a task. If it has, an earlier task may be the cause of a
        # crash.
        self.served = False
        # The number of the header that the process has precompiled, or is precompiling now.
        self.held: int | None = None
        self.send(
            {
                "sys_path": [os.path.abspath(entry) for entry in sys.path],
                "libraries": setup.libraries,
                "folders": dict(setup.folders),
                "scratch": setup.scratch,
                "assembler": setup.assembler,
                "tile_assembler": setup.tile_assembler,
                "memory": setup.memory,
            }
        )

    def give(self, task: Task) -> None:
        """Send a task to the worker process."""
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
                "tile_flags": list(task.tile_flags),
                "precompiled_header": shared
                and (shared.id, shared.includes, list(shared.options), shared.rest),
            }
        )
