"""Write annotations and job summaries for GitHub Actions."""

from __future__ import annotations

import glob
import os

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DEEP = 2  # how many levels of folders below the repository's root may contain a project
_TEXT = {ord("%"): "%25", ord("\r"): "%0D", ord("\n"): "%0A"}
_VALUE = _TEXT | {ord(":"): "%3A", ord(","): "%2C"}


def is_here() -> bool:
    """Return whether this process runs in a job of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotation(kind: str, text: str, place: str | None, line: int | None) -> str:
    """Return the line of output that makes GitHub show *text* at a file and line of the repository."""
    where = "" if place is None else f" file={place.translate(_VALUE)}"
    if where and line is not None:
        where += f",line={line}"
    return f"::{kind}{where}::{text.translate(_TEXT)}\n"


def in_repository(path: str, folder: str | None) -> str:
    """Return the path of a file relative to the repository, or *path* if the repository has no such file.

    This function looks for the file in *folder*, and in the folder in which the user started the build,
    because a build from an sdist runs in a temporary folder outside the repository. If the file is neither in
    *folder* nor in the folder in which the user started the build, the function searches all projects of the
    repository. If exactly one project of the repository contains the file, the function returns the path of
    this project's file.
    """
    found: list[str] = []
    if workspace := os.environ.get("GITHUB_WORKSPACE"):
        bases = filter(None, (folder, os.curdir, os.environ.get("PWD"), workspace))
        places = (os.path.join(base, path) for base in bases)
        # The paths are checked for existence, because *path* may also be a path inside a wheel.
        there = [
            _inside(place, workspace) for place in places if os.path.isabs(path) or os.path.exists(place)
        ]
        found = [place for place in there if place is not None][:1] or [*_projects_with(path, workspace)]
    return found[0] if len(found) == 1 else path.replace(os.sep, "/")


def _inside(path: str, workspace: str) -> str | None:
    """Return *path* relative to *workspace*; None if *path* is not in *workspace*."""
    try:
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(workspace))
    # there is no current folder, the path contains a null byte, or the path is on another drive
    except (OSError, ValueError):
        return None
    return None if inside.startswith(os.pardir) else inside.replace(os.sep, "/")


def _projects_with(path: str, workspace: str) -> Iterator[str]:
    for depth in range(1, _DEEP + 1) if not os.path.isabs(path) else ():
        pattern = os.path.join(glob.escape(workspace), *["*"] * depth, glob.escape(path))
        yield from filter(None, (_inside(found, workspace) for found in sorted(glob.glob(pattern))))


def summarize(lines: Sequence[str]) -> OSError | None:
    """Append lines of Markdown to the job's summary; return the error if the summary cannot be written."""
    if not lines or not is_here() or not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        return None
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(_ended(lines))
    except OSError as exc:
        return exc
    return None


def _ended(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"{line}\n" for line in lines)
    yield "\n"
