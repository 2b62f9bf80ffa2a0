"""Warn if a source includes another source, so that the modules of the two sources have the same kernels."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from ..errors import Location, Problem, problem
from ..project.directives import INCLUDE
from ..project.source import Source, without_comments
from .hints.conditions import certain_kernels


def found_in(source: Source, kernels: Collection[str], sources: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each source that *source* includes, if both define the same kernels.

    *kernels* are the names of the kernels in the compiled code of *source*. *sources* maps the path of each
    source to its text.
    """
    text = without_comments(source.text)
    built = {name.partition("<")[0].partition("(")[0] for name in kernels}
    problems = []
    for match in INCLUDE.finditer(text):
        path = posixpath.normpath(posixpath.join(source.folder, match[2]))
        shared = sorted(built & certain_kernels(path, sources.get(path, "")))
        if match[1] == '"' and shared and path != source.path:
            where = Location(source.path, text.count("\n", 0, match.start()) + 1)
            what = f"includes {path}, which is a source too, so two modules have: {', '.join(shared)}"
            hint = f"move the shared code into a header, or list {path} in 'exclude'"
            problems.append(problem("kernel-in-two-modules", what, where, hint))
    return problems
