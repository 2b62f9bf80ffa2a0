"""A fault of the cache is a miss and one warning; never a wrong byte, never a failed build."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hatch_cubin._cache import Cache, Compiled

pytest.importorskip("cuda.core")

RESULTS = {
    bytes([number]) * 32: Compiled(bytes([number]) * 64, {"k": f"_Z{number}"}) for number in range(1, 7)
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


def test_every_flipped_bit_is_a_miss_and_is_healed(folder: Path) -> None:
    paths = entries(folder)
    originals = {path: path.read_bytes() for path in paths}
    assert len(paths) == 12
    for path in (
        min(paths, key=lambda path: path.stat().st_size),
        max(paths, key=lambda path: path.stat().st_size),
    ):
        for bit in range(0, 8 * len(originals[path]), 3):
            damaged = bytearray(originals[path])
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            assert use(folder) == (1, [])
            assert path.read_bytes() == originals[path]
    assert use(folder) == (0, [])


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99], ids=["empty", "half", "all but a byte"])
def test_truncated_files_are_misses_and_are_healed(folder: Path, keep: float) -> None:
    for path in entries(folder):
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])
        assert use(folder) == (1, [])
        assert path.read_bytes() == data


def test_swapped_files_are_misses(folder: Path) -> None:
    paths = entries(folder)
    chance = random.Random(0)  # noqa: S311 - a test wants the same shuffle each time
    for _ in range(20):
        one, other = chance.sample(paths, 2)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        misses, said = use(folder)
        assert (misses in {1, 2}, said) == (True, [])
        assert use(folder) == (0, [])


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


class Broken:
    """File operations that fail below one folder, as they would on a read-only or full one."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, code: int, names: tuple[str, ...], below: Path
    ) -> None:
        self._below = str(below)
        self._error = OSError(code, os.strerror(code))
        for name in names:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if any(self._below in str(arg) for arg in (*args, *options.values())):
                raise self._error
            return real(*args, **options)

        return call


WRITES = ("mkdir", "replace", "rename", "unlink", "utime", "remove", "link")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_folder_that_cannot_be_written_is_still_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    lost = next(path for path in entries(folder) if path.stat().st_size == 64)
    lost.unlink()
    with monkeypatch.context() as patched:
        Broken(patched, code, WRITES, folder)
        misses, said = use(folder)
    assert misses == 1
    assert said == [f"the cache at {folder} cannot be used fully: {os.strerror(code)}"]
    assert use(folder) == (1, [])


def test_a_folder_that_cannot_be_opened_is_read_beside_a_tmp_of_our_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        refuse_to_open(patched, lambda path: path == folder)
        assert use(folder) == (0, [f"the cache at {folder} cannot be used fully: Permission denied"])
    assert use(folder) == (0, [])


def test_where_even_that_fails_everything_is_a_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_open(monkeypatch, lambda _path: True)
    assert use(folder) == (len(RESULTS), [f"the cache at {folder} cannot be used fully: Permission denied"])


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, refused: Callable[[Path], bool]) -> None:
    from cuda.core import utils

    class Refusing(utils.FileStreamProgramCache):  # type: ignore[misc]
        def __init__(self, path: Path) -> None:
            if refused(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            super().__init__(path)

    monkeypatch.setattr(utils, "FileStreamProgramCache", Refusing)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("no sense")])
@pytest.mark.parametrize("method", ["get", "__setitem__"])
def test_a_store_that_fails_in_the_middle_costs_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception
) -> None:
    from cuda.core.utils import FileStreamProgramCache

    def fail(*_args: object) -> Iterator[None]:
        raise error

    for path in entries(folder)[:4]:
        path.unlink()
    monkeypatch.setattr(FileStreamProgramCache, method, fail)
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
    with Cache(folder, 1, said.append), monkeypatch.context() as patched:
        Broken(patched, errno.EROFS, ("unlink",), folder)
        Cache(folder, 1, said.append).__exit__(None, None, None)
    assert said == [f"the cache at {folder} cannot be used fully: Read-only file system"]
