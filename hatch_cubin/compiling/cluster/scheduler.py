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

_MOST_ENDS = 3  # a task that may have ended this many workers is not tried again
_MOST_FAULTS = 3  # a worker with this many faults is not used any more
_AHEAD = 2  # leases per slot of a worker: one that it compiles, and one that waits
_SHORTEST_S, _LONGEST_S = 0.2, 2.0  # the shortest and the longest time that a lease should take
_MOST_TASKS = 64
_MOST_BYTES = 4 << 20  # bytes of a lease: above 10 MB, Dask warns of a large graph
_GRACE_S = 60.0  # seconds that a lease may take in addition to compiling
_QUIET_S = 60.0  # seconds without a result until a warning is printed
_CRASHES = ("fatal: the compiler crashed", "out of memory")


class NoWorkersLeftError(Exception):
    """Raised if no worker is left, although tasks are not finished.

    *why* are faults of the cluster. *reasons* are faults of its workers, which were already printed as
    warnings.
    """

    def __init__(
        self, why: tuple[str, ...], reasons: tuple[str, ...], hint: str | None, left: list[Task]
    ) -> None:
        super().__init__(*why, *reasons)
        self.why, self.reasons, self.hint, self.left = why, reasons, hint, left


class Terms(NamedTuple):
    """The settings of a lease scheduler."""

    listing: str  # the digest of the listing of all files that tasks read
    timeout_s: float  # for each task
    total: int  # the largest possible number of tasks
    warn: Callable[[str], object]
    why_wrong: Callable[[Result], str | None]  # returns why a result does not belong to its task, or None


@dataclass(slots=True)
class _GivenLease:
    """A lease that was sent to a worker, and the lease's deadline."""

    worker: str
    lease: Lease
    since: float
    until: float
    again: bool = False  # whether the tasks of the lease were also sent to another worker


@dataclass(slots=True)
class _WorkerState:
    """One worker, and the numbers of its leases in order."""

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
        self._suspects: deque[Task] = deque()  # tasks that may have ended a worker; each is sent alone
        self._open: dict[int, Task] = {}  # by number: the tasks that were sent, without a result so far
        self._ends: dict[int, list[str]] = {}  # by task number: the workers that the task may have ended
        self._faults: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._useful: set[str] = set()  # the workers that have returned a result
        # the workers that failed at a task, with the latest failure of each
        self._useless: dict[str, str] = {}
        self._gone: NoMoreWorkers | None = None
        self._quiet_since: float | None = None  # set from the first lease until the first answer
        self._times = _TaskTimes()

    def results(self) -> Generator[Result]:
        """Yield the result of each task; NoWorkersLeftError if no worker is left for the remaining tasks."""
        try:
            while self._hand_out():
                yield from self._handle(self._wait())
        finally:
            self._report_useless_workers()
            self._cluster.close()

    def _hand_out(self) -> bool:
        """Send leases to all workers that have room; return whether the build has to wait for an answer."""
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
        """Return whether a task is left to be sent, even if all workers are busy or missing."""
        if (task := self._next()) is not None:
            self._again.append(task)
        return task is not None

    def _free_worker(self) -> str | None:
        """Return the worker with the least work; None if this worker has enough work."""
        if not self._workers:
            return None
        name = min(self._workers, key=lambda each: self._workers[each].load)
        # at first one lease only, so that workers that join a moment later also get tasks
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
        """Return the unfinished tasks of a lease that takes too long, so that an idle worker repeats them.

        Leases that still wait behind other leases on their worker come first, because they have not started.
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
        """Return whether a lease has not started yet, because its worker compiles other leases first."""
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
        )  # twice the time, because a task may crash and run again
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
        """Process an event, and yield the results that the event brings."""
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
        ):  # the cluster ended while it prepared this worker, so the worker cannot get leases
            return
        if self._faults[joined.worker] < _MOST_FAULTS and joined.worker not in self._workers:
            self._workers[joined.worker] = _WorkerState(joined)
            self._reasons.pop(joined.worker, None)

    def _report_worker(self, worker: str, why: str) -> None:
        self._reasons[worker] = why
        self._terms.warn(f"worker {worker}: {why}")

    def _lose(self, name: str, why: str, *, blames: bool = True) -> Iterator[Result]:
        """Remove a lost worker, and send its tasks to other workers.

        With *blames*, the tasks that the worker was compiling may be the reason why it was lost.
        """
        worker = self._workers.pop(name, None)
        if worker is None:
            return
        if blames:  # `_record_fault` counts the other faults of workers
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
        """Note that each task of a lease may have ended a worker.

        Each task is sent again alone, or counts as failed after several attempts.
        """
        for task in self._tasks_in_no_lease(given):
            ends = self._ends.setdefault(task.id, [])
            ends.append(how)
            if len(ends) < _MOST_ENDS:
                self._suspects.append(task)
            else:
                yield self._finished(Result(task.id, ok=False, log="\n".join([_ENDED, *ends])))

    def _tasks_in_no_lease(self, given: _GivenLease) -> list[Task]:
        """Return the unfinished tasks of a lease that are not in any other lease."""
        held: set[int] = set()
        for other in self._given.values():
            held.update(theirs := {task.id for task in other.lease.tasks})
            if not theirs.isdisjoint(task.id for task in given.lease.tasks):
                other.again = False  # so that a third worker may get the tasks
        return [task for task in given.lease.tasks if task.id in self._open and task.id not in held]

    def _finished(self, result: Result) -> Result:
        del self._open[result.id]
        return result

    def _answered(self, event: LeaseAnswered) -> Iterator[Result]:
        self._quiet_since = None
        given = self._given.pop(event.number, None)
        if given is None:  # the answer came too late, or twice
            return
        worker = self._workers[given.worker]
        worker.has.remove(event.number)
        try:
            found = _results_of_answer(event, given)
        except ValueError as exc:
            yield from self._record_fault(given, str(exc), _worker_of(event, given))
            return
        if wrong := next(filter(None, map(self._terms.why_wrong, found.values())), None):
            # A result of another task cannot happen by accident, so the build does not use the worker again.
            self._faults[given.worker] = _MOST_FAULTS
            yield from self._record_fault(
                given, f"the worker returned a wrong result: {wrong}", _worker_of(event, given)
            )
            return
        for task in given.lease.tasks:
            if task.id in self._open:
                yield from self._result(task, found[task.id], given)

    def _result(self, task: Task, result: Result, given: _GivenLease) -> Iterator[Result]:
        """Accept one result; if the compiler crashed, another worker repeats the task.

        A different worker may have more memory.
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
        """Record that a worker failed to compile the units of a lease.

        After several faults, the worker is not used again.
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
        """Warn if no worker has answered for a long time, because the deadlines of leases are much later."""
        if self._quiet_since is not None and time.monotonic() - self._quiet_since >= _QUIET_S:
            self._quiet_since = None
            what = f"{self._cluster.name} has not returned a result for a minute"
            hint = "check that the cluster's workers are running, or build without the cluster"
            self._terms.warn(problem("cluster-silent", what, hint=hint).with_code())

    def _stop_without_workers(self) -> None:
        """Raise NoWorkersLeftError if all workers are lost and no other workers are expected."""
        # `expected_workers` is read first, because the number goes down only after the worker's event was
        # reported.
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
        """Return the estimated seconds of a task; before the first result, a task fills a whole lease."""
        if not self.done:
            return _LONGEST_S
        return self._of.get(task.name, self._all_s / self.done)

    def of_all(self, count: int) -> float:
        return count * self._all_s / max(1, self.done)


_ENDED = f"fatal: {_MOST_ENDS} workers ended, or were lost, while they compiled this source"


def _worker_of(event: LeaseAnswered, given: _GivenLease) -> str:
    """Return the name of the worker that answered, also for a cluster that does not list its workers."""
    name = getattr(event.reply, "worker", None)
    return name if isinstance(name, str) and not given.lease.process else given.worker


def _results_of_answer(event: LeaseAnswered, given: _GivenLease) -> dict[int, Result]:
    """Return the results in an answer; ValueError with the reason if the answer has no results."""
    if event.wrong is not None:
        raise ValueError(event.wrong)
    reply = event.reply
    if refusal := getattr(reply, "refusal", ""):
        raise ValueError(refusal)
    found = checked_results(reply, given.lease)
    if not given.lease.process:  # any process may answer, because the cluster does not list its workers
        return found
    return {number: replace(result, worker=given.worker) for number, result in found.items()}
