"""Report each file outside the tests' own folders that this process opens, and each host that it calls.

The process that runs the tests makes a `Guard`. A Python that a test starts finds this file on PYTHONPATH as
its `sitecustomize`, and makes one too. A guard prevents nothing. It writes a line for each access to a file,
and the test fails when it ends. Thousands of processes import this file, so it imports little.

An audit hook sees what Python opens. It does not see whether somebody asks if a file exists (`os.stat`), nor
what a library in C or another program opens. So it also looks at the home folder that each new process gets.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # to import typing takes as long as all the rest
    from collections.abc import Iterable
    from typing import Any

VARIABLE = (
    "TESTS_GUARD"  # the file for the reports, folders to read and write, an empty line, folders to read
)
LOCAL = ("127.", "::1", "localhost", "0.0.0.0", "::ffff:127.")  # noqa: S104 - nothing is bound to it
# These ask the package index. The tests do not: they run these, each in a process of its own.
INSTALLERS = ("pip", "virtualenv")

# Folders of the machine that belong to no user.
SYSTEM = (
    *(
        "/bin",
        "/etc",
        "/gnu",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/nix",
        "/opt",
        "/run",
        "/sbin",
        "/snap",
    ),
    *("/usr", "/var/lib", "/Library", "/System"),
)
DEVICES = ("/dev", "/proc", "/sys")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READS = ("os.listdir", "os.scandir")
# The positions of paths among the arguments of an event.
_CHANGES = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "sqlite3.connect": (0,),
}
_CALLS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_STARTS = ("subprocess.Popen", "os.posix_spawn", "os.exec")

# Tests replace some of these to see what happens.
_open, _write, _close, _getcwd = os.open, os.write, os.close, os.getcwd
_normpath, _lexists, _fspath, _fsdecode = os.path.normpath, os.path.lexists, os.fspath, os.fsdecode


class Guard:
    """Decides by their paths which files belong to the tests."""

    def __init__(
        self, report: str, own: Iterable[str], readable: Iterable[str], network: str | None = None
    ) -> None:
        self._report = report
        self._network = _network() if network is None else network
        self._told = [*own], [*readable]
        prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
        python = prefixes | {os.path.realpath(prefix) for prefix in prefixes}
        self._own = _folders([*self._told[0], *DEVICES, *python])
        self._readable = self._own + _folders([*self._told[1], *SYSTEM])

    def install(self) -> None:
        """Report from now on what happens in this process."""
        sys.addaudithook(self._hear)

    def environ(self) -> dict[str, str]:
        """Return the variables by which other Pythons get the same guard."""
        own, readable = self._told
        told = "\n".join([self._report, self._network, *own, "", *readable])
        return {VARIABLE: told, "PYTHONPATH": os.path.dirname(__file__)}

    def seen(self) -> list[str]:
        """Return what was reported since the last call, each line once."""
        try:
            with open(self._report, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        os.unlink(self._report)
        return [*dict.fromkeys(lines)]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at one event. This must not raise: the event would not take place."""
        try:
            if event == "open":
                path, _mode, flags = arguments
                self._see(path, self._own if flags & _WRITES else self._readable, event)
            elif event in _CHANGES:
                for position in _CHANGES[event]:
                    self._see(arguments[position], self._own, event)
            elif event in _READS:
                self._see(arguments[0], self._readable, event)
            elif event in _CALLS:
                self._see_call(event, *arguments[:2])
            elif event in _STARTS:
                self._see_start(event, arguments[0], arguments[-1])
        except Exception as exc:  # noqa: BLE001
            self._tell(f"{event}{arguments!r}: the guard fails: {exc!r}")

    def _see(self, place: Any, allowed: tuple[str, ...], event: str) -> None:
        if place is None or isinstance(place, int):
            return
        path: str = _fsdecode(_fspath(place))
        if path.startswith(allowed) and "/.." not in path:
            return
        if not path.startswith("/"):
            try:
                path = f"{_getcwd()}/{path}"
            except OSError:  # the folder is gone, and has no files any more
                return
        path = _normpath(path)
        top = "/" + path.split("/")[1]
        if top != "/" and not f"{path}/".startswith(allowed) and _lexists(top):  # or the path is invented
            self._tell(f"{event} {path}")

    def _see_call(self, event: str, socket: Any, address: Any) -> None:
        if (
            socket.family not in (2, 10, 30) or not address
        ):  # a name in a file system, or whom it is connected to
            return
        if socket.type & 0xF == 2 and event == "socket.connect":  # UDP, which sends nothing then
            return
        host = str(address[0]) or "localhost"
        if host.startswith(LOCAL) or any(name in sys.modules for name in INSTALLERS):
            return
        if _network() == self._network:  # a test may make networks of its own
            self._tell(f"{event} {host}")

    def _see_start(self, event: str, program: Any, environ: Any) -> None:
        home = (os.environ if environ is None else environ).get("HOME")
        if home is not None:
            self._see(home, self._own, f"{event} {program} with the home")

    def _tell(self, what: str) -> None:
        command = " ".join(map(repr, getattr(sys, "orig_argv", [])))[:300]
        line = f"{what}, in {command}".replace("\n", " ")
        file = _open(self._report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        _write(file, f"{line}\n".encode("utf-8", "backslashreplace"))
        _close(file)


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    """Return folders so that the path of a file inside begins with one of them."""
    return tuple({f"{path.rstrip('/')}/" for path in paths})


def _network() -> str:
    """Return the name of the network that this process is in; an empty one if the system has none."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def _install() -> None:
    report, network, *folders = os.environ[VARIABLE].split("\n")
    middle = folders.index("")
    Guard(report, folders[:middle], folders[middle + 1 :], network).install()


if __name__ == "sitecustomize" and VARIABLE in os.environ:
    _install()
