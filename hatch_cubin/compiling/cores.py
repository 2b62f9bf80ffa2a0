"""How many compiles may run at once: as many as there are cores, or fewer where a container has less.

A container's limits are those of its control groups. A process above the memory limit is not slowed down but
killed, and often everything in the container with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..config.config import Config

_MEMORY_OF_ONE = 512 << 20  # 140 MB is the least that a compile takes, and few take more than this


def count(system: Path = Path("/")) -> int:
    """Return how many compiles may run at once, as the files below *system* say."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    limits = (limit for group in _groups(system) for limit in _limits(group))
    return max(1, min([cores, *limits]))


def of(config: Config) -> int:
    """Return how many compiles a build runs here at once: jobs for others are not more cores here."""
    jobs = config.jobs or count()
    return jobs if config.executor is None else min(jobs, count())


def _groups(system: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, and of those around them."""
    try:
        lines = (system / "proc/self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for controllers, path in (line.split(":", 2)[1:] for line in lines):
        home = system / "sys/fs/cgroup" / controllers  # none are named in version 2 of cgroups
        group = home / path.lstrip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(home))


def _limits(group: Path) -> Iterator[int]:
    """Yield how many compiles a control group has the time and the memory for, where it says so."""
    time = _numbers(group, "cpu.max") or _numbers(group, "cpu.cfs_quota_us", "cpu.cfs_period_us")
    if len(time) == 2 and min(time) > 0:
        quota, period = time
        yield -(-quota // period)
    for memory in _numbers(group, "memory.max") or _numbers(group, "memory.limit_in_bytes"):
        yield memory // _MEMORY_OF_ONE


def _numbers(group: Path, *names: str) -> list[int]:
    """Return the numbers in a group's files; none where a file is absent, or says that there is no limit."""
    try:
        return [int(word) for name in names for word in (group / name).read_text("utf-8").split()]
    except (OSError, ValueError):
        return []
