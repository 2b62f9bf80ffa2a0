"""Find project headers that a user edited while the build was compiling sources that include them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..headers.resolve import OWN, content_digest
from ..project import disk
from ..project.project import Project
from .input_files import own_files
from .jobs import Job

_State = tuple[int, int, int, int]


class EditedHeaders:
    """Compares the project's headers with the digests of these headers in the cache keys.

    A header that has not changed is read only once.
    """

    def __init__(self, project: Project) -> None:
        self._tree = project.tree
        # maps the path of each file to the file's state when it was read, and to the digest of its content
        self._read: dict[str, tuple[_State, str]] = {}

    def find(self, job: Job) -> str | None:
        """Return a project header that was edited or added since the cache key of the job was made.

        The result is None if no project header was edited or added.
        """
        own = job.closure.own
        for path in own_files(job.closure):
            if self._digest(path) != own[OWN + path]:
                return path
        places = (place for places in sorted(job.closure.absent) for place in places)
        found = next(
            (path for path in map(self._tree.disk_path, places) if disk.is_file(path, self._tree)), None
        )
        return None if found is None else self._tree.name_of(found)

    def _digest(self, path: str) -> str:
        file = self._tree.disk_path(path)
        # the time is taken before the file is read, so that later writes have later times
        now = time.time_ns()
        state = _state(file)
        known, content = self._read.get(path, (None, ""))
        if state is not None and state == known:
            return content
        content = content_digest(file)
        if state is not None and max(state[2:]) < now - disk.TIMESTAMP_STEP_NS:
            self._read[path] = state, content
        return content


def _state(file: Path) -> _State | None:
    """Return the inode number, size and times of a file; None if the file cannot be found.

    Each write changes the inode number, the size or a time, even if a tool resets the modification time.
    """
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def header_stamps(project: Project, job: Job) -> list[str]:
    """Return a stamp for each project header of *job*; the stamp changes whenever the header is written.

    The stamp contains the header's inode, size and times, so it changes even if the same bytes are written
    again.
    """
    return [str(_state(project.tree.disk_path(path))) for path in own_files(job.closure)]
