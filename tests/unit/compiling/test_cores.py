"""How many compiles run at once, where nobody says so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.compiling import cores
from tests.helpers import read_config, write_tree

TWO, ONE_AND_A_HALF = "200000 100000\n", "150000 100000\n"
OLD = "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/docker/1\n"


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("groups", "files", "count"),
    [
        ("0::/\n", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, 8),
        ("0::/\n", {"cpu.max": TWO}, 2),
        ("0::/\n", {"cpu.max": ONE_AND_A_HALF}, 2),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8),
        ("0::/pod/box\n", {"pod/box/cpu.max": "400000 100000\n", "pod/cpu.max": TWO}, 2),
        ("0::/pod/box\n", {"elsewhere/cpu.max": TWO}, 8),
        ("0::/\n", {"memory.max": f"{2 << 30}\n"}, 4),
        ("0::/\n", {"memory.max": "1\n"}, 1),
        (OLD, {"cpu,cpuacct/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 2),
        (OLD, {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 8),
        (OLD, {"memory/docker/1/memory.limit_in_bytes": f"{1 << 30}\n"}, 2),
        (OLD, {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8),
    ],
)
def test_a_container_has_what_its_control_groups_leave_it(
    tmp_path: Path, groups: str, files: dict[str, str], count: int
) -> None:
    write_tree(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    write_tree(tmp_path, {"proc/self/cgroup": groups})
    assert cores.available_cores(tmp_path) == count


def test_without_control_groups_there_are_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores.available_cores(tmp_path) == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores.available_cores(tmp_path) == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.available_cores(tmp_path) == 1


@pytest.mark.parametrize(
    ("jobs", "executor", "here"),
    [(None, None, 8), (16, None, 16), (2, None, 2), (None, "a:b", 8), (16, "a:b", 8), (2, "a:b", 2)],
)
def test_jobs_for_others_are_not_more_cores_here(
    monkeypatch: pytest.MonkeyPatch, jobs: int | None, executor: str | None, here: int
) -> None:
    monkeypatch.setattr(cores, "_groups", lambda _system: [])
    assert cores.worker_count(replace(read_config(), jobs=jobs, executor=executor)) == here
