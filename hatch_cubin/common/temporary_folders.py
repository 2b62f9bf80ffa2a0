"""Temporary folders that are removed even if the process that made them is killed.

A process removes a temporary folder when it closes the folder, or when a signal asks the process to end. If a
process was killed, a later process removes the folders of the killed process. Each folder is locked while its
process runs, so an unlocked folder belongs to a process that was killed. On systems that cannot lock folders,
a folder is removed when it is a day old.
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
_OLD_S = 86_400  # seconds: no build takes as long as a day
_ATTEMPTS = 100  # attempts to make a folder: another process may remove the new folder before it is locked
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

_open: set[Folder] = set()


class Folder:
    """A temporary folder. The process that made the folder removes the folder; forked processes do not."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._owner = os.getpid()
        _open.add(self)
        _answer_endings()

    def close(self) -> None:
        """Remove the temporary folder with its content."""
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
    """Make a temporary folder in the system's folder for temporary files, and return it."""
    try:
        return make_in(None)
    except OSError as exc:
        what = f"temporary files cannot be written: {exc.strerror}"
        raise BundleError(problem("no-temporary-folder", what)) from exc


def make_in(place: Path | None) -> Folder:
    """Make a temporary folder in *place* and return it; raise OSError if this fails."""
    for _attempt in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix="hatch-cubin-", suffix=_LOCKED, dir=place))
        if (lock := try_lock(path)) is None:  # another process has locked the new folder to remove it
            continue
        if path.is_dir():
            return Folder(path if lock.real else path.rename(path.with_suffix(_UNLOCKED)), lock)
        lock.close()  # another process has removed the new folder
    raise OSError(errno.ENOENT, "another process removes each new temporary folder")


def sweep(place: Path) -> None:
    """Remove the temporary folders that killed processes have left in *place*."""
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
    return os.geteuid() if hasattr(os, "geteuid") else 0  # on Windows, the st_uid of every file is 0


def _answer_endings() -> None:
    """Install signal handlers that remove the temporary folders before a signal ends the process.

    If the Python program has set a signal handler itself, the program's handler stays in place. A handler
    that C code has set is replaced, because Python cannot notice such a handler.
    """
    with contextlib.suppress(ValueError):  # ValueError: only the main thread may set signal handlers
        for number in _ENDINGS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _end)


def _leave_endings() -> None:
    # Only the main thread can remove the handlers. Handlers that stay do no harm: they only end the process.
    with contextlib.suppress(ValueError):
        for number in _ENDINGS:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    for folder in [*_open]:
        folder.close()
    signal.signal(number, signal.SIG_DFL)
    # The process sends the signal to itself again, so that its parent process sees the usual exit status.
    os.kill(os.getpid(), number)
    # The first process of a container survives signals without a handler, so it has to exit explicitly.
    os._exit(128 + number)


def _disown() -> None:
    """In a forked process, leave the temporary folders to the parent, and remove the signal handlers.

    The handlers are removed, because a Python handler would delay the signal until a long C call (such as a
    compile) ends.
    """
    _open.clear()
    _leave_endings()


with contextlib.suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_disown)
