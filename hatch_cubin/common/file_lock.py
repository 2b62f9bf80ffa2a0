"""Locks between the processes of one machine, on folders that are there anyway.

No file is made for a lock, and a process that ends, in whatever way, holds none. Where a folder cannot
be locked (Windows, some network file systems), everyone is let in. So what is done under a lock has to be
right without one too; at worst it is done twice.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own needs Python 3.11


class Lock:
    """Permission to go on; *real* says whether it keeps others out."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def real(self) -> bool:
        """Whether there is a lock at all."""
        return self._descriptor is not None

    def close(self) -> None:
        """Let the next one in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def try_lock(folder: str | Path, *, shared: bool = False) -> Lock | None:
    """Return the folder's lock at once; None where another process holds it.

    Processes that all ask for a *shared* lock can hold it together. Where the folder cannot be locked, the
    lock is not real.
    """
    descriptor = None
    try:
        import fcntl

        # A folder or nothing: to open a pipe in its place would wait for whoever writes into it.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        Lock(descriptor).close()
        return None
    except (ImportError, OSError):
        Lock(descriptor).close()
        return Lock(None)
    return Lock(descriptor)


def wait_for_lock(folder: Path, seconds: float) -> Lock:
    """Wait for the folder's lock and return it; after so many seconds, return one that is not real."""
    deadline = time.monotonic() + seconds
    while (lock := try_lock(folder)) is None:
        if time.monotonic() > deadline:
            return Lock(None)
        time.sleep(0.005)
    return lock
