"""Looking for files: a file that cannot be read is an error, a missing file is not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hatch_cubin.errors import SourceError
from hatch_cubin.headers.includes import Resolver
from hatch_cubin.headers.resolve import content_digest
from hatch_cubin.project import disk, source
from hatch_cubin.project.source import ProjectFiles
from hatch_cubin.project.source_roots import ProjectTree
from tests.faults.harness.disk import ANY, Disk, Fault
from tests.helpers import found, write_tree

BROKEN = Fault(ANY, 1, errno.EIO, lasting=True)


def test_a_file_is_there_or_not(tmp_path: Path) -> None:
    write_tree(tmp_path, {"file": "", "folder/file": ""})
    (tmp_path / "loop").symlink_to("loop")
    names = ["file", "folder", "folder/file", "file/below", "none", "loop", "x" * 300, "nul\0"]
    assert [disk.is_file(tmp_path / name, ProjectTree(tmp_path)) for name in names] == [
        True,
        False,
        True,
        *[False] * 5,
    ]


@pytest.mark.linux
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device"])
def test_a_pipe_or_a_device_is_an_error(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "x.h"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    with pytest.raises(SourceError) as caught:
        disk.is_file(path, ProjectTree(tmp_path))
    assert found(caught.value) == [("not-a-regular-file", os.path.relpath(path, tmp_path))]
    assert content_digest(path) == "unreadable"


def test_a_file_that_the_system_cannot_look_at_is_an_error(tmp_path: Path) -> None:
    with Disk(tmp_path, BROKEN), pytest.raises(SourceError) as caught:
        disk.is_file(tmp_path / "inner" / "file.cuh", ProjectTree(tmp_path))
    assert str(caught.value) == "inner/file.cuh: cannot be read: Input/output error"


def test_a_folder_of_sources_that_cannot_be_read_hides_none(tmp_path: Path) -> None:
    write_tree(tmp_path, {"demo/a.cu": "", "demo/inner/b.cu": ""})
    with Disk(tmp_path / "demo" / "inner", BROKEN):
        assert list(source.walk(ProjectTree(tmp_path), "demo")) == ["demo/a.cu"]
        with pytest.raises(SourceError) as caught:
            ProjectFiles(ProjectTree(tmp_path), {"demo": "demo"}).find(["**/*.cu"], [])
    assert found(caught.value) == [("file-not-readable", "demo/inner")]


def computed(root: Path) -> set[str]:
    """Return the closure of a source whose include can be any file."""
    return set(Resolver(ProjectTree(root), ()).resolve("demo/a.cu", "#include CHOSEN\n", (), ()).files)


def test_a_folder_that_a_computed_include_may_mean_hides_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {"demo/a.cu": "", "demo/inner/b.cuh": ""})
    assert computed(tmp_path) == {"project/demo/a.cu", "project/demo/inner/b.cuh"}
    with Disk(tmp_path / "demo" / "inner", BROKEN), pytest.raises(SourceError) as caught:
        computed(tmp_path)
    assert found(caught.value) == [("file-not-readable", "demo/inner")]


def test_a_folder_without_permission_is_ignored_as_by_the_compiler(tmp_path: Path) -> None:
    write_tree(tmp_path, {"demo/a.cu": "", "demo/inner/b.cuh": ""})
    with Disk(tmp_path / "demo" / "inner", Fault(ANY, 1, errno.EACCES, lasting=True)):
        assert computed(tmp_path) == {"project/demo/a.cu"}
