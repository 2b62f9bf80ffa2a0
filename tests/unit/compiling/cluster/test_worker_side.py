"""What a worker does for a build, in this process in place of a worker's."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hatch_cubin.common.digest import file_digest
from hatch_cubin.compiling import executor
from hatch_cubin.compiling.cluster import identity, worker_files, worker_side
from hatch_cubin.compiling.cluster.identity import Identity, Installed
from hatch_cubin.compiling.cluster.lease import FileListing, Lease, Reply, checked_results
from hatch_cubin.compiling.cluster.worker_side import BuildRequirements, PackedArchive
from hatch_cubin.compiling.executor import Setup, Task
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, write_tree

from .fake_workers import task

MINE = Identity("1.2", "keys 1", identity.CODE, "lp64", "", "13.5.37")
REQUIREMENTS = BuildRequirements(MINE, None)
LISTING = FileListing.of({77: "77"}, ["77"], {"77/a.h": ("project/a.h", file_digest(b"a"))})
BLOBS = worker_side.packed([b"a"])
STUB = f"""\
import os, sys, threading
sys.path.insert(0, {str(Path(worker.__file__).parent)!r})
import worker

def compile_task(task):
    if task["code"] == b"hang":
        with open(__file__ + ".hangs", "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()
    return {{"id": task["id"], "ok": True, "output": str(os.getpid()).encode(), "log": "", "seconds": 0.1}}

worker.compile_task = compile_task
worker.main()
"""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Iterator[None]:
    """Begin as a process does that was just started."""
    monkeypatch.setattr(worker_side, "_states", [])
    yield
    worker_side.here().close()
    assert not any(temporary.iterdir())


@pytest.fixture
def stub(unmeasured: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the script that compiles here, and is no compiler."""
    script = write_tree(tmp_path, {"stub.py": STUB}) / "stub.py"
    monkeypatch.setattr(executor, "Setup", partial(Setup, script=str(script)))
    monkeypatch.setattr(identity, "find_installed", lambda _wanted, _uses: Installed(MINE, (), "", "", {}))
    return script


def lease(*tasks: Task, process: str | None = None, listing: str = LISTING.digest, build: str = "b") -> Lease:
    return Lease(
        1, build, worker_side.here().process if process is None else process, listing, tasks, 60.0, 0
    )


def test_who_is_as_the_build_needs_it_has_nothing_to_say(stub: Path) -> None:
    process, differs = worker_side.identify(REQUIREMENTS)
    assert (process, differs) == (worker_side.here().process, None)
    other = BuildRequirements(MINE._replace(nvrtc="13.4.92"), None)
    assert worker_side.identify(other)[1] == "the worker has NVRTC 13.5.37, but this build has 13.4.92"


def test_who_runs_other_code_than_what_is_installed_by_now_says_so(
    stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "CODE", "as it was imported")
    assert (
        worker_side.identify(REQUIREMENTS)[1]
        == "hatch-cubin was replaced after the worker was started: restart the worker"
    )


def test_who_cannot_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_wanted: object, uses: tuple[str, ...]) -> Installed:
        raise ValueError(f"cannot load nvrtc: {uses}")

    monkeypatch.setattr(identity, "find_installed", ask)
    for tool in ("nvjitlink", "ptxas", "tileiras"):
        asked = BuildRequirements(MINE._replace(**{tool: "13"}), None)
        assert worker_side.identify(asked)[1] == f"cannot load nvrtc: {(tool,)}"


def test_files_come_once_and_tasks_are_compiled_in_order(stub: Path) -> None:
    assert worker_side.store_files(REQUIREMENTS, LISTING) == [file_digest(b"a")]
    assert (
        worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
        == worker_side.store_files(REQUIREMENTS, LISTING)
        == []
    )
    both = lease(task(1), task(2))
    found = checked_results(worker_side.compile_lease(REQUIREMENTS, both), both)
    assert [*found] == [1, 2]
    assert {result.worker for result in found.values()} == {worker_side.here().name}


def test_a_compiler_serves_one_lease_after_another_until_the_build_is_over(stub: Path) -> None:
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    leases = [lease(task(number)) for number in range(3)]
    pids = {
        checked_results(worker_side.compile_lease(REQUIREMENTS, each), each)[each.tasks[0].id].output
        for each in leases[:2]
    }
    assert len(pids) == 1
    worker_side.stop("b")
    with pytest.raises(worker_side.BuildIsOverError):
        worker_side.compile_lease(REQUIREMENTS, leases[2])
    another = leases[2]._replace(build="another")
    again = checked_results(worker_side.compile_lease(REQUIREMENTS, another), another)[2].output
    assert again not in pids
    for pid in (*pids, again):
        worker_side.stop("any")
        assert not Path(f"/proc/{pid.decode()}").exists() or os.name == "nt"


def test_compilers_that_nobody_needs_go(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[object, ...]] = []

    class Timer(threading.Timer):
        def __init__(self, *arguments: object) -> None:
            super().__init__(0, lambda: None)
            timers.append(arguments)

    monkeypatch.setattr(threading, "Timer", Timer)
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    asked = lease(task(1))
    results = [checked_results(worker_side.compile_lease(REQUIREMENTS, asked), asked)[1] for _ in range(2)]
    pid = results[0].output.decode()
    assert Path(f"/proc/{pid}").exists()
    (_, act, arguments), *_others = [(each[0], each[1], each[2]) for each in timers]
    act(*arguments)  # type: ignore[operator,misc]
    assert [timer[0] for timer in timers] == [30.0, 30.0]
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.linux
def test_what_a_build_that_is_over_had_compiled_is_stopped(stub: Path) -> None:
    hangs = Path(f"{stub}.hangs")
    os.mkfifo(hangs)
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    long = lease(Task(1, "c++", b"hang", b"k.cu", ()), build="theirs")
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(worker_side.compile_lease(REQUIREMENTS, long)))
    thread.start()
    pid = hangs.read_text()  # which waits for it
    worker_side.stop("mine")
    assert Path(f"/proc/{pid}").exists()
    worker_side.stop("theirs")
    thread.join(60)
    assert [reply.results for reply in replies] == [()]
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.linux
def test_what_is_compiled_with_stays_while_other_builds_come(
    stub: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_files, "_MOST_LAYOUTS", 1)
    hangs = Path(f"{stub}.hangs")
    os.mkfifo(hangs)
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    (mine,) = temporary.glob("*/layouts/*/77/a.h")
    long = lease(Task(1, "c++", b"hang", b"k.cu", ()), build="long")
    thread = threading.Thread(target=worker_side.compile_lease, args=(REQUIREMENTS, long))
    thread.start()
    hangs.read_text()  # which waits for it
    for place in ("77/b.h", "77/c.h"):
        other = FileListing.of({77: "77"}, ["77"], {place: LISTING.files["77/a.h"]})
        assert worker_side.store_files(REQUIREMENTS, other, BLOBS) == []
    assert mine.read_bytes() == b"a"
    worker_side.stop("long")
    thread.join(60)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"process": "of another life"}, "the worker was restarted"),
        ({"listing": "x"}, "the worker does not have the build's files"),
    ],
)
def test_a_lease_for_somebody_else_is_refused(stub: Path, other: dict[str, str], why: str) -> None:
    assert worker_side.compile_lease(REQUIREMENTS, lease(task(1), **other)).refusal == why


def test_a_fork_is_another_process(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    before = worker_side.here()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 4711)
        assert worker_side.here() is not before
        assert worker_side.here().name.endswith(":4711")
        before.close()  # as it ends
    assert before.files.missing_files(LISTING, {}) == []
    before.close()


def test_with_all_that_it_takes_a_lease_needs_nothing_before(
    stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = PackedArchive(REQUIREMENTS, LISTING, BLOBS)
    anybody = lease(task(1), process="")
    assert [*checked_results(worker_side.compile_with(archive, anybody), anybody)] == [1]
    with monkeypatch.context() as patch:
        patch.delattr(worker_side, "unpacked")  # what it has been given already is not unpacked again
        assert [*checked_results(worker_side.compile_with(archive, anybody), anybody)] == [1]
    other = PackedArchive(BuildRequirements(MINE._replace(nvrtc="13.4.92"), None), LISTING, BLOBS)
    assert worker_side.compile_with(other, anybody).refusal == (
        "the worker has NVRTC 13.5.37, but this build has 13.4.92"
    )


def test_what_was_packed_is_called() -> None:
    import pickle

    assert worker_side.call_packed(pickle.dumps((divmod, (7, 2)))) == (3, 1)


def test_a_compile_that_cannot_start_leaves_nobody_behind(
    stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)

    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        with pytest.raises(Exception, match="could not start"):
            worker_side.compile_lease(REQUIREMENTS, lease(task(1)))
    asked = lease(task(1))
    assert [*checked_results(worker_side.compile_lease(REQUIREMENTS, asked), asked)] == [1]


BIG = "\n".join(f"__device__ float f{n}(float x) {{ return x * {n}.5f; }}" for n in range(30_000))


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_compiler_takes_no_more_memory_than_its_worker_may(monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = Toolkit(None)
    here = Installed(identity.local_identity(toolkit), toolkit.libraries, "", "", {})
    monkeypatch.setattr(identity, "find_installed", lambda _wanted, _uses: here)
    worker_side.store_files(REQUIREMENTS, LISTING, BLOBS)
    small = Task(1, "c++", SAXPY.encode(), b"k.cu", (b"-arch=sm_90",))
    large = Task(2, "c++", f"{BIG}\n{SAXPY}".encode(), b"k.cu", (b"-arch=sm_90",))
    limited = lease(small, large)._replace(memory=64 << 20)
    found = checked_results(worker_side.compile_lease(REQUIREMENTS, limited), limited)
    assert (found[1].ok, found[2].ok) == (True, False)
    assert any(each in found[2].log for each in ("out of memory", "the compiler crashed"))


def test_what_ptxas_reads_and_writes_is_gone_with_the_worker() -> None:
    mine = worker_side.here()
    scratch = Path(mine.scratch)
    assert (scratch.is_dir(), mine.scratch) == (True, str(scratch))
    mine.close()
    assert not scratch.exists()
