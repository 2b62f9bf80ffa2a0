"""What a worker keeps: each content once, laid out as a build needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_cubin._digest import file_digest
from hatch_cubin.compiling.cluster.lease import Listing
from hatch_cubin.compiling.cluster.shelf import Shelf
from tests.helpers import write_tree

A, B = b"#define A\n", b"#define B\n"


def listing(**files: bytes) -> Listing:
    named = {f"77/{name}.h": (f"project/{name}.h", file_digest(content)) for name, content in files.items()}
    return Listing.of({77: "77"}, ["77", "77/src"], named)


@pytest.fixture
def shelf(temporary: Path) -> Iterator[Shelf]:
    shelf = Shelf()
    yield shelf
    shelf.close()
    assert not any(temporary.iterdir())


def laid(shelf: Shelf, listing: Listing) -> dict[str, bytes]:
    folder = Path(shelf.folders(listing.digest)[77])
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_files_are_laid_out_once_all_are_there_all_of_one_time(shelf: Shelf) -> None:
    wanted = listing(a=A, b=B, again=A)
    assert sorted(shelf.lacking(wanted, {})) == sorted([file_digest(A), file_digest(B)])
    shelf.add([A])
    assert shelf.lacking(wanted, {}) == [file_digest(B)]
    with pytest.raises(KeyError):
        shelf.folders(wanted.digest)
    shelf.add([B])
    assert shelf.lacking(wanted, {}) == []
    assert laid(shelf, wanted) == {"a.h": A, "b.h": B, "again.h": A}
    folder = Path(shelf.folders(wanted.digest)[77])
    assert (folder / "src").is_dir()
    assert {path.stat().st_mtime for path in folder.glob("*.h")} == {0}


def test_another_build_gets_what_is_the_same_for_nothing(shelf: Shelf) -> None:
    shelf.add([A])
    assert shelf.lacking(listing(a=A), {}) == shelf.lacking(listing(other=A), {}) == []
    assert laid(shelf, listing(other=A)) == {"other.h": A}


def test_headers_that_are_installed_here_count_by_their_content(shelf: Shelf, tmp_path: Path) -> None:
    here = write_tree(tmp_path / "include", {"a.h": A, "b.h": b"of another version"})
    wanted = Listing.of(
        {100: "100"},
        ["100"],
        {f"100/{name}.h": (f"cuda/{name}.h", file_digest(content)) for name, content in (("a", A), ("b", B))},
    )
    folders = {"nvrtc": str(here), "cuda": str(here)}
    assert shelf.lacking(wanted, folders) == [file_digest(B)]
    os.utime(here / "a.h", (5, 5))
    shelf.add([B])
    assert shelf.lacking(wanted, {}) == []
    assert (Path(shelf.folders(wanted.digest)[100]) / "a.h").stat().st_mtime == 0


def test_of_many_builds_only_the_last_ones_files_are_kept(shelf: Shelf, temporary: Path) -> None:
    builds = [listing(a=A, own=str(number).encode()) for number in range(6)]
    shelf.add([A, *(str(number).encode() for number in range(6))])
    for build in builds[:4]:
        assert shelf.lacking(build, {}) == []
    assert shelf.lacking(builds[0], {}) == []  # used again
    assert [shelf.lacking(build, {}) for build in builds[4:]] == [[], [file_digest(b"5")]]
    shelf.add([b"5"])
    assert shelf.lacking(builds[5], {}) == []
    assert laid(shelf, builds[0]) == {"a.h": A, "own.h": b"0"}
    for gone in builds[1:3]:
        with pytest.raises(KeyError):
            shelf.folders(gone.digest)
    assert len([*temporary.glob("*/files/*")]) == 5  # A, and an own one of four
