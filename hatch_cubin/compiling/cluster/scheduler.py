"""Distribute tasks to the workers of a cluster, with deadlines, and collect the results.

Tasks are sent in leases, which are groups of tasks with a common deadline. If a worker fails or is too slow,
its tasks go to another worker. If two workers return a result of the same task, the first verified result is
used.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...errors import problem
from ..executor import Result, Task
from .lease import Lease, checked_results
from .workers import Cluster, Event, LeaseAnswered, NoMoreWorkers, WorkerJoined, WorkerLost, WorkerUnfit

_MOST_ENDS = 3  # The number of workers that may crash while they compile a task, before the task fails.
_MOST_FAULTS = 3  # The number of faults after which the build does not use a worker any more.
# How many leases to send at once for each thread of a worker: one to compile now, and one to wait.
_AHEAD = 2
# The shortest and the longest time, in seconds, for the compiles of a lease.
_SHORTEST_S, _LONGEST_S = 0.2, 2.0
_MOST_TASKS = 64
# How many bytes to send in a lease. Above 10 MB, Dask prints a warning about a "large graph".
_MOST_BYTES = 4 << 20
_GRACE_S = 60.0  # How many seconds a lease may take besides the time limits of its compiles.
_QUIET_S = 60.0  # How many seconds without a result before a warning is printed.
_CRASHES = ("fatal: the compiler crashed", "out of memory")


class NoWorkersLeftError(Exception):
    """Raised if all workers are lost while tasks are not finished.

    *why* contains error messages about the cluster as a whole. *reasons* contains error messages about
    individual workers, which were already printed as warnings. *left* contains the tasks that are not
    finished.
    """

    def __init__(
        self, why: tuple[str, ...], reasons: tuple[str, ...], hint: str | None, left: list[Task]
    ) -> None:
        super().__init__(*why, *reasons)
        self.why, self.reasons, self.hint, self.left = why, reasons, hint, left


class Terms(NamedTuple):
    """The settings of a `LeaseScheduler`."""

    listing: str  # the digest of the `FileListing` with the files that the tasks read
    timeout_s: float  # for each task
    total: int  # the largest possible number of tasks
    warn: Callable[[str], object]
    # A function that returns the reason why a result cannot belong to its task, or None.
    why_wrong: Callable[[Result], str | None]


@dataclass(slots=True)
class _GivenLease:
    """A lease (a group of tasks) that was sent to a worker, and its deadline."""

    worker: str
    lease: Lease
    since: float
    until: float
    again: bool = False  # Whether the tasks of the lease were also sent to another worker.


@dataclass(slots=True)
class _WorkerState:
    """A worker; *has* identifies the leases (groups of tasks) that were sent to the worker, oldest first."""

    joined: WorkerJoined
    has: list[int] = field(default_factory=list)

    @property
    def load(self) -> float:
        return len(self.has) / self.joined.slots


class LeaseScheduler:
    """Distributes tasks to the workers of a cluster, and yields the results."""

    def __init__(self, upcoming: Callable[[], Task | None], cluster: Cluster, terms: Terms) -> None:
        self._next, self._cluster, self._terms = upcoming, cluster, terms
        self._build = uuid.uuid4().hex
        self._workers: dict[str, _WorkerState] = {}
        self._given: dict[int, _GivenLease] = {}
        self._count = 0
        self._again: deque[Task] = deque()
        # Tasks that may have crashed a worker. Each of them is sent alone.
        self._suspects: deque[Task] = deque()
        # The tasks that were sent and have no result yet, by number.
        self._open: dict[int, Task] = {}
        # For each task, by number: the workers that it may have crashed.
        self._ends: dict[int, list[str]] = {}
        self._faults: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._useful: set[str] = set()  # The workers that have returned a result.
        # Maps each worker that failed to compile a task to the worker's last error.
        self._useless: dict[str, str] = {}
        self._gone: NoMoreWorkers | None = None
        # The time at which the first lease was sent. None after the first answer.
        self._quiet_since: float | None = None
        self._times = _TaskTimes()

    def results(self) -> Generator[Result]:
        """Yield the result of each task; raise NoWorkersLeftError if all workers are lost before the end."""
        try:
            while self._hand_out():
                yield from self._handle(self._wait())
        finally:
            self._report_useless_workers()
            self._cluster.close()

    def _hand_out(self) -> bool:
        """Send tasks to all workers that have too little work; return whether any task is not finished."""
        while (worker := self._free_worker()) is not None:
            if tasks := self._lease_of_tasks():
                self._give_lease(worker, tasks)
            elif tasks := self._overdue_tasks(worker):
                self._give_lease(worker, tasks, again=True)
            else:
                break
        if self._open or self._again or self._suspects:
            return True
        if self._workers:
            return False
        return self._has_task()

    def _has_task(self) -> bool:
        """Return whether a task still has to be sent to a worker."""
        if (task := self._next()) is not None:
            self._again.append(task)
        return task is not None

    def _free_worker(self) -> str | None:
        """Return the worker with the least work; None if all workers have enough work."""
        if not self._workers:
            return None
        name = min(self._workers, key=lambda each: self._workers[each].load)
        # At first, each worker gets only one lease, so that workers that join a moment later get tasks too.
        most = _AHEAD if self._times.done else 1
        return name if self._workers[name].load < most else None

    def _lease_of_tasks(self) -> list[Task]:
        """Return the tasks of the next lease: as many as a worker can compile in a short time."""
        if self._suspects:
            return [self._suspects.popleft()]
        slots = sum(worker.joined.slots for worker in self._workers.values())
        left = max(1, self._terms.total - self._times.done - len(self._open))
        target_s = self._times.of_all(left) / (slots * _AHEAD)
        target_s = min(_LONGEST_S, max(_SHORTEST_S, target_s))
        tasks: list[Task] = []
        size, took_s = 0, 0.0
        while len(tasks) < _MOST_TASKS and size < _MOST_BYTES and took_s < target_s:
            task = self._again.popleft() if self._again else self._next()
            if task is None:
                break
            tasks.append(task)
            size += len(task.code)
            took_s += self._times.of(task)
        return tasks

    def _overdue_tasks(self, worker: str) -> list[Task]:
        """Return the unfinished tasks of a lease that takes too long.

        An idle worker will repeat the tasks that this method returns. Leases that have not started are chosen
        before leases that a worker is compiling.
        """
        if self._workers[worker].has:
            return []
        now = time.monotonic()
        for waits in (True, False):
            for number, given in self._given.items():
                usual_s = sum(map(self._times.of, given.lease.tasks))
                limit_s = usual_s if waits else 2 * usual_s + _LONGEST_S
                if not given.again and self._waits(number) == waits and now - given.since > limit_s:
                    given.again = True
                    return [task for task in given.lease.tasks if task.id in self._open]
        return []

    def _waits(self, number: int) -> bool:
        """Return whether a lease has not started yet, because its worker is compiling earlier leases."""
        worker = self._workers[self._given[number].worker]
        return worker.has.index(number) >= worker.joined.slots

    def _give_lease(self, name: str, tasks: list[Task], *, again: bool = False) -> None:
        worker, now = self._workers[name], time.monotonic()
        if not self._count:
            self._quiet_since = now
        self._count += 1
        lease = Lease(
            self._count,
            self._build,
            worker.joined.process,
            self._terms.listing,
            tuple(tasks),
            self._terms.timeout_s,
            worker.joined.memory,
        )
        ahead = sum(len(self._given[number].lease.tasks) for number in worker.has)
        until = (
            now + _GRACE_S + 2 * (ahead + len(tasks)) * self._terms.timeout_s
        )  # A task may take twice its time limit, because it runs again after a crash.
        self._given[lease.number] = _GivenLease(name, lease, now, until, again)
        worker.has.append(lease.number)
        self._open |= {task.id: task for task in tasks}
        self._cluster.give(name, lease)

    def _wait(self) -> Event | None:
        """Return the next event of the cluster; None if no event happens for a while."""
        deadlines = [given.until for given in self._given.values()]
        seconds = min([*deadlines, time.monotonic() + 1.0]) - time.monotonic()
        try:
            return self._cluster.events.get(timeout=max(0.01, seconds))
        except queue.Empty:
            return None

    def _handle(self, event: Event | None) -> Iterator[Result]:
        """Handle an event of the cluster, and yield the results that the event contains."""
        match event:
            case WorkerJoined():
                self._add_worker(event)
            case WorkerUnfit():
                self._report_worker(event.worker, event.why)
            case WorkerLost():
                yield from self._lose(event.worker, event.why, blames=event.ended)
            case LeaseAnswered():
                yield from self._answered(event)
            case NoMoreWorkers():
                self._gone = event
                for worker in [*self._workers]:
                    yield from self._lose(worker, event.why, blames=False)
            case _:
                pass
        yield from self._lose_late_workers()
        self._warn_of_silence()
        self._stop_without_workers()

    def _add_worker(self, joined: WorkerJoined) -> None:
        if (
            self._gone is not None
            # The cluster was lost while the worker was being prepared, so the worker cannot get tasks.
        ):
            return
        if self._faults[joined.worker] < _MOST_FAULTS and joined.worker not in self._workers:
            self._workers[joined.worker] = _WorkerState(joined)
            self._reasons.pop(joined.worker, None)

    def _report_worker(self, worker: str, why: str) -> None:
        self._reasons[worker] = why
        self._terms.warn(f"worker {worker}: {why}")

    def _lose(self, name: str, why: str, *, blames: bool = True) -> Iterator[Result]:
        """Remove a lost worker, and send its tasks to other workers.

        *blames* is true if the worker may have crashed because of the tasks that it was compiling.
        """
        worker = self._workers.pop(name, None)
        if worker is None:
            return
        if blames:  # Losing a worker counts as a fault here. `_record_fault` counts all other faults.
            self._faults[name] += 1
        if self._gone is None:
            self._report_worker(name, why)
        for place, number in enumerate(worker.has):
            given = self._given.pop(number)
            if blames and place < worker.joined.slots:
                yield from self._suspect_tasks(given, f"worker {name}: {why}")
            else:
                self._again.extend(self._tasks_in_no_lease(given))

    def _suspect_tasks(self, given: _GivenLease, how: str) -> Iterator[Result]:
        """Record that each task of a lease may have crashed the worker.

        Each task of the lease is sent again alone, and counts as failed after several attempts.
        """
        for task in self._tasks_in_no_lease(given):
            ends = self._ends.setdefault(task.id, [])
            ends.append(how)
            if len(ends) < _MOST_ENDS:
                self._suspects.append(task)
            else:
                yield self._finished(Result(task.id, ok=False, log="\n".join([_ENDED, *ends])))

    def _tasks_in_no_lease(self, given: _GivenLease) -> list[Task]:
        """Return the tasks of a lease that are not finished, and that no other worker is compiling."""
        held: set[int] = set()
        for other in self._given.values():
            held.update(theirs := {task.id for task in other.lease.tasks})
            if not theirs.isdisjoint(task.id for task in given.lease.tasks):
                other.again = False  # The tasks of the lease may be sent to another worker again.
        return [task for task in given.lease.tasks if task.id in self._open and task.id not in held]

    def _finished(self, result: Result) -> Result:
        del self._open[result.id]
        return result

    def _answered(self, event: LeaseAnswered) -> Iterator[Result]:
        self._quiet_since = None
        given = self._given.pop(event.number, None)
        if given is None:  # The answer came too late, or twice.
            return
        worker = self._workers[given.worker]
        worker.has.remove(event.number)
        try:
            found = _results_of_answer(event, given)
        except ValueError as exc:
            yield from self._record_fault(given, str(exc), _worker_of(event, given))
            return
        if wrong := next(filter(None, map(self._terms.why_wrong, found.values())), None):
            # The digest in the reply shows that the worker made this result for this task. A worker that
            # makes wrong results is not used any more.
            self._faults[given.worker] = _MOST_FAULTS
            yield from self._record_fault(
                given, f"the worker returned a wrong result: {wrong}", _worker_of(event, given)
            )
            return
        for task in given.lease.tasks:
            if task.id in self._open:
                yield from self._result(task, found[task.id], given)

    def _result(self, task: Task, result: Result, given: _GivenLease) -> Iterator[Result]:
        """Yield the result of a task, or send the task to another worker if the compiler has crashed.

        The compiler may have crashed for lack of memory, and another worker may have more memory.
        """
        crashed = not result.ok and any(each in result.log for each in _CRASHES)
        if crashed and len(self._ends.get(task.id, ())) < _MOST_ENDS - 1:
            one = given.lease._replace(tasks=(task,))
            why = result.log.splitlines()[0].removeprefix("fatal: ")
            self._useless[result.worker] = why
            how = f"worker {given.worker}: {why}"
            yield from self._suspect_tasks(_GivenLease(given.worker, one, given.since, given.until), how)
            return
        self._times.note(task, result.seconds)
        if result.ok:
            self._useful.add(result.worker)
        else:
            self._useless[result.worker] = result.log.partition("\n")[0].removeprefix("fatal: ")
        yield self._finished(result)

    def _record_fault(self, given: _GivenLease, why: str, who: str) -> Iterator[Result]:
        """Record that a worker did not return the results of a lease.

        A worker that has several faults is not used any more.
        """
        self._again.extend(self._tasks_in_no_lease(given))
        self._useless[who] = why
        self._faults[given.worker] += 1
        if self._faults[given.worker] >= _MOST_FAULTS:
            told = why if who == given.worker else f"{who}: {why}"
            yield from self._lose(given.worker, told, blames=False)

    def _lose_late_workers(self) -> Iterator[Result]:
        """Stop using workers that have exceeded the deadline of a lease."""
        now = time.monotonic()
        late = {given.worker for given in self._given.values() if given.until < now}
        for worker in late:
            yield from self._lose(worker, "the worker did not answer in time")

    def _report_useless_workers(self) -> None:
        """Warn of workers that failed at all their tasks, if another worker has compiled a task."""
        for worker, why in self._useless.items():
            if self._useful and worker not in self._useful and worker not in self._reasons:
                what = f"worker {worker} failed at all its tasks; the last error was: {why}"
                self._terms.warn(problem("worker-always-fails", what).with_code())

    def _warn_of_silence(self) -> None:
        """Warn if no worker has answered for a minute, which is long before the deadlines of the leases."""
        if self._quiet_since is not None and time.monotonic() - self._quiet_since >= _QUIET_S:
            self._quiet_since = None
            what = f"{self._cluster.name} has not returned a result for a minute"
            hint = "check that the cluster's workers are running, or build without the cluster"
            self._terms.warn(problem("cluster-silent", what, hint=hint).with_code())

    def _stop_without_workers(self) -> None:
        """Raise NoWorkersLeftError if all workers are lost and no other workers are expected."""
        # `expected_workers` counts a new worker until the worker's event is in the queue. This function reads
        # `expected_workers` first and the queue second, because otherwise it could miss a new worker.
        hopeless = self._gone is not None or not self._cluster.expected_workers
        if not self._workers and hopeless and self._cluster.events.empty():
            left = {task.id: task for task in (*self._suspects, *self._again, *self._open.values())}
            reasons = tuple(f"worker {worker}: {why}" for worker, why in self._reasons.items())
            why = (self._gone.why,) if self._gone else () if reasons else ("the cluster has no workers",)
            raise NoWorkersLeftError(why, reasons, self._gone and self._gone.hint, [*left.values()])


class _TaskTimes:
    """Estimates how long tasks take, from the duration of earlier tasks with the same source."""

    def __init__(self) -> None:
        self.done = 0
        self._all_s = 0.0
        self._of: dict[bytes, float] = {}

    def note(self, task: Task, seconds: float) -> None:
        self.done += 1
        self._all_s += seconds
        self._of[task.name] = seconds

    def of(self, task: Task) -> float:
        """Return how many seconds a task probably takes.

        Until the first task is done, return a high number, so that each worker gets only one task at first.
        """
        if not self.done:
            return _LONGEST_S
        return self._of.get(task.name, self._all_s / self.done)

    def of_all(self, count: int) -> float:
        return count * self._all_s / max(1, self.done)


_ENDED = f"fatal: {_MOST_ENDS} workers ended, or were lost, while they compiled this source"


def _worker_of(event: LeaseAnswered, given: _GivenLease) -> str:
    """Return the name of the worker that answered, even if the cluster does not list its workers."""
    name = getattr(event.reply, "worker", None)
    return name if isinstance(name, str) and not given.lease.process else given.worker


def _results_of_answer(event: LeaseAnswered, given: _GivenLease) -> dict[int, Result]:
    """Return the results in a worker's answer; raise ValueError if the worker returned an error."""
    if event.wrong is not None:
        raise ValueError(event.wrong)
    reply = event.reply
    if refusal := getattr(reply, "refusal", ""):
        raise ValueError(refusal)
    found = checked_results(reply, given.lease)
    # The cluster does not list its workers, so the worker's name comes from its reply.
    if not given.lease.process:
        return found
    return {number: replace(result, worker=given.worker) for number, result in found.items()}
