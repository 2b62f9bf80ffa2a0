"""Warn if a pattern in the project's settings for wheels matches files that the wheel leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from ..errors import Location, problem
from ..project.project import Project


class Pattern(NamedTuple):
    """A pattern for files in the wheel: the name of its setting, its text, its location, and its matches."""

    setting: str
    text: str
    where: Location | None
    matches: Callable[[str], object]


def warn_of_patterns(project: Project, left_out: Sequence[str], patterns: Iterable[Pattern]) -> None:
    """Warn of each pattern that names some of the files which the wheel leaves out.

    There is no warning for a pattern that does not contain at least the beginning of a suffix such as `.cu`:
    for example, `src/**` or `*.*`.
    """
    for setting, pattern, where, matches in patterns:
        begin = re.split(r"[*?\[]", PurePosixPath(pattern).suffix)[0]
        named = [path for path in sorted(left_out) if _has_suffix(path, begin) and matches(path)]
        if named:
            shown = named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"
            what = (
                f"{setting}: {pattern!r} matches {shown}, "
                "but hatch-cubin does not put the sources of kernels into the wheel"
            )
            hint = (
                f"remove the pattern; or, to keep these files in the wheel, write in {project.config.place}: "
                "ship-sources = true"
            )
            project.warn(problem("named-file-left-out", what, where, hint).with_code())


def _has_suffix(path: str, begin: str) -> bool:
    return begin not in {"", "."} and PurePosixPath(path).suffix.startswith(begin)
