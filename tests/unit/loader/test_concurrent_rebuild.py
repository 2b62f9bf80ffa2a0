"""While an editable build replaces files, and where two do: manifest and files always match."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import layout
from hatch_cubin.common.file_lock import FileLock, try_lock, wait_for_lock
from tests.helpers import bundle, load_bundle, made

NAMES = ("a", "b", "c")
NOTES = {"_editable.py": b"", "editable.json": b"{}"}


def files(version: bytes, notes: dict[str, bytes] = NOTES) -> dict[str, bytes]:
    return {**bundle(*(made(name, data=name.encode() + version) for name in NAMES)), **notes}


def load(folder: Path, notes: dict[str, bytes] = NOTES) -> Any:
    """Load a bundle whose sources were looked at already."""
    cubins = load_bundle(folder, files(b"1", notes))
    cubins._compared.append(True)
    return cubins


def test_a_reader_with_the_old_manifest_reads_the_new_bundle(tmp_path: Path) -> None:
    cubins = load(tmp_path)
    assert cubins.read("a", cc=(9, 0)) == b"a1"
    layout.write(files(b"2"), tmp_path)
    assert [cubins.read(name, cc=(9, 0)) for name in NAMES] == [b"a2", b"b2", b"c2"]


def test_a_bundle_that_is_not_editable_is_damaged_at_once(tmp_path: Path) -> None:
    cubins = load(tmp_path, {})
    assert cubins.read("a", cc=(9, 0)) == b"a1"
    layout.write(files(b"2", {}), tmp_path)
    with pytest.raises(cubins.CubinDamagedError, match=r"a\.sm_90\.cubin is damaged: its digest is"):
        cubins.read("a", cc=(9, 0))


def test_real_damage_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    cubins = load(tmp_path)
    (tmp_path / "a.sm_90.cubin").write_bytes(b"x")
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("a", cc=(9, 0))
    assert pauses == []


def test_real_damage_is_told_later_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(pauses))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    cubins = load(tmp_path)
    (tmp_path / "a.sm_90.cubin").write_bytes(b"x")
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("a", cc=(9, 0))
    assert set(pauses) == {0.005}


def test_what_nobody_may_read_while_it_is_replaced_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is on Windows, for a moment."""
    cubins, opened = load(tmp_path), list[str]()
    cubins.names()

    really = cubins._opened

    def deny_first(path: str) -> Any:
        opened.append(path)
        if len(opened) == 1:
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(path)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(cubins, "_opened", deny_first)
    assert cubins.read("a", cc=(9, 0)) == b"a1"


@pytest.mark.parametrize(
    ("platform", "number"), [("linux", errno.EMFILE), ("linux", errno.EACCES), ("win32", errno.EMFILE)]
)
def test_other_faults_of_the_system_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, number: int
) -> None:
    """On POSIX a file that is replaced is always somebody's: who may not read it never may."""
    cubins, opened = load(tmp_path), list[str]()
    cubins.names()

    def fail(path: str) -> None:
        opened.append(path)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(cubins, "_opened", fail)
    with pytest.raises(cubins.CubinError, match=f"cannot be read: {os.strerror(number)}; "):
        cubins.read("a", cc=(9, 0))
    assert len(opened) == 1


def test_a_reader_waits_for_the_build_that_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins, new, pauses = load(tmp_path), files(b"2"), list[float]()
    assert cubins.read("a", cc=(9, 0)) == b"a1"
    (tmp_path / "a.sm_90.cubin").write_bytes(b"a2")
    build = wait_for_lock(tmp_path, 0)

    def sleep(pause: float) -> None:
        pauses.append(pause)
        if len(pauses) == 3:
            build.close()
            layout.write(new, tmp_path)

    monkeypatch.setattr("time.sleep", sleep)
    assert cubins.read("a", cc=(9, 0)) == b"a2"
    assert len(pauses) == 3


@pytest.mark.linux
def test_no_build_replaces_what_is_being_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins, tried = load(tmp_path), list[bool]()
    assert cubins.read("a", cc=(9, 0)) == b"a1"
    layout.write(files(b"2"), tmp_path)
    verified = cubins._verified

    def look(entry: Any) -> Any:
        lock = try_lock(tmp_path)
        tried.append(lock is None)
        with lock or FileLock(None):
            return verified(entry)

    monkeypatch.setattr(cubins, "_verified", look)
    assert cubins.read("a", cc=(9, 0)) == b"a2"
    assert tried == [False, True]
    with wait_for_lock(tmp_path, 0) as lock:
        assert lock.real


def test_two_builds_of_different_bundles_leave_one_of_them_whole(tmp_path: Path) -> None:
    cubins, barrier, wrong = load(tmp_path), threading.Barrier(3), []
    done = threading.Event()

    def build(version: bytes) -> None:
        barrier.wait()
        for _ in range(3):
            layout.write(files(version), tmp_path)

    def read() -> None:
        barrier.wait()
        while not done.is_set():
            if (data := cubins.read("b", cc=(9, 0))) not in (b"b1", b"b2"):
                wrong.append(data)

    builds = [threading.Thread(target=build, args=(version,)) for version in (b"1", b"2")]
    reader = threading.Thread(target=read)
    for thread in (*builds, reader):
        thread.start()
    for thread in builds:
        thread.join()
    done.set()
    reader.join()
    assert wrong == []
    held = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert held in (files(b"1"), files(b"2"))
    assert cubins.read("b", cc=(9, 0)) == held["b.sm_90.cubin"]


@pytest.mark.parametrize("gone", ["manifest.json", "a.sm_90.cubin"])
def test_what_another_build_removed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """The other's clean-up falls between this one's writing and its end."""
    wanted, whole = files(b"1"), layout._write_once
    calls: list[bool] = []

    def interfere(files: Any, folder: Path, place: Path) -> bool:
        calls.append(whole(files, folder, place))
        if len(calls) == 1:
            (folder / gone).unlink()
        return calls[-1]

    monkeypatch.setattr(layout, "_write_once", interfere)
    layout.write(wanted, tmp_path)
    assert calls == [True, True, False]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == wanted


def test_a_fight_without_locks_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, rounds = layout._write_once, list[bool]()

    def interfere(files: Any, folder: Path, place: Path) -> bool:
        rounds.append(whole(files, folder, place))
        (folder / "manifest.json").unlink()
        return rounds[-1]

    monkeypatch.setattr(layout, "_write_once", interfere)
    layout.write(files(b"1"), tmp_path)
    assert rounds == [True, True, True]
