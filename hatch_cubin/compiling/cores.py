"""Decide how many compiles run at once: one per core, or fewer if a container limits CPU time or memory.

The limits of a container are in its control groups (cgroups). A process that exceeds the memory limit is
killed, and often all other processes in the container are killed too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..config.config import Config

# The memory to reserve for one compile, in bytes. A compile needs at least 140 MB, and rarely more than 512
# MB.
_MEMORY_OF_ONE = 512 << 20


def available_cores(system: Path = Path("/")) -> int:
    """Return how many compiles may run at once; *system* is the folder that contains `proc` and `sys`."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    limits = (limit for group in _groups(system) for limit in _limits(group))
    return max(1, min([cores, *limits]))


def worker_count(config: Config) -> int:
    """Return how many compiles a build runs at once on this machine.

    The setting `jobs` limits the compiles on this machine, or on the cluster if the build uses a cluster. If
    the build uses a cluster, this machine runs at most as many compiles as it has cores.
    """
    jobs = config.jobs or available_cores()
    return jobs if config.executor is None else min(jobs, available_cores())


def _groups(system: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, and of their parent groups."""
    try:
        lines = (system / "proc/self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for controllers, path in (line.split(":", 2)[1:] for line in lines):
        # The field `controllers` is empty for version 2 of cgroups.
        home = system / "sys/fs/cgroup" / controllers
        group = home / path.lstrip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(home))


def _limits(group: Path) -> Iterator[int]:
    """Yield how many compiles each limit of a control group allows to run at once."""
    time = _numbers(group, "cpu.max") or _numbers(group, "cpu.cfs_quota_us", "cpu.cfs_period_us")
    if len(time) == 2 and min(time) > 0:
        quota, period = time
        yield -(-quota // period)
    for memory in _numbers(group, "memory.max") or _numbers(group, "memory.limit_in_bytes"):
        yield memory // _MEMORY_OF_ONE


def _numbers(group: Path, *names: str) -> list[int]:
    """Return the numbers in files of a control group; [] if a file is missing or has a word such as 'max'."""
    try:
        return [int(word) for name in names for word in (group / name).read_text("utf-8").split()]
    except (OSError, ValueError):
        return []
