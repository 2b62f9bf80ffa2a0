"""What a worker keeps: each content once, laid out as a build needs it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_cubin.common.digest import file_digest
from hatch_cubin.compiling.cluster import worker_files as shelves
from hatch_cubin.compiling.cluster.lease import FileListing
from hatch_cubin.compiling.cluster.worker_files import WorkerFiles
from tests.helpers import write_tree

A, B = b"#define A\n", b"#define B\n"


def listing(**files: bytes) -> FileListing:
    named = {f"77/{name}.h": (f"project/{name}.h", file_digest(content)) for name, content in files.items()}
    return FileListing.of({77: "77"}, ["77", "77/src"], named)


@pytest.fixture
def files(temporary: Path) -> Iterator[WorkerFiles]:
    files = WorkerFiles()
    yield files
    files.close()
    assert not any(temporary.iterdir())


def laid(files: WorkerFiles, listing: FileListing) -> dict[str, bytes]:
    with files.using(listing.digest) as folders:
        return {path.name: path.read_bytes() for path in Path(folders[77]).iterdir() if path.is_file()}


def test_files_are_laid_out_once_all_are_there_all_of_one_time(files: WorkerFiles) -> None:
    wanted = listing(a=A, b=B, again=A)
    assert sorted(files.missing_files(wanted, {})) == sorted([file_digest(A), file_digest(B)])
    files.add([A])
    assert files.missing_files(wanted, {}) == [file_digest(B)]
    with pytest.raises(KeyError):
        laid(files, wanted)
    files.add([B])
    assert files.missing_files(wanted, {}) == []
    assert laid(files, wanted) == {"a.h": A, "b.h": B, "again.h": A}
    with files.using(wanted.digest) as folders:
        assert Path(folders[77], "src").is_dir()
        assert {path.stat().st_mtime for path in Path(folders[77]).glob("*.h")} == {0}


def test_another_build_gets_what_is_the_same_for_nothing(files: WorkerFiles) -> None:
    files.add([A])
    assert files.missing_files(listing(a=A), {}) == files.missing_files(listing(other=A), {}) == []
    assert laid(files, listing(other=A)) == {"other.h": A}


def test_headers_that_are_installed_here_count_by_their_content(files: WorkerFiles, tmp_path: Path) -> None:
    here = write_tree(tmp_path / "include", {"a.h": A, "b.h": b"of another version"})
    wanted = FileListing.of(
        {100: "100"},
        ["100"],
        {f"100/{name}.h": (f"cuda/{name}.h", file_digest(content)) for name, content in (("a", A), ("b", B))},
    )
    folders = {"nvrtc": str(here), "cuda": str(here)}
    assert files.missing_files(wanted, folders) == [file_digest(B)]
    os.utime(here / "a.h", (5, 5))
    files.add([B])
    assert files.missing_files(wanted, {}) == []
    with files.using(wanted.digest) as laid_out:
        assert Path(laid_out[100], "a.h").stat().st_mtime == 0


def build(number: int) -> FileListing:
    return listing(a=A, own=str(number).encode())


@pytest.fixture
def few(files: WorkerFiles, monkeypatch: pytest.MonkeyPatch) -> WorkerFiles:
    """Return files with the layouts of three builds, which are all that it keeps."""
    monkeypatch.setattr(shelves, "_MOST_LAYOUTS", 3)
    for number in range(3):
        lay(files, number)
    return files


def lay(files: WorkerFiles, number: int) -> None:
    files.add([A, str(number).encode()])
    assert files.missing_files(build(number), {}) == []


def test_of_many_builds_only_the_last_ones_files_are_kept(few: WorkerFiles, temporary: Path) -> None:
    assert few.missing_files(build(0), {}) == []  # asked for again
    assert laid(few, build(1)) == {"a.h": A, "own.h": b"1"}  # compiled with
    lay(few, 3)
    assert laid(few, build(0)) == {"a.h": A, "own.h": b"0"}
    with pytest.raises(KeyError):
        laid(few, build(2))
    assert few.missing_files(build(2), {}) == [file_digest(b"2")]
    assert len([*temporary.glob("*/files/*")]) == 4  # A, and an own one of three


def test_what_a_lease_reads_stays(few: WorkerFiles) -> None:
    with few.using(build(0).digest) as folders:
        for number in range(3, 9):
            lay(few, number)
        assert Path(folders[77], "own.h").read_bytes() == b"0"
    lay(few, 1)
    lay(few, 2)
    assert not Path(folders[77]).exists()


def test_a_new_layout_stays_where_all_others_are_read(few: WorkerFiles) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(3):
            stack.enter_context(few.using(build(number).digest))
        lay(few, 3)
        assert laid(few, build(3)) == {"a.h": A, "own.h": b"3"}


def test_a_layout_that_is_made_again_lies_elsewhere(few: WorkerFiles) -> None:
    """A compiler that waits has the folders of the first one open."""
    with few.using(build(0).digest) as folders:
        first = folders[77]
    for number in (3, 4, 5, 0):
        lay(few, number)
    with few.using(build(0).digest) as folders:
        assert folders[77] != first


def test_what_is_there_is_not_written_again(files: WorkerFiles, temporary: Path) -> None:
    def written() -> list[int]:
        return [path.stat().st_ino for path in temporary.glob("*/files/*")]

    files.add([A])
    first = written()
    files.add([A])
    assert written() == first != []
