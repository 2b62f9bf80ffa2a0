"""A Dask cluster of real processes over TCP, each with a folder, a home and a place for files of its own.

Run as a script, it forks a scheduler and workers, as many as lines on standard input ask for, and ends them
with it. To import Dask once for all saves seconds.

Where they are *apart*, each worker is in a network namespace of its own, cabled to the scheduler's. What
builds here reaches the scheduler alone, through a socket that was opened here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

HERE = "127.0.0.1"
_CLONE_NEWNET = 0x40000000


class Cluster:
    """A scheduler, and workers that come and go."""

    def __init__(
        self, folder: Path, *, apart: tuple[str, ...] = (), security: dict[str, str] | None = None
    ) -> None:
        """Start a scheduler; *apart* is what runs a command in a network of its own.

        *security* is what Dask's configuration says of certificates.
        """
        self._folder = folder
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")
        } | (security or {})
        with socket.create_server((HERE, 0)) as door:
            self._process = subprocess.Popen(
                [*apart, sys.executable, __file__, *([str(door.fileno())] if apart else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=folder,
                env=environ,
                pass_fds=[door.fileno()] if apart else [],
            )
            here = f"tcp://{HERE}:{door.getsockname()[1]}"
        self.pids: dict[str, int] = {}  # of the workers that were started, by address
        self.hurt: set[str] = set()  # workers that were sent a signal, or cut off
        self._scheduler = self._ask("scheduler")[0]  # for workers
        self.address = here if apart else self._scheduler

    @property
    def url(self) -> str:
        return self.address.replace("tcp://", "dask://")

    def worker(self, *, threads: int = 1, memory: int = 0, lacks: str = "-") -> str:
        """Start a worker, and return its address once the scheduler knows it.

        It *lacks* packages whose names begin so: of all others it has those of this environment.
        """
        place = self._folder / f"worker{len(self.pids)}"
        place.mkdir()
        address, pid = self._ask(f"worker {self._scheduler} {threads} {memory} {place} {lacks}")
        self.pids[address] = int(pid)
        return address

    @property
    def well(self) -> list[str]:
        """The addresses of workers that nothing was done to."""
        return [each for each in self.pids if each not in self.hurt]

    def at_least(self, count: int) -> list[str]:
        """Start workers until so many are well; return their addresses."""
        while len(self.well) < count:
            self.worker()
        return self.well[:count]

    def compilers(self) -> list[int]:
        """Return the processes that workers have started; one that is stopped can end none."""
        pids = (self.pids[address] for address in self.well)
        tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def signal(self, address: str, number: signal.Signals) -> None:
        """Send a worker a signal."""
        self.hurt.add(address)
        os.kill(self.pids[address], number)

    def cut(self, address: str) -> None:
        """Unplug the cable of a worker that is apart: it goes on, and nobody is told."""
        self.hurt.add(address)
        self._ask(f"cut {self.pids[address]}")

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

    door = int(sys.argv[1]) if len(sys.argv) > 1 else None
    if door is not None:
        _ip("link add hub type bridge", "link set lo up")
        _ip(f"addr add {_host(0)}/16 dev hub", "link set hub up")
    children: list[int] = []
    while words := sys.stdin.readline().split():
        what, *arguments = words
        if what == "cut":
            _ip(f"link set near{arguments[0]} down")
            _say("cut")
            continue
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
                host = HERE if door is None else _host(len(children))
                if door is not None and what == "worker":
                    _move_apart(host)
                asyncio.run(_member(distributed, host, write, what, *arguments))
            finally:
                os._exit(0)
        os.close(write)
        children.append(pid)
        with os.fdopen(read) as said:
            address = said.readline().strip()
        if door is not None and what == "scheduler":
            children.append(_fork_relay(door, address))
        _say(f"{address} {pid}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# --- networks -----------------------------------------------------------------------------------


def _host(number: int) -> str:
    return f"10.0.{number // 200}.{number % 200 + 1}"


def _ip(*commands: str, prefix: tuple[str, ...] = ()) -> None:
    for command in commands:
        subprocess.run([*prefix, "ip", *command.split()], check=True)


def _move_apart(host: str) -> None:
    """Go into a network that has nothing but a cable to that of the parent."""
    near, hub = f"near{os.getpid()}", os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    _ip(f"link add far type veth peer name {near} netns {hub}", "link set lo up")
    _ip(f"addr add {host}/16 dev far", "link set far up")
    _ip(f"link set {near} master hub up", prefix=("nsenter", "--target", str(hub), "--net"))


def _fork_relay(door: int, address: str) -> int:
    """Start what passes on to the scheduler what comes through a socket of another network."""
    if pid := os.fork():
        return pid
    os.close(0)
    try:
        asyncio.run(_relay(door, *address.removeprefix("tcp://").split(":")))
    finally:
        os._exit(0)


async def _relay(door: int, host: str, port: str) -> None:
    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.closing(target), contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()

    async def meet(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.closing(target), contextlib.suppress(OSError):
            back, forth = await asyncio.open_connection(host, int(port))
            await asyncio.gather(copy(source, forth), copy(back, target))

    server = await asyncio.start_server(meet, sock=socket.socket(fileno=door))
    await server.serve_forever()


# --- members ------------------------------------------------------------------------------------


def _scheduler(distributed: Any, host: str) -> Any:
    protocol = "tls" if distributed.Security().tls_ca_file else "tcp"
    return distributed.Scheduler(host=host, port=0, protocol=protocol, dashboard_address=f"{HERE}:0")


def _worker(distributed: Any, host: str, scheduler: str, *facts: str) -> Any:
    threads, memory, place, lacks = facts
    os.chdir(place)
    if lacks != "-":
        sys.path[:] = [_without(lacks, entry, Path(place)) for entry in sys.path]
    os.environ.update(HOME=place, TMPDIR=place, XDG_CACHE_HOME=f"{place}/cache")
    return distributed.Worker(
        scheduler,
        host=host,
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


async def _member(distributed: Any, host: str, tell: int, what: str, *arguments: str) -> None:
    server = (_scheduler if what == "scheduler" else _worker)(distributed, host, *arguments)
    await server
    os.write(tell, f"{server.address}\n".encode())
    os.close(tell)
    await server.finished()


if __name__ == "__main__":
    _serve()
