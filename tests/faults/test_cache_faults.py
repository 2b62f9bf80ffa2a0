"""A fault of the cache is a miss and one warning; never a wrong byte, never a failed build."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.cache import entries as entries_module
from hatch_cubin.cache.entries import Cache, Compiled
from tests.faults.harness.disk import Disk, Fault

pytest.importorskip("cuda.core")

RESULTS = {
    bytes([number]) * 32: Compiled(b"_Z%d" % number * 20, {"k": f"_Z{number}"}) for number in range(1, 7)
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a cache with six entries."""
    folder = tmp_path / "cache"
    use(folder)
    return folder


def use(folder: Path) -> tuple[int, list[str]]:
    """Do what a build does: take what is there, store what is not; return the misses and the warnings."""
    said: list[str] = []
    misses = 0
    with Cache(folder, 1 << 20, said.append) as cache:
        for key, right in RESULTS.items():
            found = cache.get(key)
            assert found is None or found == right
            if found is None:
                misses += 1
                cache.put(key, right, {})
    return misses, said


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "entries").rglob("*") if path.is_file())


@pytest.mark.parametrize("lost", ["tmp", "SCHEMA_VERSION", "entries"])
def test_a_folder_that_lost_a_part_works(folder: Path, lost: str) -> None:
    path = folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    misses, said = use(folder)
    assert (misses, said) in [(0, []), (len(RESULTS), [])]
    assert use(folder) == (0, [])


def as_a_file(path: Path) -> None:
    path.write_text("not a folder")


def as_a_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere" / "deep")


def as_a_file_for_entries(path: Path) -> None:
    path.mkdir()
    (path / "entries").write_text("not a folder")


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("not a folder")


@pytest.mark.parametrize("put", [as_a_file, as_a_dangling_link, as_a_file_for_entries, below_a_file])
def test_a_folder_that_cannot_be_one_costs_one_warning(tmp_path: Path, put: Callable[[Path], None]) -> None:
    (tmp_path / "parent").mkdir()
    place = tmp_path / "parent" / "cache"
    put(place)
    misses, said = use(place)
    if said:
        assert misses == len(RESULTS)
        assert [line.startswith(f"the cache at {place} cannot be used fully: ") for line in said] == [True]
    else:
        assert use(place) == (0, [])  # it made itself a place


def test_a_folder_that_cannot_be_opened_for_writing_is_read_without_a_word(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_open(monkeypatch)
    assert use(folder) == (0, [])


def test_what_cannot_be_stored_costs_one_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in entries(folder):
        path.unlink()
    refuse_to_open(monkeypatch)
    assert use(folder) == (len(RESULTS), [f"the cache at {folder} cannot be used fully: Permission denied"])


def refuse_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.core import utils

    def refuse(_path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(utils, "FileStreamProgramCache", refuse)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("no sense")])
@pytest.mark.parametrize("broken", ["reading", "writing"])
def test_a_store_that_fails_in_the_middle_costs_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception
) -> None:
    from cuda.core.utils import FileStreamProgramCache

    def fail(*_args: object) -> None:
        raise error

    for path in entries(folder)[:4]:
        path.unlink()
    if broken == "reading":
        monkeypatch.setattr(entries_module, "read_file", fail)
    else:
        monkeypatch.setattr(FileStreamProgramCache, "__setitem__", fail)
    misses, said = use(folder)
    assert misses >= 2
    assert said == [
        f"the cache at {folder} cannot be used fully: {getattr(error, 'strerror', None) or error}"
    ]


def test_a_cap_over_a_folder_that_cannot_be_written_costs_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in entries(folder):
        os.utime(path, (0, 0))
    said: list[str] = []
    with Cache(folder, 1, said.append), Disk(folder, Fault("unlink", 1, errno.EROFS, lasting=True)):
        Cache(folder, 1, said.append).__exit__(None, None, None)
    assert said == [f"the cache at {folder} cannot be used fully: Read-only file system"]
