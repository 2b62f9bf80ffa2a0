"""Temporary folders that are removed when their process ends, also if it is killed.

They are removed when they are closed, or when a signal asks the process to end. If a process was killed,
another process removes its folders later: each folder is locked while its owner lives. Without locks, its age
decides.
"""

from __future__ import annotations

import contextlib
import errno
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
from .file_lock import FileLock, try_lock

_LOCKED, _UNLOCKED = ".held", ".tmp"
_NAME = re.compile(rf"hatch-cubin-[a-z0-9_]{{8}}({_LOCKED}|{_UNLOCKED})")
_OLD_S = 86_400  # no build takes that long
_ATTEMPTS = 100  # to make a folder, while other processes remove folders that are not locked yet
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

_open: set[Folder] = set()


class Folder:
    """A temporary folder. Its maker closes it; forked processes do not touch it."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._owner = os.getpid()
        _open.add(self)
        _answer_endings()

    def close(self) -> None:
        """Remove the folder with its content."""
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
    """Return a new folder in the system's folder for temporary files."""
    try:
        return make_in(None)
    except OSError as exc:
        what = f"temporary files cannot be written: {exc.strerror}"
        raise BundleError(problem("no-temporary-folder", what)) from exc


def make_in(place: Path | None) -> Folder:
    """Return a new folder in *place*, or raise OSError."""
    for _attempt in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix="hatch-cubin-", suffix=_LOCKED, dir=place))
        if (lock := try_lock(path)) is None:  # another process is removing it already
            continue
        if path.is_dir():
            return Folder(path if lock.real else path.rename(path.with_suffix(_UNLOCKED)), lock)
        lock.close()  # another process was faster
    raise OSError(errno.ENOENT, "each new folder disappears at once")


def sweep(place: Path) -> None:
    """Remove folders that killed processes have left in *place*, without waiting for locks."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            if match := _NAME.fullmatch(name):
                with contextlib.suppress(OSError):
                    _sweep(place / name, locked=match[1] == _LOCKED)


def _sweep(folder: Path, *, locked: bool) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user():
        return
    with try_lock(folder) or FileLock(None) as lock:
        if lock.real if locked else time.time() - status.st_mtime > _OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # st_uid of files on Windows


def _answer_endings() -> None:
    """Clean up before a signal ends the process. A handler that a host program has set stays.

    Only handlers that were set through Python can be seen, not those of a host's C code.
    """
    with contextlib.suppress(ValueError):  # only the main thread may
        for number in _ENDINGS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _end)


def _leave_endings() -> None:
    # In other threads the handlers stay, which is harmless: without folders they only end the process.
    with contextlib.suppress(ValueError):
        for number in _ENDINGS:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    for folder in [*_open]:
        folder.close()
    signal.signal(number, signal.SIG_DFL)
    # A process that waits for this one sees the signal, as if there had been no handler.
    os.kill(os.getpid(), number)
    # The kernel does not end the first process of a container by a signal that it does not handle.
    os._exit(128 + number)


def _disown() -> None:
    """In a forked process, leave the folders to the parent, and restore the signal handlers.

    A handler in Python would only run after a long call in C, such as a compile.
    """
    _open.clear()
    _leave_endings()


with contextlib.suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_disown)
