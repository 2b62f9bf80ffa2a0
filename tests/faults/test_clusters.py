"""Builds on a real Dask cluster give what builds here give, whatever becomes of the workers."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hatch_cubin import __version__
from hatch_cubin.building import pipeline
from hatch_cubin.common.console import Progress
from hatch_cubin.compiling.cluster import dask
from hatch_cubin.errors import ToolchainError
from hatch_cubin.project.project import Project
from tests.capabilities import network
from tests.dask_cluster import Cluster, ends
from tests.fault_counts import Figures
from tests.helpers import COPY_PTX, SAXPY, SCALE, make_project

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux, pytest.mark.counted]

TABLE = """\
archs = ["sm_90"]
include-dirs = ["demo/include"]
options = { lineinfo = true }

[[tool.hatch.build.hooks.cubin.source]]
path = "demo/many.cu"
variants = { N = [1, 2, 3, 4, 5, 6, 7, 8] }

[[tool.hatch.build.hooks.cubin.source]]
path = "demo/scale.cu"
archs = ["sm_80", "compute_90"]
instantiate = ["scale<float, 4>"]
"""
MANY = """\
#include "near.h"
#include <far.h>
extern "C" __global__ void many(int *x) { *x = NEAR + sizeof(FAR); }
"""
FILES = {
    "many.cu": MANY,
    "near.h": "#define NEAR N\n",
    "include/far.h": "#include <cuda/std/cstdint>\n#define FAR cuda::std::int32_t\n",
    "scale.cu": SCALE,
    "copy.ptx": COPY_PTX,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster each of whose workers is in a network of its own."""
    cluster = Cluster(tmp_path_factory.mktemp("apart"), apart=network())
    yield cluster
    cluster.close()


Make = Callable[..., Project]


@pytest.fixture
def project(tmp_path: Path) -> Make:
    """Return what makes the project, each time in another folder and with an empty cache."""

    def make(**environ: str) -> Project:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        return make_project(
            place / "project", FILES, TABLE, HATCH_CUBIN_CACHE_DIR=str(place / "cache"), **environ
        )

    return make


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what a build here gives."""
    place = tmp_path_factory.mktemp("here")
    cache = str(place / "cache")
    return pipeline.build(make_project(place / "project", FILES, TABLE, HATCH_CUBIN_CACHE_DIR=cache))


class Watched(Progress):
    """Progress that does something when so many units were finished."""

    def __init__(self, after: int, act: Callable[[], object]) -> None:
        super().__init__(0, 0)
        self._left, self._act = after, act

    def finished(self, unit: str) -> None:
        super().finished(unit)
        self._left -= 1
        if not self._left:
            self._act()


def meanwhile(project: Project, after: int, act: Callable[[], object]) -> Project:
    """Return the project with something that happens while it is built."""

    def units(_total: int, _cached: int) -> AbstractContextManager[Progress]:
        return nullcontext(Watched(after, act))

    return replace(project, show_progress=units)


def test_workers_elsewhere_give_the_same_bytes_and_the_report_names_them(
    cluster: Cluster, project: Make, expected: dict[str, bytes], tmp_path: Path
) -> None:
    cluster.at_least(2)
    report = tmp_path / "report.json"
    asked = project(HATCH_CUBIN_EXECUTOR=cluster.url, HATCH_CUBIN_REPORT=str(report))
    assert pipeline.build(asked) == expected
    units = json.loads(report.read_text())["units"]
    assert {unit["worker"] for unit in units} <= {*cluster.pids}  # one may be done before another is ready
    assert all(unit["seconds"] > 0 for unit in units)


def test_half_of_the_workers_are_killed_or_stopped(
    cluster: Cluster, project: Make, expected: dict[str, bytes], figures: Figures, chance: random.Random
) -> None:
    """What they had is compiled by the others, and nobody waits for them."""
    for _ in range(figures.pick(1, 20)):
        workers = cluster.at_least(figures.pick(4, 8))
        doomed = chance.sample(workers, len(workers) // 2)
        numbers = [signal.SIGKILL, signal.SIGSTOP]

        def hurt(doomed: list[str] = doomed, numbers: list[signal.Signals] = numbers) -> None:
            for worker, number in zip(doomed, itertools.cycle(numbers), strict=False):
                cluster.signal(worker, number)

        asked = meanwhile(project(HATCH_CUBIN_EXECUTOR=cluster.url), chance.randint(1, 3), hurt)
        assert pipeline.build(asked) == expected


@pytest.mark.networks
def test_half_of_the_workers_in_networks_of_their_own_are_cut_off_killed_or_stopped(
    apart: Cluster, project: Make, expected: dict[str, bytes], figures: Figures, chance: random.Random
) -> None:
    """Of those that are cut off nobody hears, not even that they are gone."""
    harms: dict[str, Callable[[str], None]] = {
        "cut off": apart.cut,
        "killed": partial(apart.signal, number=signal.SIGKILL),
        "stopped": partial(apart.signal, number=signal.SIGSTOP),
    }
    done: Counter[str] = Counter()
    for _ in range(figures.pick(1, 20)):
        workers = apart.at_least(figures.pick(2, 8))
        _, *others = doomed = chance.sample(workers, len(workers) // 2)
        chosen = ["cut off", *chance.choices([*harms], k=len(others))]

        def hurt(doomed: list[str] = doomed, chosen: list[str] = chosen) -> None:
            for worker, harm in zip(doomed, chosen, strict=True):
                harms[harm](worker)
                done[harm] += 1

        asked = meanwhile(project(HATCH_CUBIN_EXECUTOR=apart.url), chance.randint(1, 3), hurt)
        assert pipeline.build(asked) == expected
    figures.tell(**done)


@pytest.mark.networks
def test_workers_that_are_all_cut_off_leave_what_is_missing_to_this_machine(
    apart: Cluster, project: Make, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "_PATIENCE_S", 1.0)  # with a cluster that has lost its last worker
    apart.at_least(1)
    well, said = apart.well, list[str]()

    def cut() -> None:
        for worker in well:
            apart.cut(worker)

    asked = replace(project(HATCH_CUBIN_EXECUTOR=f"{apart.url},local"), warn=said.append)
    assert pipeline.build(meanwhile(asked, 1, cut)) == expected
    *lost, last = said
    assert (
        set()
        < {*lost}
        <= {f"worker {worker}: the worker has not sent a heartbeat for 10 s" for worker in well}
    )
    assert last.startswith(f"{apart.url} has no worker ")
    assert last.endswith(" [no-usable-worker]")
    assert not any(ends(apart.pids[worker], 0.0) for worker in well)


def test_workers_that_lack_something_are_told_with_what_to_install(
    project: Make, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    cluster = Cluster(tmp_path)
    try:
        lacking = [cluster.worker(lacks=name) for name in ("hatch_cubin", "cuda")]
        with pytest.raises(ToolchainError) as caught:
            pipeline.build(project(HATCH_CUBIN_EXECUTOR=cluster.url))
        (problem,) = caught.value.problems
        assert problem.what == f"{cluster.url} has no worker that can compile for this build"
        assert sorted(problem.details) == sorted(
            [
                (
                    f"worker {lacking[0]}: hatch-cubin is not installed on the worker; "
                    f"this build uses {__version__}"
                ),
                f"worker {lacking[1]}: cannot import cuda.core and cuda.bindings: No module named 'cuda'",
            ]
        )
        assert problem.hint is not None
        assert problem.hint.startswith(f"on each worker: pip install hatch-cubin=={__version__} ")
        cluster.worker()
        said: list[str] = []
        asked = replace(project(HATCH_CUBIN_EXECUTOR=f"{cluster.url},local"), warn=said.append)
        assert pipeline.build(meanwhile(asked, 1, cluster.end_scheduler)) == expected
        what, why = said[-1].splitlines()
        assert what.startswith(f"{cluster.url} has no worker ")
        assert what.endswith(" [no-usable-worker]")
        assert "the scheduler" in why
    finally:
        cluster.close()


def certified(folder: Path, *names: str) -> list[dict[str, str]]:
    """Return what has Dask use certificates, for parties that do not know each other."""
    distributed = pytest.importorskip("distributed")
    found: list[dict[str, str]] = []
    for name in names:
        security = distributed.Security.temporary()
        (certificate := folder / f"{name}.pem").write_text(security.tls_client_cert)
        (key := folder / f"{name}.key").write_text(security.tls_client_key)
        begin = "DASK_DISTRIBUTED__COMM__TLS__"
        roles = {
            f"{begin}{role}__{what}": str(path)
            for role in ("SCHEDULER", "WORKER", "CLIENT")
            for what, path in (("CERT", certificate), ("KEY", key))
        }
        found.append({f"{begin}CA_FILE": str(certificate), **roles})
    return found


def test_a_cluster_with_certificates_serves_who_has_them(
    project: Make, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Dask reads its configuration when it is imported: so each build is a process of its own."""
    right, wrong = certified(tmp_path, "right", "wrong")
    cluster = Cluster(tmp_path, security=right)
    try:
        worker = cluster.worker()

        def bake(made: Project, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "hatch_cubin", "bake", "--executor", cluster.address]
            environ = {**made.environ, **environ}
            return subprocess.run(
                command, cwd=made.root, env=environ, capture_output=True, text=True, check=False
            )

        made = project()
        assert f"compiled by other machines: {worker} " in bake(made, right).stderr
        assert pipeline.build(made) == expected
        told = bake(project(), wrong)
        assert told.returncode == 1
        assert "\n  FatalCommClosedError: TLS certificate does not match." in told.stderr
    finally:
        cluster.close()


LONG = "\n".join(f"__device__ float f{n}(float x) {{ return x * {n}.5f; }}" for n in range(8_000))


def test_after_an_interrupt_no_worker_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    cluster.at_least(2)

    def interrupt() -> None:
        raise KeyboardInterrupt

    sources = {"a.cu": f"{LONG}\n{SAXPY}", "b.cu": SAXPY}
    asked = make_project(tmp_path, sources, 'archs = ["sm_90"]', HATCH_CUBIN_EXECUTOR=cluster.url)
    with pytest.raises(KeyboardInterrupt):
        pipeline.build(meanwhile(asked, 1, interrupt))
    assert all(ends(pid, 5.0) for pid in cluster.compilers())
