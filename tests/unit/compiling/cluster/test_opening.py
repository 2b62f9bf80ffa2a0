"""Where a build compiles: what is wrong with that is said at once, and what others cannot do is done here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import cores, executor
from hatch_cubin.compiling.cluster import identity, worker_side
from hatch_cubin.compiling.cluster.lease import FileListing, Lease, Reply, with_proof
from hatch_cubin.compiling.compiler_paths import CompilePaths
from hatch_cubin.compiling.executor import Next, Result, Setup
from hatch_cubin.errors import ConfigError, SourceError, ToolchainError
from tests.helpers import SAXPY, make_project, refusal, write_tree

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]
NAME = f"{__name__}:make"
made: list[Executor] = []


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setattr(worker_side, "_states", [])
    yield
    worker_side.here().close()
    made.clear()


def make(*_arguments: object) -> Executor:
    made.append(ThreadPoolExecutor(1))
    return made[-1]


def fail() -> Executor:
    raise RuntimeError("no licence")


def leave() -> Executor:
    sys.exit("no queue\nask your administrator")


class Broken(Executor):
    def submit(self, *_args: object, **_kwargs: object) -> Future[Any]:
        raise RuntimeError("cannot schedule new futures")


class Swapping(ThreadPoolExecutor):
    """Compiles for another arch than it is told to, and answers as if it had not."""

    def submit(self, _function: Any, archive: worker_side.PackedArchive, lease: Lease) -> Future[Any]:  # type: ignore[override]
        return super().submit(self._swapped, archive, lease)

    def _swapped(self, archive: worker_side.PackedArchive, lease: Lease) -> Reply:
        others = tuple(
            replace(task, options=tuple(each.replace(b"sm_90", b"sm_100") for each in task.options))
            for task in lease.tasks
        )
        reply = worker_side.compile_with(archive, lease._replace(tasks=others))
        tasks = {task.id: task for task in lease.tasks}
        results = (Result(**values) for values, _proof in reply.results)
        return reply._replace(
            results=tuple(with_proof(tasks[each.id], lease.listing, each) for each in results)
        )


SOURCES = {
    "one.cu": '#include "own.h"\n' + SAXPY,
    "own.h": "#define OWN 1\n",
}


def files(**others: str) -> dict[str, str]:
    return {"one.cu": SOURCES["one.cu"], "own.h": SOURCES["own.h"], **others}


def workers(project: Any) -> dict[str, str | None]:
    """Return who has compiled each unit of a project."""
    results = pipeline.bake(project, pipeline.make_plan(project))
    return {unit.module.name: results.workers.get(unit) for unit in results.done}


def test_an_executor_of_ones_own_gives_the_same_bytes(tmp_path: Path) -> None:
    here = pipeline.build(make_project(tmp_path / "a", files(), 'archs = ["sm_90"]'))
    cache = {"HATCH_CUBIN_CACHE_DIR": str(tmp_path / "cache")}
    project = make_project(tmp_path / "b", files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=NAME, **cache)
    assert workers(project) == {"one": worker_side.here().name}
    assert pipeline.build(project) == here


@pytest.mark.parametrize("arch", ["sm_90", "compute_90"])
def test_a_worker_that_gives_another_archs_code_gets_nothing_into_a_wheel(tmp_path: Path, arch: str) -> None:
    table, name = f'archs = ["{arch}"]', f"{__name__}:Swapping"
    place = worker_side.here().name
    project = make_project(tmp_path / "a", files(), table, HATCH_CUBIN_EXECUTOR=name)
    real = arch.replace("90", "100")
    assert told(project, ToolchainError)[1] == (
        f"worker {name}: {place}: the worker returned a wrong result: "
        f"one for {arch}: the compiler's result is for {real}, not for {arch}"
    )
    right = make_project(tmp_path / "b", files(), table, HATCH_CUBIN_EXECUTOR=f"{name},local")
    assert pipeline.build(right) == pipeline.build(make_project(tmp_path / "c", files(), table))


def test_an_installed_package_can_know_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(*, group: str) -> tuple[EntryPoint, ...]:
        assert group == "hatch_cubin.executors"
        return EntryPoint("other", "os:getpid", group), EntryPoint("mine", NAME, group)

    monkeypatch.setattr("importlib.metadata.entry_points", known)
    wrong = make_project(tmp_path / "w", files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR="ray://head")
    assert told(wrong) == [
        "HATCH_CUBIN_EXECUTOR: no installed package provides ray://",
        "hint: possible values: dask, mine, other, tls, or module:function",
    ]
    right = {"HATCH_CUBIN_EXECUTOR": "mine://anything?at=all"}
    project = make_project(tmp_path, files(), 'archs = ["sm_90"]', **right)
    assert workers(project) == {"one": worker_side.here().name}


def test_where_two_packages_know_one_scheme_neither_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(*, group: str) -> tuple[EntryPoint, ...]:
        return EntryPoint("mine", NAME, group), EntryPoint("mine", "a_stranger:make", group)

    monkeypatch.setattr("importlib.metadata.entry_points", known)
    project = make_project(tmp_path, files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR="mine://x")
    assert told(project) == [
        "HATCH_CUBIN_EXECUTOR: several installed packages provide mine://",
        f"hint: uninstall all of these packages except one: a_stranger:make, {NAME}",
    ]
    assert made == []


def told(project: Any, error: type[Exception] = ConfigError) -> list[str]:
    return [line.strip() for line in str(refusal(error, workers, project)).splitlines()]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "no_such_module:make",
            "no_such_module:make cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            "os:no_such_name",
            "os:no_such_name cannot be imported: AttributeError: module 'os' has no attribute 'no_such_name'",
        ),
        ("only_a_script:main", "only_a_script:main cannot be imported: SystemExit: usage: only_a_script"),
        (f"{__name__}:fail", f"{__name__}:fail raised RuntimeError: no licence"),
        (f"{__name__}:leave", f"{__name__}:leave raised SystemExit: no queue"),
        ("os:getpid", "os:getpid must return a concurrent.futures.Executor, not int"),
    ],
)
def test_what_is_no_executor_is_told(
    tmp_path: Path, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "scripts", {"only_a_script.py": "raise SystemExit('usage: only_a_script')"})
    monkeypatch.syspath_prepend(tmp_path / "scripts")
    project = make_project(tmp_path, files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=name)
    assert told(project) == [f"HATCH_CUBIN_EXECUTOR: {said}"]


def test_where_nobody_can_compile_that_is_an_error_or_done_here(tmp_path: Path) -> None:
    name = f"{__name__}:Broken"
    project = make_project(tmp_path / "a", files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=name)
    assert told(project, ToolchainError) == [
        f"{name} has no worker that can compile for this build",
        f"worker {name}: RuntimeError: cannot schedule new futures",
        (
            "hint: finished results are in the cache; add ',local' to the cluster's name to compile the "
            "rest on this machine"
        ),
    ]
    said: list[str] = []
    project = make_project(tmp_path / "b", files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=f"{name},local")
    object.__setattr__(project, "warn", said.append)
    assert workers(project) == {"one": None}
    assert said[-1] == (
        f"{name} has no worker that can compile for this build, so this machine compiles the rest "
        "[no-usable-worker]"
    )


def test_what_is_done_here_for_a_cluster_takes_no_more_than_the_cores_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[int] = []
    real = executor.run

    def run(upcoming: Next, setup: Setup, *more: Any) -> Iterator[Result]:
        jobs.append(setup.jobs)
        return real(upcoming, setup, *more)

    monkeypatch.setattr(executor, "run", run)
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    sources = files(**{"two.cu": SAXPY, "three.cu": SAXPY})
    table = 'pack = true\narchs = ["sm_80", "sm_90", "compute_90"]'
    environ = {"HATCH_CUBIN_EXECUTOR": f"{__name__}:Broken,local", "HATCH_CUBIN_JOBS": "16"}
    pipeline.build(make_project(tmp_path, sources, table, **environ))
    assert jobs == [2, 2]  # to compile, and to pack


def test_a_worker_that_is_not_as_needed_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "difference", lambda *_both: "NVRTC 13.4.92, but this build has 13.5.37")
    project = make_project(tmp_path, files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=NAME)
    _what, reason, hint = told(project, ToolchainError)
    assert reason == f"worker {NAME}: {worker_side.here().name}: NVRTC 13.4.92, but this build has 13.5.37"
    assert hint.startswith("hint: on each worker: pip install hatch-cubin==")


def test_what_may_read_anything_is_compiled_here(tmp_path: Path) -> None:
    outside = tmp_path / "outside.h"
    outside.write_text("#define OUTSIDE 1\n")
    anything = {
        "absolute": f'#include "{outside}"\n',
        "guessed": "#define TEXT(x) #x\n#define OF(x) TEXT(x)\n#include OF(own.h)\n",
    }
    for name, include in anything.items():
        sources = files(**{f"{name}.cu": include + SAXPY})
        own = {"HATCH_CUBIN_EXECUTOR": NAME, "HATCH_CUBIN_CACHE_DIR": str(tmp_path / f"cache {name}")}
        project = make_project(tmp_path / name, sources, 'archs = ["sm_90"]', **own)
        object.__setattr__(project, "inform", (said := list[str]()).append)
        assert workers(project) == {name: None, "one": worker_side.here().name}
        assert said[0] == (
            "1 of 2 compiles run on this machine, because other machines may not have the included files"
        )


USER = '__device__ int f(int); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'
ADD = "__device__ int f(int a) { return a + 1; }\n"
LINKED = """\
archs = ["sm_90"]

[[tool.hatch.build.hooks.cubin.module]]
name = "both"
sources = ["demo/user.cu", "demo/add.cu"]
mode = "rdc"
"""


def test_what_others_compile_is_linked_here(tmp_path: Path) -> None:
    sources = {"user.cu": USER, "add.cu": ADD}
    here = pipeline.build(make_project(tmp_path / "a", sources, LINKED))
    cache = {"HATCH_CUBIN_CACHE_DIR": str(tmp_path / "cache")}
    project = make_project(tmp_path / "b", sources, LINKED, HATCH_CUBIN_EXECUTOR=NAME, **cache)
    far = worker_side.here().name
    assert workers(project) == {"both": None, "both/demo/add.cu": far, "both/demo/user.cu": far}
    assert len(made) == 1  # of a link alone nobody is asked
    assert pipeline.build(project) == here


def test_a_header_that_is_edited_meanwhile_or_gone_is_told(tmp_path: Path) -> None:
    edits: dict[str, Callable[[Path], object]] = {
        "was changed after the build began": lambda path: path.write_text("#define OWN 2\n"),
        "cannot be read: No such file or directory": Path.unlink,
    }
    for said, edit in edits.items():
        place = tmp_path / said.split()[0]
        project = make_project(place, files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=NAME)
        plan = pipeline.make_plan(project)
        edit(place / "demo/own.h")
        with pytest.raises(SourceError, match=f"demo/own.h: {said}"):
            pipeline.bake(project, plan)


def test_without_names_by_number_nobody_else_can_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompilePaths, "descriptors", {})
    project = make_project(tmp_path, files(), 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=NAME)
    assert told(project, ToolchainError)[0] == "HATCH_CUBIN_EXECUTOR: only builds on Linux can use a cluster"


def test_files_are_given_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from hatch_cubin.compiling.cluster import shipped_files

    monkeypatch.setattr(shipped_files, "_PIECE", 3)
    blobs = {name: name.encode() * 2 for name in "abc"}
    given = shipped_files.SourceArchive(FileListing.of({}, [], {}), blobs)
    assert [*given.pieces("abc")] == [[b"aa", b"bb"], [b"cc"]]
    assert [*given.pieces("")] == []
