"""Where things are kept between builds."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.common import user_folders
from tests.helpers import COPY_PTX, make_project, run
from tests.special_files import (
    a_file,
    a_folder,
    a_link_to_a_device,
    a_link_to_itself,
    a_link_to_nowhere,
    a_pipe,
    a_socket,
    a_sparse_file,
)

pytestmark = pytest.mark.usefixtures("no_trouble")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user of whom the system knows nothing."""

    def user_cache_dir(*_args: object, **_options: object) -> str:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(platformdirs, "user_cache_dir", user_cache_dir)


def test_things_are_kept_in_the_users_cache_folder() -> None:
    assert user_folders.user_folder() == Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))
    assert user_folders.fallback_warning() is None


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_one_temporary_folder_per_process_and_is_told() -> None:
    folder = user_folders.user_folder()
    assert (folder.is_dir(), user_folders.user_folder()) == (True, folder)
    assert user_folders.fallback_warning() == (
        "this build uses a temporary folder as cache folder, "
        "because this user has no home folder: Could not determine home directory.; "
        "the next build cannot reuse the results of this build"
    )


def test_the_temporary_folder_is_removed_when_the_process_ends(tmp_path: Path) -> None:
    code = "from hatch_cubin.common import user_folders; print(user_folders.use_temporary_folder('why'))"
    folder = Path(run(sys.executable, "-c", code, cwd=tmp_path).stdout.strip())
    assert folder.name.startswith("hatch-cubin-")
    assert not folder.exists()


@pytest.mark.linux
def test_what_killed_builds_left_is_swept_beside_headers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path / "own")
    for place in ("temporary", "own/headers"):
        (tmp_path / place / "hatch-cubin-leftover.held").mkdir(parents=True)
    user_folders.sweep()
    assert [path.name for path in tmp_path.glob("**/hatch-cubin-*")] == []


@pytest.mark.usefixtures("homeless")
def test_without_any_place_there_is_nothing_to_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    user_folders.sweep()


@pytest.mark.nvrtc
@pytest.mark.usefixtures("homeless")
def test_a_build_without_a_home_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    project = make_project(tmp_path, {"copy.ptx": COPY_PTX}, 'archs = ["sm_90"]')
    said: list[str] = []
    files = pipeline.build(replace(project, warn=said.append))
    assert "copy.sm_90.cubin" in files
    assert said == [user_folders.fallback_warning()]


# What is kept there


def kept_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "own" / "notes" / "a.txt"
    user_folders.write_retained(path, b"first", 5)
    user_folders.write_retained(path, b"second", 5)
    with user_folders.open_retained(path) as file:
        assert file.read() == b"second"
    assert kept_in(path.parent) == {"a.txt": b"second"}


def test_what_was_used_last_is_kept(tmp_path: Path) -> None:
    for age, name in enumerate("abcd"):
        user_folders.write_retained(tmp_path / f"{name}.txt", b"", 9)
        os.utime(tmp_path / f"{name}.txt", (2e9 - age, 2e9 - age))
    user_folders.write_retained(tmp_path / "a.txt", b"", 3)
    assert sorted(kept_in(tmp_path)) == ["b.txt", "c.txt", "d.txt"]


def test_what_a_killed_build_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    for name, age in {"a.1": 0, "b.2": 1e9}.items():
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (2e9 - age, 2e9 - age))
    user_folders.write_retained(tmp_path / "c.txt", b"", 3)
    assert sorted(kept_in(tmp_path)) == ["a.1", "c.txt"]


NO_FILES = [a_pipe, a_socket, a_link_to_a_device, a_link_to_itself, a_folder]
NO_FOLDERS = [a_pipe, a_socket]
NOT_OURS = [a_file, a_link_to_a_device, a_link_to_nowhere, a_link_to_itself]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is the current one, so that what is said of it is short."""
    monkeypatch.chdir(tmp_path)
    return Path()


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("put", NO_FILES)
def test_what_is_no_file_is_not_opened_and_is_replaced(short: Path, put: Callable[[Path], None]) -> None:
    path = short / "a.txt"
    put(path)
    with pytest.raises(OSError, match=r"it is a |symbolic links"):
        user_folders.open_retained(path)
    user_folders.write_retained(path, b"right", 3)
    assert kept_in(short) == {"a.txt": b"right"}


@pytest.mark.linux
def test_what_is_larger_than_anything_that_is_kept_is_not_read(short: Path) -> None:
    a_sparse_file(short / "a.txt")
    with pytest.raises(OSError, match="hatch-cubin reads at most"):
        user_folders.open_retained(short / "a.txt")


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("put", NO_FILES[:-1])
def test_what_stands_where_a_file_is_written_first_is_not_waited_for(
    short: Path, put: Callable[[Path], None]
) -> None:
    put(short / f"a.{os.getpid()}")
    user_folders.write_retained(short / "a.txt", b"right", 3)
    assert kept_in(short) == {"a.txt": b"right"}


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
def test_what_cannot_be_kept_leaves_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_paths: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="No space left on device"):
            user_folders.write_retained(tmp_path / "a.txt", b"", 3)
    assert kept_in(tmp_path) == {}


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("put", NO_FOLDERS)
@pytest.mark.parametrize("place", ["own", "own/notes"])
def test_what_can_hold_nothing_makes_way_for_a_folder(
    short: Path, put: Callable[[Path], None], place: str
) -> None:
    (short / place).parent.mkdir(exist_ok=True)
    put(short / place)
    user_folders.write_retained(short / "own/notes/a.txt", b"right", 3)
    assert kept_in(short / "own/notes") == {"a.txt": b"right"}


@pytest.mark.linux
@pytest.mark.parametrize("put", NOT_OURS)
def test_what_is_not_ours_to_remove_makes_no_way(short: Path, put: Callable[[Path], None]) -> None:
    put(short / "own")
    with pytest.raises(NotADirectoryError, match="own is not a folder"):
        user_folders.write_retained(short / "own/notes/a.txt", b"", 3)
    assert os.path.lexists(short / "own")


@pytest.fixture
def at_home(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be a user whose own folder is where nothing is yet."""
    monkeypatch.setattr(user_folders, "own_folder", lambda: short / "own")
    return short / "own"


@pytest.mark.linux
@pytest.mark.parametrize("put", NO_FOLDERS)
def test_what_can_hold_nothing_makes_way_for_the_users_folders(
    at_home: Path, put: Callable[[Path], None]
) -> None:
    put(at_home)
    assert (user_folders.user_folder(), os.path.lexists(at_home)) == (at_home, False)
    at_home.mkdir()
    put(at_home / "cubins")
    assert user_folders.cubins_folder(Path("project"), None) == at_home / "cubins"
    assert not os.path.lexists(at_home / "cubins")
    assert user_folders.fallback_warning() is None


@pytest.mark.linux
@pytest.mark.parametrize("put", NOT_OURS)
def test_a_temporary_folder_does_where_the_users_own_is_none(
    at_home: Path, put: Callable[[Path], None]
) -> None:
    put(at_home)
    assert user_folders.cubins_folder(Path("project"), None).parent.name.startswith("hatch-cubin-")
    assert user_folders.fallback_warning() == (
        "this build uses a temporary folder as cache folder, because own is not a folder; "
        "the next build cannot reuse the results of this build"
    )


@pytest.mark.linux
@pytest.mark.parametrize("put", NOT_OURS)
def test_what_is_not_ours_in_the_place_of_the_cache_stays(at_home: Path, put: Callable[[Path], None]) -> None:
    at_home.mkdir()
    put(at_home / "cubins")
    assert user_folders.cubins_folder(Path("project"), None) == at_home / "cubins"
    assert os.path.lexists(at_home / "cubins")


@pytest.mark.linux
def test_what_is_configured_is_left_as_it_is(short: Path) -> None:
    a_pipe(short / "configured")
    assert user_folders.cubins_folder(short, "configured") == short / "configured"
    assert (short / "configured").is_fifo()


@pytest.mark.linux
def test_a_folder_that_nobody_can_look_at_is_told_by_whoever_uses_it(at_home: Path) -> None:
    at_home.symlink_to("own")
    user_folders.clear_path(at_home / "cubins")


@pytest.mark.linux
def test_what_cannot_be_removed_stays(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_path: object) -> None:
        raise PermissionError(13, "Permission denied")

    a_pipe(short / "own")
    monkeypatch.setattr(os, "unlink", refuse)
    user_folders.clear_path(short / "own")
    assert (short / "own").is_fifo()


@pytest.mark.linux
def test_a_link_to_a_folder_is_one(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "own").symlink_to("large disk")
    user_folders.write_retained(tmp_path / "own/a.txt", b"right", 3)
    assert kept_in(tmp_path / "large disk") == {"a.txt": b"right"}


def test_what_is_forgotten_is_gone_wherever_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path)
    (tmp_path / "large disk").mkdir()
    (tmp_path / "recall").symlink_to("large disk")
    user_folders.write_retained(user_folders.recall_folder() / "a.txt", b"", 3)
    user_folders.remove_recalled_facts()
    assert kept_in(tmp_path / "large disk") == {}
    assert (tmp_path / "recall").is_dir()
