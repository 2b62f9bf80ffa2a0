"""Locks between the processes of one machine, on existing folders.

No extra file is needed for a lock, and the system releases the locks of a process when it ends, also if it is
killed. If a folder cannot be locked (Windows, some network file systems), every process may continue. So work
under a lock must be correct without the lock too; at worst it is done twice.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11


class FileLock:
    """Permission to continue. *real* says whether other processes are locked out."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def real(self) -> bool:
        """Whether other processes are locked out."""
        return self._descriptor is not None

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def try_lock(folder: str | Path, *, shared: bool = False) -> FileLock | None:
    """Return the folder's lock without waiting; None if another process holds it.

    Several processes can hold a *shared* lock together. If the folder cannot be locked, the returned lock is
    not real.
    """
    descriptor = None
    try:
        import fcntl

        # Only a folder: opening a pipe in its place would wait for a writer.
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
    """Wait for the folder's lock and return it. After *seconds*, return one that is not real."""
    deadline = time.monotonic() + seconds
    while (lock := try_lock(folder)) is None:
        if time.monotonic() > deadline:
            return FileLock(None)
        time.sleep(0.005)
    return lock
