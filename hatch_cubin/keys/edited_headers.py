"""Notice headers of the project that change while sources that include them are compiled."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..headers.resolve import OWN, content_digest
from ..project import disk
from ..project.project import Project
from .jobs import Job
from .materials import own_files

_State = tuple[int, int, int, int]


class Edits:
    """Compares headers with the digests that keys have; most are read once, and then only looked at."""

    def __init__(self, project: Project) -> None:
        self._tree = project.tree
        self._read: dict[str, tuple[_State, str]] = {}  # what a file was, and its digest then

    def of(self, job: Job) -> str | None:
        """Return a header of the project that has changed since the job's key was made; None if none has."""
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
        now = time.time_ns()  # before all that takes time
        state = _state(file)
        known, content = self._read.get(path, (None, ""))
        if state is not None and state == known:
            return content
        content = content_digest(file)
        if state is not None and max(state[2:]) < now - disk.TIMESTAMP_STEP_NS:
            self._read[path] = state, content
        return content


def _state(file: Path) -> _State | None:
    """Return what changes whenever a file is written, even where its time is set back afterwards."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def header_stamps(project: Project, job: Job) -> list[str]:
    """Return texts that change when one of the project's headers is written, even with the same bytes."""
    return [str(_state(project.tree.disk_path(path))) for path in own_files(job.closure)]
