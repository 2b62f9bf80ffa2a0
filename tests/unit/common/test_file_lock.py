"""Locks on folders: one holder, or several who share; none where the system has none."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hatch_cubin.common.file_lock import FileLock, try_lock, wait_for_lock
from tests.helpers import run

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="has no locks on folders"),
    pytest.mark.usefixtures("no_endless_wait"),
]

ALONE = {"shared": False}
SHARED = {"shared": True}


def taken(folder: Path, **how: bool) -> FileLock:
    lock = try_lock(folder, **how)
    assert lock is not None
    assert lock.real
    return lock


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(ALONE, ALONE, False), (ALONE, SHARED, False), (SHARED, ALONE, False), (SHARED, SHARED, True)],
    ids=["alone, alone", "alone, shared", "shared, alone", "shared, shared"],
)
def test_only_those_who_share_hold_it_together(
    tmp_path: Path, first: dict[str, bool], second: dict[str, bool], *, both: bool
) -> None:
    with taken(tmp_path, **first):
        other = try_lock(tmp_path, **second)
        assert (other is not None) == both
        if other is not None:
            other.close()
    taken(tmp_path, **second).close()


def test_a_lock_is_left_once_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    lock = taken(tmp_path)
    assert try_lock(tmp_path) is None
    lock.close()
    lock.close()
    assert not lock.real
    assert (open_descriptors(), os.listdir(tmp_path)) == (before, [])


def test_a_process_that_is_killed_holds_nothing(tmp_path: Path) -> None:
    killed = (
        "import os, pathlib, signal\n"
        "from hatch_cubin.common.file_lock import try_lock\n"
        "lock = try_lock(pathlib.Path())\n"
        "assert lock.real and try_lock(pathlib.Path()) is None\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run(sys.executable, "-c", killed, cwd=tmp_path, check=False).returncode == -9
    taken(tmp_path).close()


def test_where_there_are_no_locks_everyone_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    locks = [try_lock(tmp_path), try_lock(tmp_path), wait_for_lock(tmp_path, 0)]
    assert [lock is not None and lock.real for lock in locks] == [False, False, False]
    for lock in locks:
        assert lock is not None
        lock.close()


def test_a_file_system_without_locks_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(9, "Bad file descriptor")  # as over NFS, for what is open for reading alone

    before = open_descriptors()
    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = try_lock(tmp_path)
    assert lock is not None
    assert (lock.real, open_descriptors()) == (False, before)


def test_a_folder_that_is_not_there_is_not_locked(tmp_path: Path) -> None:
    lock = try_lock(tmp_path / "gone")
    assert lock is not None
    assert not lock.real


def test_waiting_ends_when_the_other_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, pauses = taken(tmp_path), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            held.close()

    monkeypatch.setattr(time, "sleep", sleep)
    with wait_for_lock(tmp_path, 60) as lock:
        assert lock.real
    assert pauses == [0.005] * 3


def test_waiting_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with taken(tmp_path):
        assert not wait_for_lock(tmp_path, 0.01).real


@pytest.mark.parametrize("stands", ["a pipe", "a link to a pipe", "a file"])
def test_what_stands_in_a_folders_place_is_not_waited_for(tmp_path: Path, stands: str) -> None:
    os.mkfifo(tmp_path / "a pipe")
    (tmp_path / "a link to a pipe").symlink_to("a pipe")
    (tmp_path / "a file").write_text("")
    before = open_descriptors()
    for shared in (False, True):
        lock = try_lock(tmp_path / stands, shared=shared)
        assert lock is not None
        assert (lock.real, open_descriptors()) == (False, before)
