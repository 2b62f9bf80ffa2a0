"""What is in a cache folder, and what may go: entries with their records, and nothing of anyone else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.housekeeping import Removed, Stats, clear, records, stats, trim
from hatch_cubin.cache.records import Record, entry_path, record_key
from hatch_cubin.cache.signing import Signer, Signing
from hatch_cubin.common.file_lock import try_lock
from tests.helpers import write_tree

pytest.importorskip("cuda.core")

DAY = 86400.0


def key(name: str) -> bytes:
    return name.encode() * 32


def fill(folder: Path, signing: Signing | None = None, /, **sizes: int) -> int:
    """Store entries of some sizes, each used a day after the one before; return the size of a record."""
    with Cache(folder, None, pytest.fail, signing=signing) as cache:
        for name, size in sizes.items():
            cache.put(key(name), Compiled(name.encode() * size, {name: name}), {})
    (record,) = {record_of(folder, name).stat().st_size for name in sizes}
    now = max(path.stat().st_mtime for path in files(folder))
    for age, name in enumerate(reversed(sizes)):
        for path in (entry_of(folder, name), record_of(folder, name)):
            os.utime(path, (now - age * DAY, now - age * DAY))
    return record


def entry_of(folder: Path, name: str) -> Path:
    return Path(entry_path(folder, key(name)))


def record_of(folder: Path, name: str) -> Path:
    return Path(entry_path(folder, record_key(key(name))))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def held(folder: Path) -> str:
    return "".join(sorted(bytes.fromhex(record.key).decode()[0] for record in records(folder)))


def test_entries_stand_where_cuda_core_has_them(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    store = FileStreamProgramCache(tmp_path)
    for each in (key("a"), record_key(key("a"))):
        assert entry_path(tmp_path, each) == str(store._path_for_key(each))


def test_a_folder_is_known_by_its_records(tmp_path: Path) -> None:
    record = fill(tmp_path, a=100, b=200)
    assert stats(tmp_path) == Stats(entries=2, unproven=0, temporaries=0, bytes=300 + 2 * record)
    assert {(each.key, each.size) for each in records(tmp_path)} == {
        (key("a").hex(), 100),
        (key("b").hex(), 200),
    }


def test_what_is_signed_is_looked_after_as_all_else_is(tmp_path: Path) -> None:
    record = fill(tmp_path, Signing(Signer(bytes(32))), a=100, b=200)
    assert stats(tmp_path) == Stats(entries=2, unproven=0, temporaries=0, bytes=300 + 2 * record)
    assert trim(tmp_path, size=200 + record) == Removed(1, 0, 100 + record)
    assert held(tmp_path) == "b"
    assert clear(tmp_path) == Removed(1, 0, 200 + record)


def test_no_folder_has_nothing_in_it(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert stats(gone) == Stats(0, 0, 0, 0)
    assert clear(gone) == trim(gone, size=0, unused_for=0.0) == Removed(0, 0, 0)
    assert not gone.exists()


def without_record(folder: Path) -> None:
    record_of(folder, "a").unlink()


def without_entry(folder: Path) -> None:
    entry_of(folder, "a").unlink()


def cut_entry(folder: Path) -> None:
    entry_of(folder, "a").write_bytes(b"a")


def flipped_record(folder: Path) -> None:
    data = record_of(folder, "a").read_bytes()
    record_of(folder, "a").write_bytes(data[:-2] + b"!\n")


def record_of_another_key(folder: Path) -> None:
    record_of(folder, "a").write_bytes(Record(key("z").hex(), "0" * 64, 100, {"z": "z"}, []).encode())


def record_of_no_key(folder: Path) -> None:
    record_of(folder, "a").write_bytes(Record("no hex", "0" * 64, 100, {"z": "z"}, []).encode())


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (without_record, 1),
        (without_entry, 1),
        (cut_entry, 2),
        (flipped_record, 2),
        (record_of_another_key, 2),
        (record_of_no_key, 2),
    ],
)
def test_what_proves_nothing_is_counted_apart(
    tmp_path: Path, damage: Callable[[Path], None], left: int
) -> None:
    fill(tmp_path, a=100, b=200)
    damage(tmp_path)
    found = stats(tmp_path)
    assert (found.entries, found.unproven) == (1, left)
    assert clear(tmp_path) == Removed(1 + left, 0, found.bytes)
    assert files(tmp_path) == []


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, refused: Callable[[str, int], bool]) -> None:
    real = os.open

    def open_or_refuse(path: str, flags: int) -> int:
        if refused(path, flags):
            raise PermissionError(13, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr(os, "open", open_or_refuse)


def test_a_record_that_cannot_be_read_is_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a=100)
    hidden = str(record_of(tmp_path, "a"))
    refuse_to_open(monkeypatch, lambda path, _flags: path == hidden)
    assert (stats(tmp_path).entries, stats(tmp_path).unproven) == (0, 2)


@pytest.mark.linux
def test_to_be_looked_at_is_not_to_be_used(tmp_path: Path) -> None:
    fill(tmp_path, a=100, b=100)
    before = [path.stat().st_atime_ns for path in files(tmp_path)]
    stats(tmp_path)
    trim(tmp_path, unused_for=100 * DAY)
    assert [path.stat().st_atime_ns for path in files(tmp_path)] == before


@pytest.mark.linux
def test_files_of_another_owner_are_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a=100)
    refuse_to_open(monkeypatch, lambda _path, flags: bool(flags & os.O_NOATIME))
    assert stats(tmp_path).entries == 1


STRANGERS = [
    "notes.txt",
    "entries/notes.txt",
    "entries/ab/notes.txt",
    "entries/ab/" + "0" * 61,
    "entries/ab/" + "g" * 62,
    "entries/ab/" + "A" * 62,
    "entries/abc/" + "0" * 62,
    "tmp/notes.txt",
    "tmp/entry-.txt",
    "entry-01234567",
]


def test_nothing_goes_that_the_store_did_not_make(tmp_path: Path) -> None:
    fill(tmp_path, a=100)
    write_tree(tmp_path, dict.fromkeys(STRANGERS, "x" * 1000))
    for name in STRANGERS:
        os.utime(tmp_path / name, (0, 0))
    assert (clear(tmp_path).entries, trim(tmp_path, size=0, unused_for=0.0)) == (1, Removed(0, 0, 0))
    assert files(tmp_path) == sorted(tmp_path / name for name in STRANGERS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, a=100)
    for path in (entry_of(tmp_path, "b"), tmp_path / "tmp" / "entry-01234567"):
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
    assert stats(tmp_path).entries == clear(tmp_path).entries == 1
    assert entry_of(tmp_path, "b").exists()


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    record = fill(tmp_path, a=100, b=100, c=100, d=100)
    os.utime(record_of(tmp_path, "b"), (2**32, 0))  # read a moment ago, whatever its age
    assert trim(tmp_path, size=2 * (100 + record)) == Removed(2, 0, 2 * (100 + record))
    assert held(tmp_path) == "bd"


def test_a_size_that_is_kept_costs_nothing(tmp_path: Path) -> None:
    record = fill(tmp_path, a=100, b=100)
    assert trim(tmp_path, size=2 * (100 + record)) == Removed(0, 0, 0)
    assert held(tmp_path) == "ab"


@pytest.mark.parametrize("large", range(4))
def test_an_entry_above_the_whole_size_takes_no_room_from_others(tmp_path: Path, large: int) -> None:
    record = fill(tmp_path, **{name: 999 if number == large else 100 for number, name in enumerate("abcd")})
    trim(tmp_path, size=3 * (100 + record))
    assert held(tmp_path) == "abcd"


def test_of_those_above_the_size_one_stays(tmp_path: Path) -> None:
    fill(tmp_path, a=999, b=100, c=998, d=997)
    trim(tmp_path, size=1000)
    assert held(tmp_path) == "bd"


def test_what_was_unused_for_long_goes(tmp_path: Path) -> None:
    record = fill(tmp_path, a=100, b=100, c=100)
    assert trim(tmp_path, unused_for=1.5 * DAY) == Removed(1, 0, 100 + record)
    assert held(tmp_path) == "bc"


def test_what_is_to_be_kept_is_kept_and_takes_room(tmp_path: Path) -> None:
    record = fill(tmp_path, a=100, b=100, c=100)
    trim(tmp_path, size=2 * (100 + record), unused_for=1.5 * DAY, keep={key("a")})
    assert held(tmp_path) == "ac"
    trim(tmp_path, size=0, unused_for=0.0, keep={key("a")})
    assert held(tmp_path) == "a"


def test_what_a_build_used_since_it_was_looked_at_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a=100, b=100)
    real, used = os.unlink, list[str]()

    def unlink(path: str) -> None:
        if not used:  # while b is removed, a build takes a
            used.append(path)
            os.utime(entry_of(tmp_path, "a"))
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    trim(tmp_path, unused_for=-DAY)
    assert len(used) == 1
    assert held(tmp_path) == "a"


def test_what_another_process_removes_first_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = fill(tmp_path, a=100, b=100)
    real, gone = os.unlink, str(entry_of(tmp_path, "a"))

    def unlink(path: str) -> None:
        real(path)
        if path == gone:
            raise FileNotFoundError(path)

    monkeypatch.setattr(os, "unlink", unlink)
    assert clear(tmp_path) == Removed(2, 0, 100 + 2 * record)
    assert files(tmp_path) == []


def test_what_vanishes_while_it_is_listed_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, a=100)
    real = os.stat

    def look_too_late(path: str, **options: bool) -> os.stat_result:
        if path == str(entry_of(tmp_path, "a")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look_too_late)
        assert stats(tmp_path).unproven == 1


# --- temporary files ----------------------------------------------------------------------------


@pytest.fixture
def left(tmp_path: Path) -> dict[str, Path]:
    """Return what killed builds left in a folder: one file lately, one long ago."""
    fill(tmp_path, a=100)
    paths = {age: tmp_path / "tmp" / f"entry-{age:_<8}" for age in ("new", "old")}
    for path in paths.values():
        path.write_bytes(b"half")
    os.utime(paths["old"], (1, 1))
    return paths


def test_what_killed_builds_left_goes(tmp_path: Path, left: dict[str, Path]) -> None:
    assert (stats(tmp_path).temporaries, trim(tmp_path)) == (2, Removed(0, 2, 8))
    assert not any(path.exists() for path in left.values())
    assert held(tmp_path) == "a"


def test_only_what_is_old_goes_while_somebody_writes(tmp_path: Path, left: dict[str, Path]) -> None:
    with try_lock(tmp_path / "tmp", shared=True) or pytest.fail("it is free"):
        assert clear(tmp_path).temporaries == 1
    assert [age for age, path in left.items() if path.exists()] == ["new"]


def test_only_what_is_old_goes_where_nobody_can_say(
    tmp_path: Path, left: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert trim(tmp_path).temporaries == 1
    assert [age for age, path in left.items() if path.exists()] == ["new"]


def test_what_cannot_be_removed_from_there_stays(
    tmp_path: Path, left: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    assert trim(tmp_path) == Removed(0, 0, 0)
