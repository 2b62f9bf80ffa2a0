"""A Dask cluster of real processes over TCP, each with a folder, a home and a place for files of its own.

Run as a script, it forks a scheduler and workers, as many as lines on standard input ask for, and ends them
with it. To import Dask once for all saves seconds.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

HERE = "127.0.0.1"


class Cluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environ,
        )
        self.pids: dict[str, int] = {}  # of the workers that were started, by address
        self.hurt: set[str] = set()  # workers that were sent a signal
        self.address = self._ask("scheduler")[0]

    @property
    def url(self) -> str:
        return self.address.replace("tcp://", "dask://")

    def worker(self, *, threads: int = 1, memory: int = 0, lacks: str = "-") -> str:
        """Start a worker, and return its address once the scheduler knows it.

        It *lacks* packages whose names begin so: of all others it has those of this environment.
        """
        place = self._folder / f"worker{len(self.pids)}"
        place.mkdir()
        address, pid = self._ask(f"worker {self.address} {threads} {memory} {place} {lacks}")
        self.pids[address] = int(pid)
        return address

    def at_least(self, count: int) -> list[str]:
        """Start workers until there are so many that were never sent a signal; return their addresses."""
        while len(well := [each for each in self.pids if each not in self.hurt]) < count:
            self.worker()
        return well[:count]

    def compilers(self) -> list[int]:
        """Return the processes that workers have started; one that is stopped can end none."""
        well = (pid for address, pid in self.pids.items() if address not in self.hurt)
        tasks = (task for pid in well for task in Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def signal(self, address: str, number: signal.Signals) -> None:
        """Send a worker a signal."""
        self.hurt.add(address)
        os.kill(self.pids[address], number)

    def end_scheduler(self) -> None:
        self._ask("end scheduler")

    def close(self) -> None:
        """End all."""
        self._process.communicate("end\n", timeout=60)

    def _ask(self, line: str) -> list[str]:
        requests, answers = _streams(self._process)
        requests.write(f"{line}\n")
        requests.flush()
        return answers.readline().split()


def ends(pid: int, seconds: float) -> bool:
    """Say whether a process ends within so many seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _streams(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _serve() -> None:
    import distributed

    children: list[int] = []
    while words := sys.stdin.readline().split():
        what, *arguments = words
        if what == "end":
            for pid in children if not arguments else children[:1]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if not arguments:
                return
            _say("ended")
            continue
        read, write = os.pipe()
        if not (pid := os.fork()):
            os.close(read)
            os.close(0)
            try:
                asyncio.run(_member(distributed, write, what, *arguments))
            finally:
                os._exit(0)
        os.close(write)
        children.append(pid)
        with os.fdopen(read) as said:
            _say(f"{said.readline().strip()} {pid}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _scheduler(distributed: Any) -> Any:
    return distributed.Scheduler(host=HERE, port=0, dashboard_address=f"{HERE}:0")


def _worker(distributed: Any, scheduler: str, *facts: str) -> Any:
    threads, memory, place, lacks = facts
    os.chdir(place)
    if lacks != "-":
        sys.path[:] = [_without(lacks, entry, Path(place)) for entry in sys.path]
    os.environ.update(HOME=place, TMPDIR=place, XDG_CACHE_HOME=f"{place}/cache")
    return distributed.Worker(
        scheduler,
        host=HERE,
        nthreads=int(threads),
        memory_limit=int(memory) or None,
        local_directory=place,
        dashboard_address=f"{HERE}:0",
    )


def _without(lacks: str, entry: str, place: Path) -> str:
    """Return a folder that has all that one of `sys.path` has but for some packages."""
    if not os.path.isdir(entry) or not any(name.startswith(lacks) for name in os.listdir(entry)):
        return entry
    folder = place / f"packages{len(os.listdir(place))}"
    folder.mkdir()
    for name in os.listdir(entry):
        if not name.startswith(lacks):
            (folder / name).symlink_to(Path(entry, name))
    return str(folder)


async def _member(distributed: Any, tell: int, what: str, *arguments: str) -> None:
    server = (_scheduler if what == "scheduler" else _worker)(distributed, *arguments)
    await server
    os.write(tell, f"{server.address}\n".encode())
    os.close(tell)
    await server.finished()


if __name__ == "__main__":
    _serve()
