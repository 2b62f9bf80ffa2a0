"""The framing, the worker's loop and single compiles, all in this process."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
import runpy
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.compiling.executor import Result, Setup, Task, WorkerPool, run
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX, SAXPY, SCALE, in_order, write_tree

if sys.platform != "win32":
    from resource import RLIM_INFINITY as NO_LIMIT
else:
    NO_LIMIT = -1


def test_messages_keep_their_bounds() -> None:
    messages: list[dict[str, Any]] = [
        {"id": 1, "output": b"\0\xff" * 100_000},
        {},
        {"options": ["ä", b"b", None]},
    ]
    stream = io.BytesIO()
    for message in messages:
        worker.send(stream, message)
    stream.seek(0)
    assert [worker.receive(stream) for _ in range(4)] == [*messages, None]


def test_a_message_cut_short_anywhere_is_the_end() -> None:
    stream = io.BytesIO()
    worker.send(stream, {"id": 1, "output": b"123"})
    whole = stream.getvalue()
    assert {worker.receive(io.BytesIO(whole[:size])) is None for size in range(len(whole))} == {True}


def task(kind: str, code: str, *options: str, instantiate: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "id": 7,
        "kind": kind,
        "code": code.encode(),
        "name": b"demo/k.cu",
        "options": [option.encode() for option in options],
        "instantiate": [name.encode() for name in instantiate],
    }


def outcome(result: dict[str, Any]) -> tuple[bool, bytes, dict[str, str]]:
    return result["ok"], result["output"][:4], result["symbols"]


@pytest.mark.nvrtc
def test_a_source_gives_a_cubin() -> None:
    result = worker.compile_task(task("c++", SAXPY, "-arch=sm_90"))
    assert outcome(result) == (True, b"\x7fELF", {})
    assert (result["id"], result["log"]) == (7, "")
    assert result["seconds"] > 0


@pytest.mark.nvrtc
def test_templates_give_their_symbols() -> None:
    result = worker.compile_task(
        task("c++", SCALE, "-arch=sm_90", instantiate=("scale<float, 4>", "scale<int,2>"))
    )
    symbols = {"scale<float, 4>": "_Z5scaleIfLi4EEvPT_", "scale<int,2>": "_Z5scaleIiLi2EEvPT_"}
    assert outcome(result) == (True, b"\x7fELF", symbols)


@pytest.mark.nvrtc
def test_a_compile_gives_the_ptx_too_without_the_nul_that_ends_it() -> None:
    result = worker.compile_task({**task("c++", SAXPY, "-arch=sm_90"), "ptx": True})
    assert outcome(result) == (True, b"\x7fELF", {})
    assert result["ptx"].rstrip().endswith(b"}")
    assert b".visible .entry saxpy(" in result["ptx"]


@pytest.fixture
def assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> worker._Assembler:
    """Return what runs ptxas in a worker; here it is in this process."""
    mine = worker._Assembler()
    mine.programs["ptx"], mine.scratch = Toolkit(None).assembler, str(tmp_path)
    monkeypatch.setattr(worker, "_assembler", mine)
    return mine


@pytest.mark.nvrtc
def test_ptx_is_assembled_as_by_ptxas_itself(tmp_path: Path, assembler: worker._Assembler) -> None:
    result = worker.compile_task(task("ptx", COPY_PTX, "-arch=sm_90"))
    assert outcome(result) == (True, b"\x7fELF", {})
    write_tree(tmp_path, {"a name/k.ptx": COPY_PTX})
    subprocess.run([assembler.programs["ptx"], "-arch=sm_90", "k.ptx"], cwd=tmp_path / "a name", check=True)
    assert result["output"] == (tmp_path / "a name/elf.o").read_bytes()


@pytest.mark.nvrtc
@pytest.mark.parametrize("option", ["-g", "-lineinfo"])
def test_ptx_gives_the_same_bytes_in_any_folder(
    tmp_path: Path, assembler: worker._Assembler, option: str
) -> None:
    outputs = set()
    for folder in ("here", "there/and further"):
        assembler.scratch = str(tmp_path / folder)
        outputs.add(worker.compile_task(task("ptx", COPY_PTX, "-arch=sm_90", option))["output"])
    assert len(outputs) == 1


@pytest.mark.nvrtc
def test_a_crash_of_ptxas_is_one_of_the_process_that_runs_it(
    tmp_path: Path, assembler: worker._Assembler, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write_tree(tmp_path, {"ptxas": "#!/bin/sh\nkill -SEGV $$\n"}) / "ptxas"
    script.chmod(0o755)
    assembler.programs["ptx"] = str(script)
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *how: ended.append(how))
    worker.compile_task(task("ptx", COPY_PTX))
    assert ended == [(os.getpid(), signal.SIGSEGV)]


@pytest.mark.nvrtc
def test_a_ptxas_that_fails_and_says_nothing_is_told_by_its_exit_code(
    tmp_path: Path, assembler: worker._Assembler
) -> None:
    assembler.programs["ptx"] = "/bin/false"
    assert worker.compile_task(task("ptx", COPY_PTX))["log"] == "fatal: false ended with exit code 1"


@pytest.mark.nvrtc
def test_a_worker_that_leaves_ends_its_ptxas_and_removes_its_files(
    tmp_path: Path, assembler: worker._Assembler
) -> None:
    script = tmp_path / "ptxas"
    script.write_text(f"#!/bin/sh\necho > '{tmp_path}/started'\nexec sleep 600\n")
    script.chmod(0o755)
    os.mkfifo(tmp_path / "started")
    assembler.programs["ptx"], assembler.scratch = str(script), str(tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    results: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: results.append(worker.compile_task(task("ptx", COPY_PTX))))
    thread.start()
    (tmp_path / "started").read_text()
    assembler.leave()
    thread.join()
    assert not results[0]["ok"]
    assembler.leave()
    assert [*(tmp_path / "scratch").iterdir()] == []


@pytest.mark.linux
def test_a_compiler_process_that_is_ended_takes_its_ptxas_along(tmp_path: Path) -> None:
    script = tmp_path / "ptxas"
    script.write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/started'\nexec sleep 600\n")
    script.chmod(0o755)
    os.mkfifo(tmp_path / "started")
    pool = WorkerPool(Setup((), {}, 1, 600.0, scratch=str(tmp_path), assembler=str(script)))
    tasks = in_order([Task(1, "ptx", b"", b"k.ptx", ())])
    thread = threading.Thread(target=lambda: [*pool.results(tasks)])
    thread.start()
    ptxas = os.pidfd_open(int((tmp_path / "started").read_text()))
    pool.halt()
    thread.join()
    pool.close()
    assert select.select([ptxas], [], [], 60.0)[0] == [ptxas]
    os.close(ptxas)


@pytest.mark.nvrtc
@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (task("c++", "bogus;", "-arch=sm_90"), "demo/k.cu(1): error: "),
        (task("c++", SAXPY, "-arch=sm_1"), "nvrtc: error: invalid value for --gpu-architecture (-arch)"),
        (
            task("c++", SCALE, "-arch=sm_90", instantiate=("scale<flot, 4>",)),
            'identifier "flot" is undefined',
        ),
        (
            task("ptx", COPY_PTX.replace("ret", "bogus"), "-arch=sm_90"),
            "source.ptx, line 4; error   : Not a name of",
        ),
        (task("ptx", COPY_PTX, "-arch=sm_70"), "ptxas fatal   : Value 'sm_70' is not defined for option"),
        (task("ptx", COPY_PTX, "-bogus"), "ptxas fatal   : Unknown option 'bogus'"),
        (task("c++", SAXPY, "-arch=sm_90", instantiate=("",)), ""),
    ],
    ids=["syntax", "arch", "template", "instruction", "target", "option", "no name"],
)
def test_what_fails_says_why(bad: dict[str, Any], said: str) -> None:
    result = worker.compile_task(bad)
    assert outcome(result) == (False, b"", {})
    assert said in result["log"]
    assert "\0" not in result["log"]


ASM = """\
#line 1 "demo/k.cu"
extern "C" __global__ void k(int *x) {
  *x = 1;
  asm volatile("total.garbage;");
}
"""
REFUSAL = re.compile(
    r"ptxas application ptx input, line (\d+); error   : Not a name of any known instruction"
)


def _children() -> set[str]:
    return {*Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()}


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_worker_knows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SIGNING_KEY", "of this process alone")
    monkeypatch.setenv("HATCH_CUBIN_REMOTE", "https://ada:of this process@cache.example")
    monkeypatch.setenv("HATCH_CUBIN_REMOTE_TOKEN", "of this process")
    monkeypatch.setenv("HATCH_CUBIN_JOBS", "1")
    tasks = in_order([Task(1, "c++", SAXPY.encode(), b"demo/k.cu", (b"-arch=sm_90",), ())])
    seen: list[bytes] = []
    before = _children()  # of other tests

    def upcoming(held: int | None, others: Sequence[int]) -> Task | None:
        for process in _children() - before:
            seen.extend(Path(f"/proc/{process}/{what}").read_bytes() for what in ("environ", "cmdline"))
        return tasks(held, others)

    (result,) = run(upcoming, Setup((), {}, 1, 60.0))
    assert result.ok
    assert b"HATCH_CUBIN_JOBS=1" in seen[0].split(b"\0")
    assert not any(b"HATCH_CUBIN_SIGNING_KEY" in each or b"of this process" in each for each in seen)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """Return the options of each run of the compiler."""
    run, given = worker._run, []

    def heard(task: dict[str, Any]) -> worker.Outcome:
        given.append(task["options"])
        return run(task)

    monkeypatch.setattr(worker, "_run", heard)
    return given


@pytest.mark.nvrtc
@pytest.mark.parametrize(("option", "count"), [("-DX", 2), ("-lineinfo", 1), ("-G", 1)])
def test_ptx_that_no_assembler_takes_comes_with_the_lines_of_its_source(
    runs: list[list[bytes]], option: str, count: int
) -> None:
    result = worker.compile_task(task("c++", ASM, "-arch=sm_90", option))
    refusal = REFUSAL.search(result["log"])
    assert (outcome(result), len(runs)) == ((False, b"", {}), count)
    assert refusal is not None
    lines = result["ptx"].decode().splitlines()
    assert lines[int(refusal[1]) - 1].strip() == "total.garbage;"
    assert any(line.startswith("\t.loc\t1 3 ") for line in lines)


@pytest.mark.parametrize(
    "again",
    [worker.Outcome(ok=True, ptx=b"fine"), worker.Outcome(ok=False, log=b"another error")],
    ids=["nothing", "something else"],
)
def test_where_line_information_brings_up_another_end_the_first_error_stays(
    monkeypatch: pytest.MonkeyPatch, again: worker.Outcome
) -> None:
    outcomes = iter([worker.Outcome(ok=False, log=b"refused", ptx=b"without lines"), again])
    monkeypatch.setattr(worker, "_run", lambda _task: next(outcomes))
    result = worker.compile_task(task("c++", ""))
    assert (result["ok"], result["log"], result["ptx"]) == (False, "refused", b"without lines")


def test_whatever_a_compiler_raises_is_a_failed_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(_task: object) -> None:
        raise RuntimeError("no such function")

    monkeypatch.setattr(worker, "_compile", explode)
    result = worker.compile_task(task("c++", ""))
    assert (outcome(result), result["log"]) == ((False, b"", {}), "RuntimeError: no such function")


@pytest.mark.nvrtc
def test_a_call_that_nvrtc_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    refusal = (nvrtc.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY, None)
    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", lambda *_args: refusal)
    result = worker.compile_task(task("c++", SAXPY, "-arch=sm_90"))
    assert (outcome(result), result["log"]) == ((False, b"", {}), "RuntimeError: NVRTC_ERROR_OUT_OF_MEMORY")


class Left(BaseException):
    """The worker's process would have ended here."""


def serve(monkeypatch: pytest.MonkeyPatch, *messages: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Run the worker's main in this process, with pipes for its standard streams; return its answers."""
    requests, results = io.BytesIO(), io.BytesIO()
    for message in messages:
        worker.send(requests, message)
    requests.seek(0)
    answered = threading.Event()

    class Results(io.BytesIO):
        def flush(self) -> None:
            results.write(self.getvalue())
            self.seek(0)
            self.truncate()
            if results.getvalue().count(b"symbols") >= len(messages) - 1:
                answered.set()

    def leave(code: int) -> None:
        assert answered.wait(30)
        raise Left(code)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(requests))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "dup", lambda _number: -1)
    monkeypatch.setattr(os, "fdopen", lambda *_args: Results())
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(threading, "stack_size", lambda _bytes: None)
    with contextlib.suppress(Left):
        worker.main()
    results.seek(0)
    return [worker.receive(results) for _ in messages]


def test_the_worker_prepares_itself_then_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shout(task: dict[str, Any]) -> worker.Outcome:
        return worker.Outcome(ok=True, output=task["code"].upper(), log=b"said \0")

    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "dup2", lambda *numbers: done.append(("dup2", *numbers[-1:])))
    monkeypatch.setattr(os, "chdir", lambda folder: done.append(("chdir", folder)))
    monkeypatch.setattr(ctypes, "CDLL", lambda library: done.append(("load", library)))
    monkeypatch.setattr(worker, "_compile", shout)
    setup = {"sys_path": ["/a"], "libraries": ["libx.so"], "folders": {77: str(tmp_path)}, "scratch": ""}
    ready, *answers = serve(monkeypatch, setup, task("c++", "one"), task("c++", "two"))
    assert ready == {"ready": True}
    assert sorted((each["output"], each["log"]) for each in answers if each) == [
        (b"ONE", "said"),
        (b"TWO", "said"),
    ]
    assert done == [("dup2", 1), ("dup2", 77), ("chdir", "/"), ("load", "libx.so")]
    assert sys.path == ["/a"]


def test_a_worker_needs_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folders cannot be named by numbers, there is no limit of open files either."""
    patch_limits(monkeypatch, 0, 0)
    monkeypatch.setattr(os, "dup2", lambda *_numbers: None)
    monkeypatch.setattr(os, "chdir", lambda _folder: None)
    setup = {"sys_path": sys.path, "libraries": [], "folders": {}, "scratch": "", "memory": 1 << 30}
    assert serve(monkeypatch, setup) == [{"ready": True}]


def test_where_the_front_end_was_killed_a_worker_leaves_no_half_of_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = write_tree(tmp_path / "scratch", {f"{os.getpid()}.pch": "half", "another.pch": "half"})
    monkeypatch.setattr(worker, "_header", worker._Header())
    monkeypatch.setattr(os, "dup2", lambda *_numbers: None)
    monkeypatch.setattr(os, "chdir", lambda _folder: None)
    setup = {"sys_path": sys.path, "libraries": [], "folders": {}, "scratch": str(scratch)}
    assert serve(monkeypatch, setup) == [{"ready": True}]
    assert [path.name for path in scratch.iterdir()] == ["another.pch"]
    (scratch / "another.pch").unlink()
    assert serve(monkeypatch, setup) == [{"ready": True}]
    assert not scratch.exists()


def test_a_worker_that_is_told_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "dup2", lambda *_numbers: None)
    monkeypatch.setattr(os, "dup", lambda _number: -1)
    monkeypatch.setattr(os, "fdopen", lambda *_args: io.BytesIO())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    runpy.run_path(worker.__file__, run_name="__main__")


def patch_limits(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    """Pretend that these are the limits of open files; return those that are set."""
    resource = pytest.importorskip("resource")
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: made.append(limits))
    return made


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        (899, 4096, [(4096, 4096)], 4096),
        (900, 4096, [], 900),
        (256, NO_LIMIT, [(NO_LIMIT, NO_LIMIT)], 900),
        (NO_LIMIT, NO_LIMIT, [], 900),
        (256, 899, [(899, 899)], 899),
    ],
    ids=["raised", "enough", "raised to no limit", "no limit", "not enough"],
)
def test_the_limit_of_open_files_is_raised_where_descriptors_need_it(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: list[tuple[int, int]], most: int
) -> None:
    made = patch_limits(monkeypatch, soft, hard)
    assert (worker._allow_descriptors(900), made) == (most, raised)


@pytest.mark.parametrize(
    ("hard", "made"),
    [(NO_LIMIT, [(1 << 30, 1 << 30)]), (1 << 40, [(1 << 30, 1 << 30)]), (1 << 20, [])],
    ids=["no limit", "a higher one", "a lower one"],
)
def test_a_worker_limits_its_own_memory_to_what_it_is_told_and_what_is_reserved(
    monkeypatch: pytest.MonkeyPatch, hard: int, made: list[tuple[int, int]]
) -> None:
    limits = patch_limits(monkeypatch, NO_LIMIT, hard)
    monkeypatch.setattr(worker, "_RESERVED_BYTES", 1 << 20)
    worker._limit_memory((1 << 30) - worker._STACK_BYTES[0] - (1 << 20))
    assert limits == made


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have too few descriptors for the numbers that two folders are called by."""
    folders = {77: "/project", 100: "/headers", 7: "/wheel"}
    found: dict[int, tuple[str, str]] = {}
    opened: list[int] = []
    monkeypatch.setattr(worker, "_unnamed", found)
    with monkeypatch.context() as few:
        few.setattr(worker, "_allow_descriptors", lambda _count: 77)
        few.setattr(os, "open", lambda folder, _flags: {"/project": 3, "/headers": 4}.get(folder))
        few.setattr(os, "dup2", lambda _from, to: opened.append(to))
        few.setattr(os, "close", lambda _descriptor: None)
        worker._open_folders(folders)
    assert opened == [7]
    assert found == {77: ("/proc/self/fd/3", "/project"), 100: ("/proc/self/fd/4", "/headers")}


def compiled(monkeypatch: pytest.MonkeyPatch, compiler: Any, name: str, *options: str) -> dict[str, Any]:
    monkeypatch.setattr(worker, "_compile", compiler)
    asked = task("c++", "", *options) | {
        "name": name.encode(),
        "searches": True,
        "precompiled_header": (1, b"", [], b""),
    }
    found: dict[str, Any] = worker.compile_task(asked)
    return found


OPTIONS = ("--include-path=/proc/self/fd/100", "--include-path=/proc/self/fd/101", "-DX=/proc/self/fd/77")
NAME = "/proc/self/fd/77/demo/k.cu"


@pytest.mark.usefixtures("unnamed")
def test_a_result_that_shows_no_name_of_a_folder_needs_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(task: dict[str, Any]) -> Any:
        seen.append((task["name"].decode(), [option.decode() for option in task["options"]]))
        return worker.Outcome(ok=True, output=b"same", log=b"/proc/self/fd/4/a.h(1): warning")

    seen: list[Any] = []
    result = compiled(monkeypatch, compiler, NAME, *OPTIONS)
    assert (result["ok"], result["output"], result["shared"]) == (True, b"same", False)
    assert result["log"] == "/proc/self/fd/100/a.h(1): warning"
    assert seen == [
        ("/proc/self/fd/3/demo/k.cu", ["--include-path=/proc/self/fd/4", *OPTIONS[1:]]),
        ("/project/demo/k.cu", ["--include-path=/headers", *OPTIONS[1:]]),
    ]


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize(
    "shows",
    [
        lambda task: worker.Outcome(ok=True, output=task["name"]),
        lambda task: worker.Outcome(ok=True, ptx=task["name"]),
    ],
    ids=["cubin", "PTX"],
)
def test_a_result_that_shows_one_is_refused_with_what_would_help(
    monkeypatch: pytest.MonkeyPatch, shows: Any
) -> None:
    result = compiled(monkeypatch, shows, NAME, *OPTIONS)
    assert (result["ok"], result["output"], result["ptx"]) == (False, b"", b"")
    assert result["log"] == (
        "fatal: the compile needs 101 open files, which is more than the limit, "
        "because hatch-cubin opens each folder to keep the folder's name out of the compiled code: "
        "use 'ulimit -n 1024', or '--ulimit nofile=1024' for containers"
    )


@pytest.mark.usefixtures("unnamed")
def test_what_failed_under_one_name_is_not_tried_under_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(task: dict[str, Any]) -> Any:
        tried.append(task["name"])
        return worker.Outcome(ok=False, log=b"error", ptx=b'.file 2 "/proc/self/fd/4/a.h"')

    tried: list[bytes] = []
    result = compiled(monkeypatch, compiler, NAME)
    assert (result["ok"], result["log"], len(tried)) == (False, "error", 1)
    assert result["ptx"] == b'.file 2 "/proc/self/fd/100/a.h"'


@pytest.mark.usefixtures("unnamed")
def test_folders_that_could_be_opened_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(task: dict[str, Any]) -> Any:
        tried.append(task["name"])
        return worker.Outcome(ok=True, output=b"output")

    tried: list[bytes] = []
    result = compiled(monkeypatch, compiler, "/proc/self/fd/7/k.cu", OPTIONS[1])
    assert (result["ok"], tried) == (True, [b"/proc/self/fd/7/k.cu"])


@pytest.mark.usefixtures("unnamed")
def test_what_searches_for_no_header_is_compiled_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_compile", lambda task: worker.Outcome(ok=True, output=task["name"]))
    plain = task("c++", "") | {"name": NAME.encode(), "searches": False}
    assert worker.compile_task(plain)["output"] == NAME.encode()


def starts(monkeypatch: pytest.MonkeyPatch, *room_for: int) -> list[int]:
    """Let a thread start with a stack of these sizes alone; return the sizes that are tried."""
    tried: list[int] = []

    def start(_thread: object) -> None:
        if tried[-1] not in room_for:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "stack_size", tried.append)
    monkeypatch.setattr(threading.Thread, "start", start)
    return tried


def test_a_worker_has_as_large_a_stack_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = worker._STACK_BYTES
    tried = starts(monkeypatch, large, small)
    worker._start_thread(lambda: None)
    assert tried == [large]


def test_a_worker_does_with_a_small_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = worker._STACK_BYTES
    tried = starts(monkeypatch, small)
    worker._start_thread(lambda: None)
    assert tried == [large, small]


def test_without_room_for_a_thread_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    starts(monkeypatch)
    with pytest.raises(SystemExit, match="the compiler process cannot start a thread"):
        worker._start_thread(lambda: None)


def test_no_tasks_need_no_worker() -> None:
    assert list(run(in_order([]), Setup((), {}, 1, 1.0, "/no/such/script"))) == []


@pytest.mark.nvrtc
def test_a_worker_process_answers_every_task_once() -> None:
    tasks = [
        Task(number, "c++", f"// {number}\n{SAXPY}".encode(), b"k.cu", (b"-arch=sm_90",))
        for number in range(12)
    ]
    results = list(run(in_order(tasks), Setup((), {}, 3, 60.0)))
    assert sorted(result.id for result in results) == list(range(12))
    assert {(result.ok, result.output[:4], result.log) for result in results} == {(True, b"\x7fELF", "")}
    assert all(isinstance(result, Result) for result in results)
