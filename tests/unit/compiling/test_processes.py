"""Processes that are talked to in messages, over the streams that a system lets them have."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hatch_cubin.compiling import processes
from hatch_cubin.compiling.processes import Message, Process, WorkerMessages
from hatch_cubin.toolkit import worker

READY = f"""\
import os, sys
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker
requests, results = sys.stdin.buffer, sys.stdout.buffer
worker.send(results, {{"ready": True}})
"""
ECHO = f"""{READY}
while (message := worker.receive(requests)) is not None:
    worker.send(results, message)
"""
A_MINUTE = 60.0


@pytest.fixture(params=["sockets", "pipes"], autouse=True)
def _streams(request: pytest.FixtureRequest, unmeasured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have both kinds of streams, also that of systems which this one is not."""
    monkeypatch.setattr(processes, "_STREAMS_MAY_BE_SOCKETS", request.param == "sockets")


@pytest.fixture
def messages() -> Iterator[WorkerMessages]:
    with contextlib.closing(WorkerMessages()) as made:
        yield made


def start(messages: WorkerMessages, script: str) -> contextlib.closing[Process]:
    return contextlib.closing(Process([sys.executable, "-I", "-c", script], messages))


def heard(messages: WorkerMessages, count: int) -> list[Message | None]:
    """Return the next messages; fail where they do not come."""
    found = [messages.next(A_MINUTE) for _ in range(count)]
    return [None if each is None else each[1] for each in found]


def test_every_message_comes_back_in_its_turn(messages: WorkerMessages) -> None:
    sent: list[Message] = [{"text": "ä", "data": b"\0\xff" * size} for size in (0, 10, 3_000_000, 1)]
    with start(messages, ECHO) as process:
        for message in sent:
            process.send(message)
        assert heard(messages, 4) == sent
        assert process.ready


def test_a_process_that_does_not_read_yet_is_not_waited_for(messages: WorkerMessages) -> None:
    with start(messages, f"{READY}\nworker.receive(requests)\n{ECHO}") as process:
        for number in range(3):
            process.send({"number": number, "data": bytes(1_000_000)})
        numbers = [message and message.get("number") for message in heard(messages, 3)]
    assert numbers == [None, 1, 2]  # the second that it is ready came for one


def test_several_are_told_apart(messages: WorkerMessages) -> None:
    with start(messages, ECHO) as one, start(messages, ECHO) as other:
        one.send({"to": "one"})
        other.send({"to": "other"})
        found = [messages.next(A_MINUTE), messages.next(A_MINUTE)]
        names = {one: "one", other: "other"}
        assert sorted((names[each[0]], (each[1] or {})["to"]) for each in found if each) == [
            ("one", "one"),
            ("other", "other"),
        ]


def test_what_was_said_while_nobody_listened_is_heard(
    messages: WorkerMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago the time to wait for it was over, and in however many pieces it comes."""
    monkeypatch.setattr(processes, "_STREAMS_MAY_BE_SOCKETS", True)  # threads would still be carrying it
    message: Message = {"data": b"x" * 150_000}
    with start(messages, READY + 'worker.send(results, {"data": b"x" * 150_000})') as process:
        process._process.wait()
        assert messages.next(0.0) == (process, message)


def test_where_nothing_is_said_in_time_nothing_is_returned(messages: WorkerMessages) -> None:
    with start(messages, ECHO):
        assert messages.next(0.0) is None
        assert messages.next(-1.0) is None


@pytest.mark.parametrize(
    ("script", "ready", "ending"),
    [
        ("raise SystemExit(7)", False, "exit code 7"),
        (f"{READY}\nsys.exit(8)", True, "exit code 8"),
        (f"{READY}\nos.write(1, (1000).to_bytes(8, 'big') + b'half')", True, "exit code 0"),
        (f"{READY}\nos.kill(os.getpid(), 9)", True, "signal 9"),
    ],
    ids=["at once", "ready", "amid a message", "killed"],
)
def test_the_end_of_a_process_is_heard_once(
    messages: WorkerMessages, script: str, *, ready: bool, ending: str
) -> None:
    with start(messages, script) as process:
        assert heard(messages, 1) == [None]
        process.close(A_MINUTE)
        assert (process.ready, process.ending) == (ready, ending)
        assert messages.next(0.0) is None
        process.send({"too": "late"})
        assert messages.next(0.0) is None


def test_for_room_of_what_was_forgotten_nobody_waits(messages: WorkerMessages) -> None:
    """As where a process ends while there is something left to send."""
    seen = list[int]()
    one, other = socket.socketpair()
    with one, other:
        messages.register(one, seen.append)
        messages.forget(one)
        messages.wait_for_room(one, waits=True)
        assert messages.next(0.0) is None
    assert seen == []


def test_a_process_may_end_with_something_unread(messages: WorkerMessages) -> None:
    with start(messages, f"{READY}\nsys.exit(3)") as process:
        process.send({"data": bytes(3_000_000)})
        assert heard(messages, 1) == [None]
        assert messages.next(0.0) is None


@pytest.mark.parametrize(
    "said",
    [b"(", marshal.dumps({"a": 1})[:-3], b"?" + marshal.dumps({})],
    ids=["a half", "cut short", "nothing of marshal's"],
)
def test_what_is_no_message_ends_the_talk(messages: WorkerMessages, said: bytes) -> None:
    script = (
        f"{READY}\nresults.write({len(said).to_bytes(8, 'big') + said!r})\nresults.flush()\nrequests.read()"
    )
    with start(messages, script):
        assert heard(messages, 1) == [None]


def test_the_last_lines_of_what_it_complains_of_are_kept(messages: WorkerMessages) -> None:
    lines = [f"line {number}" for number in range(30)]
    script = f"import os, sys\nos.write(2, {chr(10).join(lines).encode()!r})\nsys.exit(1)"
    with start(messages, script) as process:
        assert heard(messages, 1) == [None]
        process.close(A_MINUTE)
        assert [*process.complaints] == lines[-20:]


def test_what_it_says_when_the_talk_is_over_is_heard_too(messages: WorkerMessages, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"""{READY}
import time
os.close(0)
os.close(1)
while not os.path.exists({str(gate)!r}):
    time.sleep(0.01)
os.write(2, b"one\\ntwo")
os._exit(5)
"""
    with start(messages, script) as process:
        assert heard(messages, 1) == [None]
        gate.touch()
        process.close(A_MINUTE)
        assert (process.ending, [*process.complaints]) == ("exit code 5", ["one", "two"])


def test_complaints_do_not_keep_a_process_from_its_work(messages: WorkerMessages) -> None:
    with start(messages, f"{READY}\nos.write(2, b'complained\\n' * 200_000)\n{ECHO}") as process:
        process.send({"number": 1})
        assert heard(messages, 2) == [{"ready": True}, {"number": 1}]
        assert set(process.complaints) == {"complained"}


def test_a_process_is_ended_whatever_it_does(messages: WorkerMessages) -> None:
    with start(messages, f"{READY}\nrequests.read()") as process:
        process.send({"data": bytes(1_000_000)})
    assert process.ending == "signal 9"


def test_without_room_for_a_thread_there_is_no_process(
    messages: WorkerMessages, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "sockets" in request.node.name:
        pytest.skip("a process whose streams are sockets needs no thread")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match="can't start new thread"):
        start(messages, ECHO)


def test_of_a_process_that_has_ended_no_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another group may have its number by then."""
    ended: list[object] = []
    monkeypatch.setattr(os, "killpg", lambda *how: ended.append(how), raising=False)
    process = object.__new__(processes.Process)
    process._process = SimpleNamespace(returncode=0, pid=1, kill=lambda: ended.append("kill"))  # type: ignore[assignment]
    process.kill()
    assert ended == ["kill"]
