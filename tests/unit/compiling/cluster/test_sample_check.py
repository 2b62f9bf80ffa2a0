"""A sample of what others compiled is compiled here: of a worker that errs, nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import executor
from hatch_cubin.compiling.cluster import worker_side
from hatch_cubin.compiling.cluster.lease import with_proof
from hatch_cubin.compiling.cluster.sample_check import Sample
from hatch_cubin.compiling.executor import Result, Setup, Task
from hatch_cubin.cubin.elf import read_sections
from hatch_cubin.errors import ToolchainError
from hatch_cubin.project.project import Project
from tests.helpers import SAXPY, make_project

from .fake_workers import done, task


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return which tasks are compiled here, where each gives what it should."""
    compiled: list[int] = []

    def run(upcoming: executor.Next, _setup: Setup) -> Iterator[Result]:
        while (each := upcoming(None, ())) is not None:
            compiled.append(each.id)
            yield done(each.id)

    monkeypatch.setattr(executor, "run", run)
    return compiled


def nobody(number: int, why: str) -> None:
    pytest.fail(f"{number} was not compared: {why}")


TASKS = [*map(task, range(100))]


def differing(part: float, results: Sequence[Result], tasks: Sequence[Task] = TASKS) -> list[tuple[int, str]]:
    sample = Sample(part)
    for result in results:
        sample.note(result)
    return [*sample.differing(tasks, Setup((), {}, 1, 60.0), nobody)]


def by(worker: str, *numbers: int) -> list[Result]:
    return [replace(done(number), worker=worker) for number in numbers]


def test_of_each_worker_at_least_one_is_compared(here: list[int]) -> None:
    assert differing(1e-9, [*by("a", 1, 2, 3), *by("b", 4, 5)]) == []
    assert here == [1, 4]


def test_all_are_where_that_is_asked(here: list[int]) -> None:
    assert differing(1.0, [*by("a", 1, 2), *by("b", 3)]) == []
    assert here == [1, 2, 3]


def test_what_failed_or_was_compiled_here_anyway_is_not(here: list[int]) -> None:
    failed = [Result(1, ok=False, log="error", worker="a")]
    assert differing(1.0, [*failed, done(2)]) == []
    assert here == []


@pytest.mark.parametrize(
    "other", [{"output": b"x"}, {"ptx": b"x"}, {"symbols": {"k<1>": "_Z1k"}}], ids=["cubin", "ptx", "names"]
)
def test_whatever_differs_is_told(here: list[int], other: dict[str, object]) -> None:
    results = [replace(*by("a", 1), **other), *by("b", 2)]
    assert differing(1.0, results) == [(1, "a")]
    assert here == [1, 2]


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("fatal: took longer than 1 s and was stopped", "took longer than 1 s and was stopped"),
        ("fatal: the compiler crashed (SIGKILL)\nsaid", "the compiler crashed (SIGKILL)"),
        ("k.cu: catastrophic error: out of memory", "k.cu: catastrophic error: out of memory"),
    ],
)
def test_what_this_machine_cannot_compile_blames_nobody(
    monkeypatch: pytest.MonkeyPatch, log: str, why: str
) -> None:
    monkeypatch.setattr(executor, "run", lambda *_all: iter([Result(1, ok=False, log=log)]))
    sample, unknown = Sample(1.0), list[tuple[int, str]]()
    sample.note(*by("a", 1))
    setup = Setup((), {}, 1, 60.0)
    assert [*sample.differing(TASKS, setup, lambda *known: unknown.append(known))] == []
    assert unknown == [(1, why)]


def test_what_does_not_compile_here_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Result(1, ok=False, log="k.cu(1): error: identifier is undefined")
    monkeypatch.setattr(executor, "run", lambda *_all: iter([failed]))
    sample = Sample(1.0)
    sample.note(*by("a", 1))
    assert [*sample.differing(TASKS, Setup((), {}, 1, 60.0), nobody)] == [(1, "a")]


def make() -> Executor:
    return ThreadPoolExecutor(1)


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_build_keeps_nothing_of_a_worker_that_errs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_side, "_states", [])
    name = f"{__name__}:make"
    sources = {f"{each}.cu": SAXPY.replace("saxpy", each) for each in ("a", "b")}
    project = make_project(tmp_path, sources, 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=name)
    project = replace(project, config=replace(project.config, recheck=1.0))
    real = with_proof

    def damaged(task: Task, listing: str, result: Result) -> object:
        code = {name: inside for name, _size, inside in read_sections(result.output)}.get(".text.b", b"")
        wrong = result.output.replace(code, bytes(len(code))) if code else result.output
        return real(task, listing, replace(result, output=wrong))

    with monkeypatch.context() as patch:
        patch.setattr(worker_side, "with_proof", damaged)
        with pytest.raises(ToolchainError) as caught:
            pipeline.build(project)
    worker = worker_side.here().name
    assert [problem.what for problem in caught.value.problems] == [
        f"worker {worker} and this machine have compiled b for sm_90 to different code"
    ]
    assert hits(project) == []
    real_run = executor.run

    def late(upcoming: executor.Next, setup: Setup, *more: object) -> Iterator[Result]:
        for result in real_run(upcoming, setup, *more):  # type: ignore[arg-type]
            yield Result(result.id, ok=False, log="fatal: took too long")

    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(executor, "run", late)
        assert pipeline.build(replace(project, warn=said.append))
    assert sorted(said) == [
        f"the result of a worker for {name} for sm_90 was not checked, because this machine could not "
        f"compile {name} for sm_90: took too long"
        " [sample-not-compared]"
        for name in ("a", "b")
    ]
    assert hits(project) == ["a", "b"]
    worker_side.here().close()


def hits(project: Project) -> list[str]:
    with pipeline.open_cache(project) as cache:
        jobs = pipeline.make_plan(project).jobs
        return [job.unit.module.name for job in jobs if job.cached_result(cache) is not None]
