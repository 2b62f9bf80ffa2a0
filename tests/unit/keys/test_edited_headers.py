"""Headers that change while a source that includes them is compiled are noticed, and most are read once."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.headers.includes import Closure
from hatch_cubin.headers.resolve import content_digest
from hatch_cubin.keys import edited_headers as edits_module
from hatch_cubin.keys.edited_headers import EditedHeaders
from hatch_cubin.keys.jobs import Job, _HeaderFinder, make_jobs
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, make_project

pytestmark = pytest.mark.nvrtc

FILES = {"k.cu": '#include "a.h"\n#if __has_include("none.h")\n#endif\n' + SAXPY, "a.h": "#define A 1\n"}
LONG_AGO_S = 1_000_000_000


@pytest.fixture(scope="module")
def toolkit() -> Toolkit:
    return Toolkit(None)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, FILES, 'archs = ["sm_90"]\n')


@pytest.fixture
def job(project: Project, toolkit: Toolkit) -> Job:
    (job,) = make_jobs(project, read_sources(project), toolkit)
    return job


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is read."""
    read: list[str] = []

    def digest(path: str) -> str:
        read.append(os.path.basename(path))
        return content_digest(path)

    monkeypatch.setattr(edits_module, "content_digest", digest)
    return read


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a minute have passed since anything was written."""
    now = time.time_ns() + 60 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)


@pytest.mark.usefixtures("later")
def test_a_header_that_stays_as_it_is_is_read_once(project: Project, job: Job, reads: list[str]) -> None:
    edits = EditedHeaders(project)
    assert [edits.find(job) for _ in range(3)] == [None] * 3
    assert reads == ["a.h"]


def test_a_header_that_was_written_a_moment_ago_is_read_again(
    project: Project, job: Job, reads: list[str]
) -> None:
    """It may be written again in the same tick of the clock, and look as it did."""
    edits = EditedHeaders(project)
    assert [edits.find(job) for _ in range(3)] == [None] * 3
    assert reads == ["a.h"] * 3


def rewrite(header: Path) -> None:
    header.write_text("#define A 2\n")


def rewrite_with_its_time(header: Path) -> None:
    before = header.stat()
    while header.stat().st_ctime_ns == before.st_ctime_ns:  # until the system's clock has ticked
        rewrite(header)
        os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(header: Path) -> None:
    other = header.with_suffix(".new")
    rewrite(other)
    other.replace(header)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("edit", [rewrite, rewrite_with_its_time, replace, Path.unlink])
def test_an_edit_is_noticed_however_it_is_made(
    project: Project, job: Job, edit: Callable[[Path], object]
) -> None:
    header, edits = project.root / "demo/a.h", EditedHeaders(project)
    os.utime(header, (LONG_AGO_S, LONG_AGO_S))
    assert edits.find(job) is None
    edit(header)
    assert [edits.find(job) for _ in range(2)] == ["demo/a.h"] * 2


@pytest.mark.usefixtures("later")
def test_what_is_as_it_was_again_is_no_edit(project: Project, job: Job) -> None:
    header, edits = project.root / "demo/a.h", EditedHeaders(project)
    rewrite(header)
    assert edits.find(job) == "demo/a.h"
    header.write_text(FILES["a.h"])
    assert edits.find(job) is None


def test_a_header_that_appears_is_an_edit(project: Project, job: Job) -> None:
    edits = EditedHeaders(project)
    assert edits.find(job) is None
    (project.root / "demo/none.h").touch()
    assert edits.find(job) == "demo/none.h"


def test_what_was_missing_at_first_is_remembered_as_missing(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came while the rest of the search path was looked for: what recalls has to look there again."""
    files = {"k.cu": "#include <cuda_fp16.h>\n" + SAXPY}
    project = make_project(tmp_path, files, 'archs = ["sm_90"]\ninclude-dirs = ["."]\n')
    find, first = _HeaderFinder._resolve, list[Closure]()

    def forgetful(*given: Any) -> Closure:
        found = find(*given)
        if len(given) == 3:  # where only the project is looked at
            first.append(found)
            return found
        return dataclasses.replace(found, absent=set())

    monkeypatch.setattr(_HeaderFinder, "_resolve", forgetful)
    (job,) = make_jobs(project, read_sources(project), toolkit)
    assert first[0].absent
    assert job.closure.absent == first[0].absent
