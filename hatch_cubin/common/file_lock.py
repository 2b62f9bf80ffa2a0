"""Locks between the processes of one machine. A process locks an existing folder instead of a lock file.

The system releases the locks of a process when the process ends, even if the process is killed. If a folder
cannot be locked (on Windows and some network file systems), processes continue without a lock. Code that uses
a lock must be correct without the lock too: without locks, two processes may do the same work.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self  # Python's `typing` has this name only since Python 3.11


class FileLock:
    """A lock on a folder, or a placeholder that locks nothing if the folder cannot be locked."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def real(self) -> bool:
        """Whether the folder is really locked, so that other processes have to wait."""
        return self._descriptor is not None

    def close(self) -> None:
        """Release the lock on the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def try_lock(folder: str | Path, *, shared: bool = False) -> FileLock | None:
    """Lock *folder* without waiting, and return the lock; None if another process holds the lock.

    Several processes can hold a *shared* lock at the same time. If *folder* cannot be locked, the returned
    lock is a placeholder (`real` is false).
    """
    descriptor = None
    try:
        import fcntl

        # With O_DIRECTORY, `open` fails if a pipe has replaced the folder, and does not wait for a writer.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        FileLock(descriptor).close()
        return None
    except (ImportError, OSError):
        FileLock(descriptor).close()
        return FileLock(None)
    return FileLock(descriptor)


def wait_for_lock(folder: Path, seconds: float) -> FileLock:
    """Wait for the lock on *folder* and return it.

    After *seconds*, stop waiting and return a placeholder that locks nothing.
    """
    deadline = time.monotonic() + seconds
    while (lock := try_lock(folder)) is None:
        if time.monotonic() > deadline:
            return FileLock(None)
        time.sleep(0.005)
    return lock
