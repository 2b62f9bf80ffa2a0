"""Temporary folders that are gone when their process is, in whatever way it ends.

They go when they are closed, or by a signal that asks the process to end. What a process that was killed has
left, another one sweeps: a folder is locked for as long as its owner lives. Without locks its age has to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path
from types import FrameType

from ..errors import BundleError, problem
from .file_lock import Lock, try_lock

_LOCKED, _UNLOCKED = ".held", ".tmp"
_NAME = re.compile(rf"hatch-cubin-[a-z0-9_]{{8}}({_LOCKED}|{_UNLOCKED})")
_OLD_S = 86_400  # no build takes that long
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

_open: set[Folder] = set()


class Folder:
    """A temporary folder, which is its maker's to close; a process that was forked off leaves it alone."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path = path
        self._lock = lock
        self._owner = os.getpid()
        _open.add(self)
        _answer_endings()

    def close(self) -> None:
        """Remove it with all that is in it."""
        if self._owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()
            _open.discard(self)
            if not _open:
                _leave_endings()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_raised: object) -> None:
        self.close()


def make() -> Folder:
    """Return a new folder where the system wants what is temporary."""
    try:
        return make_in(None)
    except OSError as exc:
        what = f"temporary files cannot be written: {exc.strerror}"
        raise BundleError(problem("no-temporary-folder", what)) from exc


def make_in(place: Path | None) -> Folder:
    """Return a new folder in *place*, or raise OSError."""
    while True:
        path = Path(tempfile.mkdtemp(prefix="hatch-cubin-", suffix=_LOCKED, dir=place))
        if (lock := try_lock(path)) is None:  # another process is sweeping it already
            continue
        if path.is_dir():
            return Folder(path if lock.real else path.rename(path.with_suffix(_UNLOCKED)), lock)
        lock.close()  # that one was faster


def sweep(place: Path) -> None:
    """Remove what processes that were killed have left in *place*; nothing is waited for."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            if match := _NAME.fullmatch(name):
                with contextlib.suppress(OSError):
                    _sweep(place / name, locked=match[1] == _LOCKED)


def _sweep(folder: Path, *, locked: bool) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user():
        return
    with try_lock(folder) or Lock(None) as lock:
        if lock.real if locked else time.time() - status.st_mtime > _OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # as files have it on Windows


def _answer_endings() -> None:
    """Clean up before a signal ends the process; where a host has a handler of its own, that stays.

    Only handlers set through Python can be seen, not those of a host's C code.
    """
    with contextlib.suppress(ValueError):  # only the main thread may
        for number in _ENDINGS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _end)


def _leave_endings() -> None:
    # In a thread the handlers stay, which is harmless: without folders they end the process and no more.
    with contextlib.suppress(ValueError):
        for number in _ENDINGS:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    for folder in [*_open]:
        folder.close()
    signal.signal(number, signal.SIG_DFL)
    # As if there had been nothing to do: who waits for the process sees the signal.
    os.kill(os.getpid(), number)
    # The first process of a container lives on, for the kernel spares it what it does not handle.
    os._exit(128 + number)


def _disown() -> None:
    """Leave the folders to the parent of a process that was forked off, and signals as they were before.

    A handler of Python's would wait for the end of a long call in C, such as a compiler's.
    """
    _open.clear()
    _leave_endings()


with contextlib.suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_disown)
