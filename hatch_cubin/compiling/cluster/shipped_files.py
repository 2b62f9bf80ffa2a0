"""Collect the files that a build sends to a cluster's workers: all files that the compiles can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...common.digest import file_digest
from ...errors import Location, SourceError, problem
from ...headers.outside_project import names_in
from ...headers.resolve import OWN
from ...keys.jobs import Job
from ..compiler_paths import CompilePaths
from .lease import FileListing

# How many bytes to send at once. Above 10 MB, Dask prints a warning about a "large graph".
_PIECE = 4 << 20


class SourceArchive(NamedTuple):
    """The files to send (*blobs*, by digest), and a listing of where a worker has to put each file."""

    listing: FileListing
    blobs: dict[str, bytes]

    def pieces(self, wanted: Iterable[str]) -> Iterator[list[bytes]]:
        """Yield the contents of the *wanted* files in several lists, each with a few megabytes of content."""
        piece: list[bytes] = []
        for content in wanted:
            piece.append(self.blobs[content])
            if sum(map(len, piece)) >= _PIECE:
                yield piece
                piece = []
        if piece:
            yield piece


def can_be_sent(job: Job) -> bool:
    """Return whether another machine can compile a job.

    A job is compiled on this machine if the name in an `#include` is a macro with an unknown value, because
    the build then does not know which file to send. Linking is not sent to other machines, because linking
    takes less time than sending the inputs.
    """
    return (
        not job.linked
        and not job.closure.guessed
        and not any(name.startswith("/") for name in job.closure.own)
    )


def pack(jobs: Sequence[Job], paths: CompilePaths, folders: Iterable[str]) -> SourceArchive:
    """Collect the files that the compiles of *jobs* can read.

    *folders* are those folders of the project whose files contain `#include` lines.
    """
    closures = [*{id(job.closure): job.closure for job in jobs}.values()]
    layout = paths.layout(sorted(names_in(closure.files for closure in closures)), folders)
    own = {name: content for closure in closures for name, content in closure.own.items()}
    files: dict[str, tuple[str, str]] = {}
    blobs: dict[str, bytes] = {}
    for place, (name, source) in layout.files.items():
        blob = _read(name, source)
        content = file_digest(blob)
        if own.get(name, content) != content:
            what = "was changed after the build began"
            raise SourceError(problem("file-edited-during-build", what, _where(name), "build again"))
        files[place], blobs[content] = (name, content), blob
    return SourceArchive(FileListing.of(layout.places, layout.folders, files), blobs)


def _read(name: str, source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise SourceError(problem("file-not-readable", what, _where(name))) from exc


def _where(name: str) -> Location:
    return Location(name.removeprefix(OWN))
