"""What a compiler can do to a process, it does to the worker's; the build goes on and names the unit.

The worker here is a stub: the real one's framing around tasks that say what shall happen.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hatch_cubin.compiling import executor
from hatch_cubin.compiling.executor import Next, PrecompiledHeader, Result, Setup, Task, run
from hatch_cubin.errors import ToolchainError
from hatch_cubin.toolkit import worker
from tests.helpers import in_order, refusal, write_tree
from tests.helpers import run as in_process

pytestmark = [pytest.mark.counted, pytest.mark.usefixtures("unmeasured")]

STUB = f"""\
import ctypes, os, sys, threading, time
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker

def compile_task(task):
    what = task["code"].decode()
    if what == "segfault" or (what == "shared" and task["precompiled_header"]):
        ctypes.string_at(1)
    if what == "exit":
        sys.stderr.write("internal compiler error\\n")
        sys.stderr.flush()
        os._exit(3)
    if what == "tear":  # dies in the middle of an answer
        os.write(RESULTS, (1000).to_bytes(8, "big") + b"half")
        os._exit(0)
    if what == "leave":
        worker.send(os.fdopen(RESULTS, "wb"), answer(task, "left"))
    if what in ("once", "leave") and not os.path.exists(MARK):
        with open(MARK + "~", "w") as file:
            file.write(str(os.getpid()))
        os.rename(MARK + "~", MARK)
        os._exit(9)
    if what == "company":  # until the front end has seen the end of the other
        while not os.path.exists(MARK) or os.path.isdir("/proc/" + open(MARK).read()):
            time.sleep(0.01)
    if what == "mark" and task["precompiled_header"]:
        return answer(task, "marked")
    if what == "hang" or (what == "stall" and task["precompiled_header"]):
        threading.Event().wait()
    if what == "chatter":
        os.write(1, b"printed " * 100_000)
        os.write(2, b"complained\\n" * 100_000)
    return answer(task, "x" * 50_000_000 if what == "large" else what)

def answer(task, text):
    return {{
        "id": task["id"], "ok": True, "output": text.encode(), "log": "", "symbols": {{}}, "seconds": 0.0
    }}

MARK = __file__ + ".once"
RESULTS = os.dup(1)
worker.compile_task = compile_task
worker.main()
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Return every worker process that is started."""
    processes: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*args: object, **options: object) -> object:
        process = real(*args, **options)  # type: ignore[call-overload]
        processes.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    return processes


def setup_for(folder: Path, script: str = STUB, jobs: int = 3, timeout_s: float = 60.0) -> Setup:
    write_tree(folder, {"stub.py": script})
    return Setup((), {}, jobs, timeout_s, str(folder / "stub.py"))


def task(number: int, code: str, precompiled_header: int | None = None) -> Task:
    shared = None if precompiled_header is None else PrecompiledHeader(precompiled_header, b"", (), b"")
    return Task(number, "c++", code.encode(), b"k.cu", (), precompiled_header=shared)


def tasks(*codes: str) -> Next:
    return in_order(task(number, code) for number, code in enumerate(codes))


def outcomes(results: Iterator[Result]) -> dict[int, str]:
    """Return each task's output or log; fail where a task is answered twice."""
    found: dict[int, str] = {}
    for result in results:
        assert result.id not in found
        found[result.id] = result.output.decode() if result.ok else result.log
    return found


DYING = STUB.replace(
    "worker.main()",
    """send_first = worker.send

def send(pipe, message):
    send_first(pipe, message)
    if "id" in message:
        os.kill(os.getpid(), 9)

worker.send = send
worker.main()""",
)


@pytest.mark.linux
def test_a_process_that_dies_after_an_answer_takes_no_other_task_down(tmp_path: Path) -> None:
    codes = ["a", "b", "c", "d"]
    assert outcomes(run(tasks(*codes), setup_for(tmp_path, DYING, jobs=1))) == dict(enumerate(codes))


@pytest.mark.linux
def test_a_task_that_crashes_in_company_runs_again_alone_after_all_others(tmp_path: Path) -> None:
    """It may have been short of memory: the second time it is well."""
    codes = ["once", "company", "fine"]
    results = run(tasks(*codes), setup_for(tmp_path, jobs=2))
    *others, last = [(result.ok, result.output.decode()) for result in results]
    assert sorted(others) == [(True, "company"), (True, "fine")]
    assert last == (True, "once")


def test_a_task_that_crashes_with_a_precompiled_header_runs_again_without(tmp_path: Path) -> None:
    shared = in_order([task(0, "shared", 1), task(1, "fine", 1)])
    assert outcomes(run(shared, setup_for(tmp_path, jobs=1))) == {0: "shared", 1: "fine"}


def test_a_task_is_asked_for_by_what_its_worker_has_precompiled(tmp_path: Path) -> None:
    """That of a worker whose process has ended is lost with it."""
    left = [task(0, "a", 5), task(1, "b"), task(2, "c", 6), task(3, "shared", 7), task(4, "d", 8)]
    asked: list[tuple[int | None, Sequence[int]]] = []

    def upcoming(held: int | None, others: Sequence[int]) -> Task | None:
        asked.append((held, others))
        return left.pop(0) if left else None

    found = outcomes(run(upcoming, setup_for(tmp_path, jobs=1)))
    assert found == {0: "a", 1: "b", 2: "c", 3: "shared", 4: "d"}
    alone: list[tuple[int | None, Sequence[int]]] = [(held, []) for held in (None, 5, 5, 6, None)]
    assert asked[:5] == alone


def test_a_task_is_asked_for_by_what_the_other_workers_have_precompiled(tmp_path: Path) -> None:
    left = [task(0, "hang", 5), task(1, "a", 6), task(2, "b")]
    asked: list[tuple[int | None, Sequence[int]]] = []

    def upcoming(held: int | None, others: Sequence[int]) -> Task | None:
        asked.append((held, others))
        return left.pop(0) if left else None

    found = outcomes(run(upcoming, setup_for(tmp_path, jobs=2, timeout_s=1.5)))
    assert (set(found), found[1], found[2]) == ({0, 1, 2}, "a", "b")
    assert asked[:4] == [(None, []), (None, [5]), (6, [5]), (6, [5])]


@pytest.mark.parametrize("jobs", [1, 3], ids=["alone", "in company"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("segfault", "fatal: the compiler crashed (signal 11)"),
        ("exit", "fatal: the compiler crashed (exit code 3)\ninternal compiler error"),
        ("tear", "fatal: the compiler crashed (exit code 0)"),
    ],
)
@pytest.mark.parametrize("place", [0, 4, 8], ids=["first", "amid", "last"])
def test_a_crash_fails_its_own_task_and_no_other(
    tmp_path: Path, jobs: int, code: str, said: str, place: int
) -> None:
    codes = [f"fine {number}" for number in range(8)]
    codes.insert(place, code)
    expected = dict(enumerate(codes)) | {place: said}
    assert outcomes(run(tasks(*codes), setup_for(tmp_path, jobs=jobs))) == expected


def test_a_task_that_hangs_is_stopped_and_the_others_finish(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    codes = ["a", "hang", "b", "c", "d"]
    found = outcomes(run(tasks(*codes), setup_for(tmp_path, jobs=2, timeout_s=1.5)))
    said = "fatal: took longer than 1.5 s and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)"
    assert found == dict(enumerate(codes)) | {1: said}
    assert [process.returncode for process in started] == [-9] * len(started)


def test_what_takes_too_long_with_a_precompiled_header_is_compiled_without(tmp_path: Path) -> None:
    left = in_order([task(0, "stall", 5), task(1, "a")])
    assert outcomes(run(left, setup_for(tmp_path, jobs=2, timeout_s=1.5))) == {0: "stall", 1: "a"}


def test_a_precompiled_header_that_ends_a_process_is_asked_for_no_more(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    left = in_order(task(number, "shared", 5) for number in range(20))
    found = outcomes(run(left, setup_for(tmp_path, jobs=1)))
    assert found == dict.fromkeys(range(20), "shared")
    assert len(started) == 2


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_is_not_accepted_is_compiled_without_a_precompiled_header(tmp_path: Path, jobs: int) -> None:
    """Also where the process ends on the second try, as others go on."""
    left = in_order(task(number, "once" if number == 4 else "mark", 5) for number in range(12))
    asked: list[str] = []

    def accepts(result: Result) -> bool:
        asked.append(result.output.decode())
        return result.output != b"marked"

    found = outcomes(run(left, setup_for(tmp_path, jobs=jobs), accepts))
    assert found == dict.fromkeys(range(12), "mark") | {4: "once"}
    assert (asked.count("marked") >= 3, asked.count("mark"), asked.count("once")) == (True, 11, 1)


def test_a_limit_may_be_longer_than_any_clock_counts(tmp_path: Path) -> None:
    assert outcomes(run(tasks("a"), setup_for(tmp_path, timeout_s=1e300))) == {0: "a"}


@pytest.mark.linux
def test_a_worker_that_ends_with_nothing_to_do_is_cleared_away(tmp_path: Path) -> None:
    """The other task ends only when that process is no more."""
    assert outcomes(run(tasks("leave", "company"), setup_for(tmp_path, jobs=2))) == {0: "left", 1: "company"}


@pytest.mark.parametrize(
    ("script", "details"),
    [
        ("raise SystemExit('no library here')", ("no library here",)),
        ("import os\nos._exit(0)", ()),
        ("import os\nos.kill(os.getpid(), 9)", ()),
    ],
    ids=["complaint", "silence", "signal"],
)
def test_a_worker_that_cannot_start_is_no_fault_of_a_source(
    tmp_path: Path, script: str, details: tuple[str, ...]
) -> None:
    (problem,) = refusal(ToolchainError, list, run(tasks("a", "b"), setup_for(tmp_path, script))).problems
    assert problem.what.startswith("the compiler process could not start (")
    assert problem.details == details


def test_a_library_that_is_gone_is_a_worker_that_cannot_start(tmp_path: Path) -> None:
    setup = Setup((str(tmp_path / "libgone.so"),), {}, 1, 60.0)
    with pytest.raises(ToolchainError, match=r"libgone\.so"):
        list(run(tasks("a"), setup))


@pytest.mark.parametrize("refused", ["process", "file"])
def test_a_build_does_with_the_workers_that_there_is_room_for(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(real: Callable[..., object]) -> Callable[..., object]:
        def start(*args: object, **options: object) -> object:
            if len(started) == 2:
                raise BlockingIOError(11, "no room") if refused == "process" else OSError(24, "no room")
            return real(*args, **options)

        return start

    if refused == "process":
        monkeypatch.setattr(subprocess, "Popen", refuse(subprocess.Popen))
    else:
        monkeypatch.setattr(socket, "socketpair", refuse(socket.socketpair))
    codes = [f"fine {number}" for number in range(8)]
    assert outcomes(run(tasks(*codes), setup_for(tmp_path, jobs=6))) == dict(enumerate(codes))
    assert [process.returncode for process in started] == [-9, -9]


def test_a_worker_that_cannot_start_beside_others_leaves_its_task_to_them(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    script = f"""\
import os, sys
try:
    os.mkdir({str(tmp_path / "taken")!r})
except FileExistsError:
    sys.exit("no memory")
{STUB}"""
    codes = [f"fine {number}" for number in range(8)]
    assert outcomes(run(tasks(*codes), setup_for(tmp_path, script, jobs=3))) == dict(enumerate(codes))
    assert 2 <= len(started) <= 4


def test_a_process_that_the_system_refuses_is_no_fault_of_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolchainError) as caught:
        list(run(tasks("a"), setup_for(tmp_path)))
    assert str(caught.value) == "the compiler process could not start: No such file or directory"


LIMITED = """\
import resource, sys
which, soft, hard = sys.argv[1:]
resource.setrlimit(getattr(resource, which), (int(soft), int(hard)))
from hatch_cubin.compiling.executor import Setup, Task, run
from hatch_cubin.errors import HatchCubinError
tasks = (Task(n, "c++", b"fine", b"k.cu", ()) for n in range(4))
try:
    results = run(lambda *_: next(tasks, None), Setup((), {899: "/"}, 4, 60.0, "stub.py"))
    print(*sorted(result.output.decode() for result in results))
except HatchCubinError as exc:
    print(exc)
"""


@pytest.mark.linux
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("RLIMIT_NOFILE", "256", "1024"), "fine fine fine fine\n"),
        (("RLIMIT_NOFILE", "64", "64"), "fine fine fine fine\n"),
        (("RLIMIT_AS", *[str((600 << 20) + worker._RESERVED_BYTES)] * 2), "fine fine fine fine\n"),
        (("RLIMIT_AS", *[str((200 << 20) + worker._RESERVED_BYTES)] * 2), "fine fine fine fine\n"),
    ],
    ids=["few files", "too few files", "room for one large stack", "room for small stacks"],
)
def test_a_worker_lives_with_the_limits_of_its_user(
    tmp_path: Path, limit: tuple[str, str, str], said: str
) -> None:
    write_tree(tmp_path, {"stub.py": STUB})
    root = str(Path(worker.__file__).parents[1])
    assert in_process(sys.executable, "-c", LIMITED, *limit, cwd=tmp_path, PYTHONPATH=root).stdout == said


def test_large_results_and_chatter_do_not_block(tmp_path: Path) -> None:
    found = outcomes(run(tasks("large", "chatter", "large", "chatter"), setup_for(tmp_path, jobs=2)))
    assert {number: len(text) for number, text in found.items()} == {0: 50_000_000, 1: 7, 2: 50_000_000, 3: 7}


IN_COMPANY = """\
import os, time
here, until = os.path.dirname(__file__), time.monotonic() + 20
open(f"{here}/started.{os.getpid()}", "w").close()
while sum(name.startswith("started.") for name in os.listdir(here)) < 3:
    if time.monotonic() > until:
        open(f"{here}/alone", "w").close()
        break
    time.sleep(0.01)
"""


def test_large_sources_do_not_keep_workers_from_starting_together(tmp_path: Path) -> None:
    """A worker that has not read what its pipe cannot hold is not waited for."""
    codes = [letter * 1_000_000 for letter in "abc"]
    assert outcomes(run(tasks(*codes), setup_for(tmp_path, IN_COMPANY + STUB))) == dict(enumerate(codes))
    assert not (tmp_path / "alone").exists()


@pytest.mark.parametrize("how", ["interrupt", "close"])
def test_no_process_stays_behind(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    results = run(tasks("a", "hang"), setup_for(tmp_path, jobs=2))
    assert next(results).output == b"a"
    if how == "close":
        results.close()
    else:

        def interrupt(_crew: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(executor.WorkerPool, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(results)
    assert [process.returncode for process in started] == [-9, -9]


def test_a_worker_ends_with_the_front_end(tmp_path: Path) -> None:
    """A front end that is killed closes the pipe: a compile that runs must not hold the worker."""
    script = write_tree(tmp_path, {"stub.py": STUB}) / "stub.py"
    process = subprocess.Popen(
        [sys.executable, "-I", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout
    setup = {"sys_path": sys.path, "libraries": [], "folders": {77: os.sep}, "scratch": ""}
    worker.send(process.stdin, setup)  # type: ignore[arg-type]
    worker.send(process.stdin, {"id": 0, "code": b"hang"})  # type: ignore[arg-type]
    assert worker.receive(process.stdout) == {"ready": True}  # type: ignore[arg-type]
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
