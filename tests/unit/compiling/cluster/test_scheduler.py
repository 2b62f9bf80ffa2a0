"""Who gets which tasks, and what becomes of them, whatever the workers do. No time passes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from hatch_cubin.compiling.cluster import scheduler as crew_module
from hatch_cubin.compiling.cluster.lease import Reply
from hatch_cubin.compiling.cluster.scheduler import LeaseScheduler, NoWorkersLeftError, Terms
from hatch_cubin.compiling.cluster.workers import (
    Event,
    LeaseAnswered,
    NoMoreWorkers,
    WorkerJoined,
    WorkerLost,
    WorkerUnfit,
)
from hatch_cubin.compiling.executor import Result, Task
from tests.helpers import refusal

from .fake_workers import LISTING, Clock, FakeFleet, Gift, done, reply, task

Act = Callable[[FakeFleet], object]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(crew_module, "time", clock)
    return clock


class Play:
    """A build of some tasks with a fake cluster, and what came of it."""

    def __init__(self, clock: Clock, act: Act, *events: Event, tasks: Sequence[Task] | int = 4) -> None:
        self.clock, self.warnings = clock, list[str]()
        self.misfits: dict[bytes, str] = {}  # outputs that are not what was asked for, and why
        left = [*map(task, range(tasks))] if isinstance(tasks, int) else [*tasks]
        self.cluster = FakeFleet(clock, act, *events)
        terms = Terms(LISTING, 60.0, len(left), self.warnings.append, self._why_unusable)
        coming = iter(left)
        self.scheduler = LeaseScheduler(lambda: next(coming, None), self.cluster, terms)

    def _why_unusable(self, result: Result) -> str | None:
        return self.misfits.get(result.output)

    def results(self) -> dict[int, Result]:
        """Return all results; fail where a task has two."""
        found: dict[int, Result] = {}
        for result in self.scheduler.results():
            assert result.id not in found
            found[result.id] = result
        assert self.cluster.closed
        return found

    def outputs(self) -> dict[int, str]:
        return {
            number: result.output.decode() if result.ok else result.log
            for number, result in self.results().items()
        }


ALL = {number: f"of {number}" for number in range(4)}


def pending(cluster: FakeFleet) -> list[Gift]:
    """Return what was given and not looked at yet."""
    gifts, cluster.gifts = cluster.gifts, []
    return gifts


def obliging(cluster: FakeFleet) -> None:
    for gift in pending(cluster):
        cluster.answer(gift)


A, B = WorkerJoined("a", "process a", 1), WorkerJoined("b", "process b", 1)


def test_workers_get_what_they_have_room_for_and_all_is_answered(clock: Clock) -> None:
    play = Play(clock, obliging, A, B)
    assert play.outputs() == ALL
    assert play.warnings == []


def test_a_result_names_its_worker(clock: Clock) -> None:
    assert {result.worker for result in Play(clock, obliging, A).results().values()} == {"a"}
    nameless = Play(clock, obliging, WorkerJoined("any", "", 1))
    assert {result.worker for result in nameless.results().values()} == {"far"}


def test_a_lease_says_for_whom_it_is_and_what_it_may_take(clock: Clock) -> None:
    play = Play(clock, lambda cluster: None, WorkerJoined("a", "process a", 2, memory=600), tasks=1)
    results = play.scheduler.results()
    play.cluster._act = lambda cluster: cluster.answer(cluster.gifts[0])
    next(results)
    (gift,) = play.cluster.gifts
    lease = gift.lease
    assert (lease.process, lease.listing, lease.timeout_s, lease.memory) == ("process a", LISTING, 60.0, 600)
    assert gift.numbers == [0]


def sizes(clock: Clock, seconds: float, tasks: Sequence[Task] | int, *workers: Event) -> list[int]:
    """Return how many tasks each lease has, where each task takes so many seconds."""
    found: list[int] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            found.append(len(gift.numbers))
            cluster.answer(gift, *(done(number, seconds) for number in gift.numbers))

    assert len(Play(clock, act, *workers, tasks=tasks).results()) == sum(found)
    return found


def test_leases_are_sized_by_time(clock: Clock) -> None:
    short = sizes(clock, 0.01, 1000, A, B)
    assert short[:2] == [1, 1]  # nothing is known yet
    assert max(short) == 64
    assert short[-1] <= 20  # none waits long for the last one
    assert set(sizes(clock, 360.0, 30, A, B)) == {1}
    middling = sizes(clock, 0.5, 200, A)
    assert max(middling) == 4


def test_a_lease_is_no_larger_than_a_message_should_be(clock: Clock) -> None:
    large = [Task(number, "c++", b"x" * (3 << 20), b"k.cu", ()) for number in range(8)]
    assert max(sizes(clock, 0.001, large, A)) == 2


def test_what_a_lost_worker_had_goes_to_another_one_alone(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        gifts = pending(cluster)
        if any(gift.worker == "a" for gift in gifts):
            cluster.say(WorkerLost("a", "it is gone"))
        for gift in gifts:
            if gift.worker == "b":
                cluster.answer(gift)

    play = Play(clock, act, A, B)
    assert play.outputs() == ALL
    assert {result.worker for result in Play(clock, act, A, B).results().values()} == {"b"}
    assert play.warnings == ["worker a: it is gone"]


def test_a_task_that_ends_three_workers_fails_and_no_other(clock: Clock) -> None:
    ended: list[str] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if gift.worker in ended:
                continue
            if 2 in gift.numbers:
                ended.append(gift.worker)
                cluster.say(WorkerLost(gift.worker, "it is gone"))
            else:
                cluster.answer(gift)

    workers = [WorkerJoined(name, name, 1) for name in "abcde"]
    outcome = Play(clock, act, *workers).outputs()
    lines = outcome.pop(2).splitlines()
    assert outcome == {number: text for number, text in ALL.items() if number != 2}
    assert len(ended) == 3
    assert lines == [
        "fatal: 3 workers ended, or were lost, while they compiled this source",
        *(f"worker {name}: it is gone" for name in ended),
    ]


def test_tasks_that_only_waited_at_a_lost_worker_are_not_blamed(clock: Clock) -> None:
    """Of two leases at a worker with one slot, only the first was being compiled."""
    lost: list[str] = []

    def act(cluster: FakeFleet) -> None:
        gifts = pending(cluster)
        for name in {gift.worker for gift in gifts} - {"last"}:
            if name not in lost:
                lost.append(name)
                cluster.say(WorkerLost(name, "it is gone"))
                if len(lost) == 5:
                    cluster.say(WorkerJoined("last", "last", 1))
                else:
                    cluster.say(WorkerJoined(f"w{len(lost)}", "w", 1))
        for gift in gifts:
            if gift.worker == "last":
                cluster.answer(gift)

    outcome = Play(clock, act, WorkerJoined("w0", "w", 1)).outputs()
    assert [number for number, text in outcome.items() if text.startswith("fatal")] == [0]


@pytest.mark.parametrize(
    "log", ["fatal: the compiler crashed (signal 9)", "k.cu: catastrophic: out of memory"]
)
def test_a_compiler_that_crashes_is_tried_elsewhere_and_believed_the_third_time(
    clock: Clock, log: str
) -> None:
    tries: list[str] = []

    def act(cluster: FakeFleet, times: int = 99) -> None:
        for gift in pending(cluster):
            results = []
            for number in gift.numbers:
                crashes = number == 1 and len(tries) < times
                tries.extend([gift.worker] * crashes)
                results.append(Result(number, ok=False, log=log) if crashes else done(number))
            cluster.answer(gift, *results)

    assert Play(clock, act, A, B).outputs() == {**ALL, 1: log}
    assert len(tries) == 3
    tries.clear()
    assert Play(clock, lambda cluster: act(cluster, 2), A, B).outputs() == ALL


def test_other_failures_are_the_tasks_own(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            cluster.answer(gift, *(Result(number, ok=False, log="k.cu(1): error") for number in gift.numbers))

    assert Play(clock, act, A).outputs() == dict.fromkeys(range(4), "k.cu(1): error")


def wrong_once(make: Callable[[Gift], Event]) -> Act:
    """Return what answers the first lease with something else, and all others as they should be."""
    first = [True]

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if first:
                first.clear()
                cluster.say(make(gift))
            else:
                cluster.answer(gift)

    return act


@pytest.mark.parametrize(
    "make",
    [
        lambda gift: LeaseAnswered(gift.lease.number, None, "OSError: No space left on device"),
        lambda gift: LeaseAnswered(gift.lease.number, Reply("a", "", gift.lease.number, refusal="no files")),
        lambda gift: LeaseAnswered(gift.lease.number, "not a reply"),
        lambda gift: LeaseAnswered(gift.lease.number, reply(gift.lease._replace(number=99))),
    ],
    ids=["raised", "refused", "damaged", "of another"],
)
def test_what_is_no_answer_is_asked_again(clock: Clock, make: Callable[[Gift], Event]) -> None:
    assert Play(clock, wrong_once(make), A).outputs() == ALL


def test_a_worker_that_never_answers_as_it_should_gets_no_more(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if gift.worker == "a":
                cluster.say(
                    LeaseAnswered(gift.lease.number, None, "OSError: disk"), WorkerJoined("a", "process a", 1)
                )
            else:
                cluster.answer(gift)

    play = Play(clock, act, A, B, tasks=12)
    assert len(play.results()) == 12
    assert play.warnings == ["worker a: OSError: disk"]


def test_a_worker_that_answers_with_something_else_is_named_and_gets_no_more(clock: Clock) -> None:
    given: list[str] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            given.append(gift.worker)
            lies = gift.worker == "a"
            others = [Result(number, ok=True, output=b"of sm_80") for number in gift.numbers]
            cluster.answer(gift, *(others if lies else ()))
            cluster.say(*[A] * lies)

    play = Play(clock, act, A, B, tasks=12)
    play.misfits = {b"of sm_80": "k for sm_90: it is for sm_80"}
    assert play.outputs() == {number: f"of {number}" for number in range(12)}
    assert (given.count("a"), play.warnings) == (
        1,
        ["worker a: the worker returned a wrong result: k for sm_90: it is for sm_80"],
    )


def test_who_answers_for_a_fleet_that_knows_no_workers_is_named(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            cluster.say(
                LeaseAnswered(gift.lease.number, reply(gift.lease, done(gift.numbers[0]), worker="node 7"))
            )

    play = Play(clock, act, WorkerJoined("any", "", 1), tasks=1)
    play.misfits = {b"of 0": "it is for sm_80"}
    with pytest.raises(NoWorkersLeftError) as caught:
        play.results()
    assert caught.value.reasons == (
        ("worker any: node 7: the worker returned a wrong result: it is for sm_80"),
    )


@pytest.mark.parametrize(
    "fails",
    [
        lambda gift: LeaseAnswered(gift.lease.number, None, "OSError: disk"),
        lambda gift: LeaseAnswered(
            gift.lease.number,
            reply(gift.lease, *(Result(each, ok=False, log="OSError: disk") for each in gift.numbers)),
        ),
        lambda gift: LeaseAnswered(
            gift.lease.number,
            reply(
                gift.lease,
                *(Result(each, ok=False, log="OSError: disk\nthe compiler crashed") for each in gift.numbers),
            ),
        ),
    ],
    ids=["the lease", "the compile", "the compiler"],
)
def test_a_worker_that_fails_at_all_it_was_given_is_named(
    clock: Clock, fails: Callable[[Gift], Event]
) -> None:
    """Its failures may be too few to exclude it, as here where the others do the rest."""
    failed: list[str] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if gift.worker == "a" and not failed:
                failed.append("a")
                cluster.say(fails(gift))
            elif gift.worker == "b":
                cluster.answer(gift)

    play = Play(clock, act, A, B)
    results = play.results()
    assert (len(results), play.warnings) == (
        4,
        ["worker a failed at all its tasks; the last error was: OSError: disk [worker-always-fails]"],
    )


def test_of_sources_that_fail_everywhere_no_worker_is_blamed(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            cluster.answer(gift, *(Result(number, ok=False, log="k.cu(1): error") for number in gift.numbers))

    play = Play(clock, act, A, B)
    play.results()
    assert play.warnings == []


def test_the_same_reply_twice_and_one_that_is_late_count_once(clock: Clock) -> None:
    late: list[Gift] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if gift.worker == "a" and not late:
                late.append(gift)
                cluster.say(WorkerLost("a", "silent"))
            else:
                cluster.answer(gift)
                cluster.answer(gift)
                cluster.answer(late[0])

    assert Play(clock, act, A, B).outputs() == ALL


def test_a_lease_that_takes_too_long_is_given_to_whoever_is_idle_too(clock: Clock) -> None:
    """Once: whoever answers first counts, and nobody waits for the other."""
    given: list[Gift] = []

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            given.append(gift)
            if gift.worker == "b":
                cluster.answer(gift)

    start = clock.now
    play = Play(clock, act, A, B)
    assert play.outputs() == ALL
    assert clock.now - start < 15
    stuck = [each.numbers for each in given if each.worker == "a"]
    twice = [each.numbers for each in given if each.worker == "b" and each.numbers in stuck]
    assert sorted(twice) == sorted(stuck)


def test_what_only_waits_behind_a_long_task_goes_to_whoever_is_idle(clock: Clock) -> None:
    """Worker a was given two leases, and the first of them takes very long."""

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if 0 in gift.numbers:
                cluster.answer(gift, done(0, 5.0))
            elif gift.worker == "b":
                others.append(gift.numbers)
                cluster.answer(gift)
            else:
                stuck.append(gift.numbers)
                cluster.say(*[B] * (len(stuck) == 2))

    stuck, others = list[list[int]](), list[list[int]]()
    play = Play(clock, act, A, tasks=[task(0), *(task(each, f"{each}.cu") for each in (1, 2))])
    results = {result.id for result in play.scheduler.results()}
    assert (results, stuck, others) == ({0, 1, 2}, [[1], [2]], [[2], [1]])


def test_of_a_lease_that_two_have_what_the_slower_one_says_is_no_news(clock: Clock) -> None:
    """Worker c does again what a and b have; then a answers, and at last b."""
    late: dict[str, Gift] = {}

    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            if gift.worker in {"a", "b"}:
                late[gift.worker] = gift
            elif gift.numbers != late["b"].numbers:
                cluster.answer(gift)
                if gift.numbers == late["a"].numbers:
                    cluster.answer(late["a"])
                    cluster.answer(late["b"])

    assert Play(clock, act, A, B, WorkerJoined("c", "process c", 1), tasks=3).outputs() == {
        number: f"of {number}" for number in range(3)
    }


def test_what_hangs_at_one_worker_goes_to_a_third_where_the_second_is_lost(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        for gift in pending(cluster):
            given.append(gift.worker)
            if gift.worker == "b":
                cluster.say(WorkerLost("b", "it is gone"), WorkerJoined("c", "process c", 1))
            elif gift.worker == "c":
                cluster.answer(gift)
            else:
                cluster.say(B)

    given: list[str] = []
    start = clock.now
    assert Play(clock, act, A, tasks=1).outputs() == {0: "of 0"}
    assert given == ["a", "b", "c"]
    assert clock.now - start < 60


def test_a_long_task_is_not_given_to_all_who_are_idle(clock: Clock) -> None:
    given: list[Gift] = []

    def act(cluster: FakeFleet) -> None:
        given.extend(pending(cluster))
        if clock.now > start + 100:
            for gift in given:
                cluster.answer(gift)

    start = clock.now
    workers = [WorkerJoined(name, name, 1) for name in "abcdef"]
    assert Play(clock, act, *workers, tasks=1).outputs() == {0: "of 0"}
    assert len(given) == 2


def test_a_worker_that_has_been_given_longer_than_it_can_take_is_lost(clock: Clock) -> None:
    play = Play(clock, lambda _cluster: None, A, tasks=1)
    start = clock.now
    error = refusal(NoWorkersLeftError, play.results)
    assert (error.why, error.reasons) == ((), ("worker a: the worker did not answer in time",))
    assert [each.id for each in error.left] == [0]
    assert 180 <= clock.now - start < 182  # two tries of 60 s, and some grace


@pytest.mark.parametrize(("waits_s", "told"), [(59, 0), (60, 1), (150, 1)])
def test_that_nothing_has_come_back_for_a_minute_is_told_once(clock: Clock, waits_s: int, told: int) -> None:
    start = clock.now

    def act(cluster: FakeFleet) -> None:
        if clock.now >= start + waits_s:
            obliging(cluster)

    play = Play(clock, act, A)
    assert play.outputs() == ALL
    what = "fake:// has not returned a result for a minute [cluster-silent]"
    assert (
        play.warnings
        == [(f"{what}\n  hint: check that the cluster's workers are running, or build without the cluster")]
        * told
    )


def test_without_any_worker_or_hope_nothing_is_waited_for(clock: Clock) -> None:
    start = clock.now
    error = refusal(NoWorkersLeftError, Play(clock, lambda _cluster: None).results)
    assert (error.why, error.reasons) == (("the cluster has no workers",), ())
    assert clock.now - start < 2


def test_it_waits_for_workers_that_are_being_prepared(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        cluster.expected_workers = int(clock.now < start + 60)
        if clock.now > start + 50:
            cluster.say(A)
            cluster._act = obliging

    start = clock.now
    play = Play(clock, act)
    play.cluster.expected_workers = 1
    assert play.outputs() == ALL


def test_who_joins_while_the_last_hope_is_given_up_is_heard(clock: Clock) -> None:
    assert Play(clock, obliging, WorkerUnfit("b", "no hatch-cubin"), A).outputs() == ALL


def test_reasons_are_told_worker_by_worker(clock: Clock) -> None:
    play = Play(clock, lambda _cluster: None, WorkerUnfit("a", "NVRTC 13.4.92, but this build has 13.5.37"))
    error = refusal(NoWorkersLeftError, play.results)
    assert play.warnings == ["worker a: NVRTC 13.4.92, but this build has 13.5.37"]
    assert (error.why, error.reasons) == ((), tuple(play.warnings))


def test_where_the_cluster_is_gone_nothing_is_waited_for_and_nobody_is_blamed(clock: Clock) -> None:
    gone = NoMoreWorkers("the scheduler does not answer any more", "look at it")

    def act(cluster: FakeFleet) -> None:
        first, *others = pending(cluster)
        cluster.answer(first)
        cluster.say(gone, *(LeaseAnswered(each.lease.number, reply(each.lease)) for each in others))

    play = Play(clock, act, A, B, tasks=6)
    found: list[Result] = []
    start = clock.now
    error = refusal(NoWorkersLeftError, found.extend, play.scheduler.results())
    assert (error.why, error.reasons) == ((gone.why,), ())
    assert (error.hint, play.warnings) == (gone.hint, [])
    assert clock.now == start
    assert play.cluster.closed
    assert [result.id for result in found] == [0]
    assert sorted(each.id for each in error.left) == [1, 2, 3, 4, 5]


def test_who_becomes_ready_after_the_cluster_is_gone_is_given_nothing(clock: Clock) -> None:
    gone = NoMoreWorkers("the connection to the scheduler is lost")
    play = Play(clock, obliging, gone, A, tasks=1)
    with pytest.raises(NoWorkersLeftError):
        play.results()
    assert play.cluster.gifts == []


def test_a_worker_that_was_paused_goes_on_when_it_is_back(clock: Clock) -> None:
    def act(cluster: FakeFleet) -> None:
        pauses: list[Event] = [WorkerLost("a", "it is paused", ended=False), A]
        cluster.say(*pauses * 5)
        cluster._act = obliging

    assert Play(clock, act, A, A).outputs() == ALL


def test_who_was_lost_already_is_not_lost_again(clock: Clock) -> None:
    play = Play(clock, obliging, A, B, WorkerLost("b", "it is gone"), WorkerLost("b", "it is gone"))
    assert play.outputs() == ALL
    assert play.warnings == ["worker b: it is gone"]


def test_without_tasks_nobody_is_waited_for(clock: Clock) -> None:
    play = Play(clock, lambda _cluster: None, tasks=0)
    assert play.results() == {}


def test_an_interrupt_lets_the_workers_go(clock: Clock) -> None:
    play = Play(clock, obliging, A)
    results = play.scheduler.results()
    next(results)
    results.close()
    assert play.cluster.closed
