"""Find kernels that are not compiled because they are in a header that no source includes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from ..errors import Location, Problem, SourceError, problem
from ..headers.resolve import OWN
from ..keys.jobs import Job
from ..project.project import Project
from ..project.scan import join_continued_lines
from ..project.source import read_source, without_comments

_SUFFIXES = frozenset({".cuh", ".h", ".hpp"})
_DIRECTIVE = re.compile(r"^[^\S\n]*#[^\n]*", re.MULTILINE)
_DEFINITION = re.compile(r"(?P<before>[^;{}]*)\b__global__\b(?P<after>[^;{}]*)\{")
_ATTRIBUTE = re.compile(r"__\w+__\s*\([^()]*\)")  # such as __launch_bounds__(256)
_NAME = re.compile(r"[\s\w]*?\b(\w+)\s*\(")


def kernels_in_headers(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem for each header that defines a kernel, but that no source includes.

    Only headers in the folders of sources are examined.

    *jobs* must contain every job of the project, so that the includes of all sources are known.
    """
    every = [*jobs]
    closures = {id(job.closure): job.closure for job in every}.values()
    known = {logical.removeprefix(OWN) for closure in closures for logical in closure.own}
    modules = {job.unit.module for job in every}
    known.update(module.source.path for module in modules)
    folders = sorted({module.source.folder for module in modules})
    headers = (path for folder in folders for path in _headers_in(project, folder) if path not in known)
    return [each for path in headers for each in _uncompiled(project, path)]


def _headers_in(project: Project, folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError):  # a producer may name a folder that does not exist
        for name in sorted(os.listdir(project.tree.disk_path(folder))):
            if PurePosixPath(name).suffix in _SUFFIXES:
                yield str(PurePosixPath(folder, name))


def _uncompiled(project: Project, path: str) -> Iterator[Problem]:
    """Yield a problem about the first kernel of a header."""
    with contextlib.suppress(SourceError):  # no source includes the header, so it need not be readable
        for name, line in [*_kernels(read_source(project.tree, path).text)][:1]:
            what = f"the kernel {name} is not compiled, because no source includes this header"
            as_source = PurePosixPath(path).with_suffix(".cu")
            is_taken = os.path.lexists(project.tree.disk_path(str(as_source)))
            hint = (
                "include the header in a source"
                if is_taken
                else f"rename the header to {as_source}, or include it in a source"
            )
            yield problem("header-not-included", what, Location(path, line), hint)


def _kernels(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names and lines of the kernels that a text seems to define; templates are left out."""
    code = _DIRECTIVE.sub(";", join_continued_lines(without_comments(text)))
    for match in _DEFINITION.finditer(code):
        before = match["before"].replace('extern "C"', "")
        name = _NAME.match(_ATTRIBUTE.sub("", match["after"]))
        if name and '"' not in before and "template" not in before:
            yield name[1], code.count("\n", 0, match.start("after")) + 1
