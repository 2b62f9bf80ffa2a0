"""Run compiles in worker processes that can be killed, timed out and restarted."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..errors import Problem, ToolchainError
from ..toolkit.worker import SCRIPT
from .processes import Process, Watch

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
    kind: str  # "c++", "lto" for C++ that becomes LTO-IR, "ptx", "link"; or "xz", to have the code packed
    code: bytes
    name: bytes
    options: tuple[bytes, ...]
    instantiate: tuple[bytes, ...] = ()
    prelude: Prelude | None = None
    searches: bool = False  # for headers
    ptx: bool = False  # is wanted too, of C++ or of a link
    # Of a link, the kind, the name and the bytes of each. Then `instantiate` has what those define that are
    # no LTO-IR, and `code` is a probe that calls the functions among that.
    inputs: tuple[tuple[str, bytes, bytes], ...] = ()


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
    worker: str = ""  # the address of another machine that compiled it


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs before its first task."""

    libraries: tuple[str, ...]
    folders: Mapping[int, str]
    jobs: int
    timeout_s: float
    script: str = SCRIPT
    scratch: str = ""  # a folder for precompiled headers, and for what ptxas reads and writes
    assembler: str = ""  # the path of ptxas, if there are PTX sources
    memory: int = 0  # bytes that a worker may take; 0 where only the machine limits them


# Returns the next task for a worker, given the prelude that it has precompiled and those that others have.
Next: TypeAlias = Callable[[int | None, Sequence[int]], Task | None]


def _anything(_result: Result) -> bool:
    return True


def run(upcoming: Next, setup: Setup, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
    """Yield each task's result as it is done.

    *upcoming* is asked for a task whenever there is room for one. None says that there is no task now; while
    nothing is running, None says that there are no more.

    A task whose process dies while others run may only have been short of memory; one with a precompiled
    header may have died of that. Either runs again when all others are done, alone and without a precompiled
    header; if its process dies again, it fails. A task that runs too long fails, and its process is ended. A
    task with a precompiled header runs again without it where it runs too long, or where nobody *accepts* its
    result.
    """
    crew = Crew(setup)
    try:
        yield from crew.results(upcoming, accepts)
    finally:
        crew.close()


class Crew:
    """Worker processes, what each is doing and until when, and what is still to do.

    NVRTC parses in one thread of a process at a time, so each task in flight has a process of its own.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._again, self._suspects = deque[Task](), deque[Task]()
        self._harmful: set[int] = set()  # preludes that ended a process
        self._alone = self.halted = False
        self._busy: dict[_Worker, tuple[Task, float]] = {}
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._watch: Watch = Watch()

    def results(self, upcoming: Next, accepts: Callable[[Result], bool] = _anything) -> Generator[Result]:
        """Yield each task's result as it is done; when all are, the processes wait for others."""
        self._next, self._accepts, self._width = upcoming, accepts, self._setup.jobs
        while self._set_to_work():
            result = self._wait()
            if result is not None and not self.halted:  # whose end would look like a crash
                self._set_to_work()  # no worker waits while the result is stored
                yield result

    def halt(self) -> None:
        """Have it do no more, from any thread; whoever waits for its results gets no more of them."""
        self.halted = True
        for worker in [*self._all]:
            worker.kill()

    def _set_to_work(self) -> bool:
        """Start as many tasks as may run at once; say whether any is running."""
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
            self._all.append(worker := _Worker(self._setup, self._watch))
        except OSError as exc:
            if self._busy:
                return None
            raise ToolchainError(Problem(f"the compiler process could not start: {exc.strerror}")) from exc
        return worker

    def _wait(self) -> Result | None:
        """Wait for the first task that ends, and return what came of it; None where it has to run again."""
        first, (_task, until) = next(iter(self._busy.items()))  # all have the same limit
        heard = self._watch.next(until - time.monotonic())
        if heard is None:
            return self._overdue(first)
        worker, message = heard
        if worker not in self._busy:  # it had nothing to do, and was ended or died
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
        if self._busy or task.prelude or worker.served:
            self._suspects.append(replace(task, prelude=None))
            return None
        said = "\n".join([f"fatal: the compiler crashed ({worker.ending})", *worker.complaints])
        return Result(task.id, ok=False, log=said)

    def close(self) -> None:
        """End every process, whatever it is doing."""
        for worker in self._all:
            worker.close()
        self._watch.close()


class _Worker(Process):
    """A process that compiles."""

    def __init__(self, setup: Setup, watch: Watch) -> None:
        super().__init__([sys.executable, "-I", setup.script], watch)
        self.served = False  # what comes after an answer may end it before the next task does
        self.held: int | None = None  # the prelude that it has precompiled, or is precompiling
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
        if (shared := task.prelude) is not None:
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
                "prelude": shared and (shared.id, shared.includes, list(shared.options), shared.rest),
            }
        )
