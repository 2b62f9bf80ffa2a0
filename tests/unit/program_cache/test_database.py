"""The file of a program cache: its entries, its size, damage, other processes, forks."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hatch_cubin.program_cache import database, statements, usable_paths
from hatch_cubin.program_cache.database import Database
from tests import special_files
from tests.helpers import run_threads

pytestmark = [pytest.mark.usefixtures("no_endless_wait"), pytest.mark.counted]


class Opener:
    """Opens caches of one file, and collects their warnings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.databases: list[Database] = []

    def __call__(self, max_size: int | None = None) -> Database:
        self.databases.append(Database(str(self.path), max_size, self._add_warning))
        return self.databases[-1]

    def _add_warning(self, what: str) -> None:
        self.warnings.append(what.removeprefix(f"the program cache {self.path} "))

    def sql(self, *statement: object) -> None:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(*statement)  # type: ignore[arg-type]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "folder" / "cache")
    yield opener
    for each in opener.databases:
        each.close()


def files(opened: Opener) -> list[str]:
    return sorted(os.listdir(opened.path.parent))


def stored_keys(opened: Opener) -> list[str]:
    """Return the keys in the file, without counting that as a use."""
    with contextlib.closing(sqlite3.connect(opened.path)) as connection:
        return [key.decode() for (key,) in connection.execute("SELECT key FROM entries ORDER BY key")]


# One file


def test_only_the_owner_can_read_the_file_even_with_umask_0(opened: Opener) -> None:
    before = os.umask(0)
    try:
        opened().write(b"k", b"code")
        modes = {name: (opened.path.parent / name).stat().st_mode & 0o777 for name in files(opened)}
    finally:
        os.umask(before)
    assert modes == {"cache": 0o600, "cache-shm": 0o600, "cache-wal": 0o600}


def test_a_closed_cache_is_one_file_that_can_be_copied(opened: Opener, tmp_path: Path) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    cache.close()
    assert files(opened) == ["cache"]
    copy = Opener(tmp_path / "copy")
    shutil.copyfile(opened.path, copy.path)
    assert copy().read(b"k") == b"code"
    copy.databases[0].close()


def test_closing_moves_everything_into_the_file_even_if_another_connection_is_open(
    opened: Opener, tmp_path: Path
) -> None:
    other, cache = opened(), opened()
    cache.write(b"k", b"code")
    cache.close()
    assert opened.path.with_name("cache-wal").stat().st_size == 0
    copy = Opener(tmp_path / "copy")
    shutil.copyfile(opened.path, copy.path)
    assert (copy().read(b"k"), other.read(b"k")) == (b"code", b"code")
    copy.databases[0].close()


def test_a_closed_cache_opens_again_when_it_is_used(opened: Opener) -> None:
    cache = opened()
    cache.close()
    cache.close()
    cache.write(b"k", b"code")
    assert (cache.read(b"k"), opened.warnings) == (b"code", [])


def test_a_file_name_may_have_characters_that_are_special_in_uris(tmp_path: Path) -> None:
    name = "a ?mode=memory #% ä\udcff.db"
    opened = Opener(tmp_path / name)
    opened().write(b"k", b"code")
    opened.databases[0].close()
    assert os.listdir(tmp_path) == [name]


def test_removing_entries_shrinks_the_file(opened: Opener) -> None:
    cache = opened()
    cache.close()
    empty = opened.path.stat().st_size
    for key in (b"a", b"b"):
        cache.write(key, bytes(1 << 20))
    cache.clear()
    cache.close()
    assert (opened.path.stat().st_size, stored_keys(opened)) == (empty, [])


def test_max_size_limits_the_file(opened: Opener) -> None:
    cache = opened(1 << 20)
    for number in range(64):
        cache.write(b"%d" % number, bytes(1 << 16))
    cache.close()
    assert cache.count() == 16
    assert opened.path.stat().st_size < 1.2 * (1 << 20)


@pytest.mark.parametrize(
    ("limit", "said"), [(4, ["cannot store an entry of 5 bytes, which is too large for SQLite"]), (5, [])]
)
def test_an_entry_that_is_too_large_for_sqlite_is_not_stored(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, limit: int, said: list[str]
) -> None:
    cache = opened(1000)
    cache.write(b"k", b"old")
    cache.write(b"other", b"code")
    monkeypatch.setattr(statements, "MAX_ENTRY_SIZE", limit)
    cache.write(b"k", b"large")
    assert (cache.read(b"k"), cache.read(b"other")) == (None if said else b"large", b"code")
    assert opened.warnings == said


def test_an_entry_larger_than_max_size_evicts_no_other_entries(opened: Opener) -> None:
    cache = opened(10)
    cache.write(b"k", b"code")
    cache.write(b"large", bytes(11))
    assert (cache.read(b"k"), cache.read(b"large"), opened.warnings) == (b"code", None, [])


# Uses by reading


def test_an_entry_that_one_process_read_is_not_evicted_by_another(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_SAVE_AFTER_READS", 2)
    reader, writer = opened(), opened(30)
    for key in (b"a", b"b", b"c"):
        writer.write(key, bytes(10))
    reader.read(b"b")
    reader.read(b"a")
    writer.write(b"d", bytes(10))
    assert stored_keys(opened) == ["a", "b", "d"]


def test_the_last_of_several_reads_counts(opened: Opener) -> None:
    cache = opened(30)
    for key in (b"a", b"b", b"c"):
        cache.write(key, bytes(10))
    for key in (b"a", b"b", b"a"):
        cache.read(key)
    for key in (b"d", b"e"):
        cache.write(key, bytes(10))
    assert stored_keys(opened) == ["a", "d", "e"]


def test_a_single_read_is_saved_after_a_moment(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SAVE_AFTER_S", 0)
    reader, writer = opened(), opened(20)
    writer.write(b"a", bytes(10))
    writer.write(b"b", bytes(10))
    reader.read(b"a")
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    writer.write(b"c", bytes(10))
    assert stored_keys(opened) == ["a", "c"]


def test_closing_saves_what_was_read(opened: Opener) -> None:
    reader, writer = opened(), opened(20)
    writer.write(b"a", bytes(10))
    writer.write(b"b", bytes(10))
    reader.read(b"a")
    reader.close()
    writer.write(b"c", bytes(10))
    assert stored_keys(opened) == ["a", "c"]


def test_reads_are_saved_with_the_next_write_if_no_timer_can_start(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", refuse)
    cache = opened(20)
    cache.write(b"a", bytes(10))
    cache.write(b"b", bytes(10))
    assert cache.read(b"a") == bytes(10)
    cache.write(b"c", bytes(10))
    assert (stored_keys(opened), opened.warnings) == (["a", "c"], [])


def test_the_timer_does_not_open_a_closed_file(opened: Opener) -> None:
    cache = opened()
    cache.close()
    cache._save_when_due()
    assert files(opened) == ["cache"]


def test_an_entry_is_returned_even_if_its_use_cannot_be_saved(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    cache = opened()
    cache.write(b"k", b"code")
    monkeypatch.setattr(database, "_SAVE_AFTER_READS", 1)
    monkeypatch.setattr(statements, "count_uses", refuse)
    assert [cache.read(b"k"), cache.read(b"k"), opened.warnings] == [b"code", b"code", []]


# While another process writes


@pytest.fixture
def busy(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Write an entry, then hold the file's write lock for longer than a cache waits."""
    monkeypatch.setattr(statements, "_BUSY_TIMEOUT_S", 0.01)
    opened().write(b"k", b"code")
    with contextlib.closing(sqlite3.connect(opened.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_entries_can_be_read_while_another_process_writes(opened: Opener, busy: sqlite3.Connection) -> None:
    assert (opened().read(b"k"), opened.warnings) == (b"code", [])


@pytest.mark.parametrize(
    ("change", "consequence"),
    [
        (lambda cache: cache.write(b"new", b"code"), "an entry was not stored"),
        (lambda cache: cache.remove(b"k"), "nothing was removed"),
        (lambda cache: cache.clear(), "nothing was removed"),
    ],
)
def test_a_change_that_waited_too_long_is_dropped_with_a_warning(
    opened: Opener, busy: sqlite3.Connection, change: Callable[[Database], object], consequence: str
) -> None:
    cache = opened()
    change(cache)
    busy.execute("ROLLBACK")
    assert opened.warnings == [f"cannot be used fully: database is locked; {consequence}"]
    assert (stored_keys(opened), cache.read(b"k")) == (["k"], b"code")


def test_uses_that_cannot_be_saved_now_are_saved_later(
    opened: Opener, busy: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_SAVE_AFTER_READS", 1)
    busy.execute("INSERT INTO entries SELECT 9, x'00', digest, size, used + 1 FROM entries")
    cache = opened()
    assert cache.read(b"k") == b"code"
    busy.execute("COMMIT")
    cache.write(b"new", b"code")
    keys = busy.execute("SELECT key FROM entries ORDER BY used").fetchall()
    assert keys == [(b"\0",), (b"k",), (b"new",)]


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE contents SET data = x'00'",
        "UPDATE contents SET data = x''",
        "UPDATE contents SET data = 'text'",
        "UPDATE contents SET data = 7",
        "UPDATE contents SET id = 7",
        "UPDATE entries SET digest = x'00'",
        "UPDATE entries SET digest = 'text'",
        "UPDATE entries SET size = 5",
        "UPDATE entries SET size = 'much'",
        "UPDATE entries SET key = x'78'",  # of another entry
    ],
)
def test_a_damaged_entry_is_a_miss_and_is_removed(opened: Opener, damage: str) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    cache.write(b"good", b"code")
    opened.sql(f"{damage} WHERE id = 1")
    asked = b"x" if "key" in damage else b"k"
    assert (cache.read(asked), cache.read(asked), cache.read(b"good")) == (None, None, b"code")
    assert opened.warnings == ["has a damaged entry, which counts as a cache miss"]
    assert stored_keys(opened) == ["good"]
    cache.write(asked, b"code")
    assert cache.read(asked) == b"code"


@pytest.mark.parametrize(
    "size", ["9223372036854775807", "-9223372036854775807", "'much'", "x'00'", "1.5e300"]
)
def test_a_damaged_size_does_not_stop_eviction(opened: Opener, size: str) -> None:
    cache = opened(100)
    cache.write(b"a", bytes(10))
    opened.sql(f"UPDATE entries SET size = {size}")  # noqa: S608 - a constant
    for number in range(30):
        cache.write(b"%d" % number, bytes(10))
    assert (cache.read(b"29"), opened.warnings) == (bytes(10), [])
    assert cache.count() <= 11


@pytest.mark.parametrize("used", ["9223372036854775807", "'late'", "x'00'", "-1"])
def test_a_damaged_use_number_does_not_stop_eviction(opened: Opener, used: str) -> None:
    cache = opened(100)
    cache.write(b"a", bytes(10))
    opened.sql(f"UPDATE entries SET used = {used}")  # noqa: S608 - a constant
    for number in range(30):
        cache.write(b"%d" % number, bytes(10))
        cache.read(b"a")
    assert (cache.count(), opened.warnings) == (10, [])


def overwrite_with_nonsense(opened: Opener, at: int = 4096) -> None:
    """Overwrite the file from offset *at* to its end."""
    size = opened.path.stat().st_size
    with opened.path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * (size - at))


def test_a_file_with_more_damage_than_single_entries_is_set_aside(opened: Opener) -> None:
    cache = opened()
    for number in range(99):
        cache.write(b"%d" % number, bytes(1000))
    cache.close()
    overwrite_with_nonsense(opened)
    spoiled = opened.path.read_bytes()
    assert cache.read(b"7") is None
    assert opened.warnings == ["was renamed to cache.aside-1: the file is damaged"]
    assert (opened.path.parent / "cache.aside-1").read_bytes() == spoiled
    cache.write(b"7", b"code")
    assert cache.read(b"7") == b"code"


HEADER = {
    "a format that no SQLite knows": (47, 0xFF),
    "a format that SQLite only reads": (18, 0xFF),
    "a format that SQLite neither reads nor writes": (19, 0xFF),
    "another journal, for those who write": (18, 1),
    "another journal, for those who read": (19, 1),
    "a page size that is none": (16, 0xFF),
    "another encoding of texts": (59, 2),
}


@pytest.mark.parametrize(("at", "value"), HEADER.values(), ids=HEADER)
def test_a_file_with_a_damaged_header_can_be_written_again(opened: Opener, at: int, value: int) -> None:
    cache = opened()
    cache.write(b"7", b"code")
    cache.close()
    data = bytearray(opened.path.read_bytes())
    data[at] = value
    opened.path.write_bytes(data)
    cache.write(b"k", b"code")
    assert (cache.read(b"k"), statements.is_open(str(opened.path))) == (b"code", True)


def test_a_write_into_a_damaged_file_goes_into_its_replacement(opened: Opener) -> None:
    cache = opened()
    for number in range(99):
        cache.write(b"%d" % number, bytes(1000))
    cache.close()
    overwrite_with_nonsense(opened)
    cache.write(b"k", b"code")
    assert (cache.read(b"k"), stored_keys(opened)) == (b"code", ["k"])
    assert opened.warnings == ["was renamed to cache.aside-1: the file is damaged"]


def test_a_damaged_file_is_not_set_aside_while_another_process_uses_it(opened: Opener) -> None:
    cache, other = opened(), opened()
    for number in range(99):
        cache.write(b"%d" % number, bytes(1000))
    assert other.count() == 99
    cache.close()
    overwrite_with_nonsense(opened)
    assert cache.read(b"7") is None
    why = (
        "the file is damaged, and hatch-cubin cannot replace the file, because another process uses the file"
    )
    assert opened.warnings == [f"cannot be used fully: {why}"]
    other.close()
    cache.write(b"7", b"code")
    assert (cache.read(b"7"), opened.warnings[1:]) == (
        b"code",
        ["was renamed to cache.aside-1: the file is damaged"],
    )


def replaced(opened: Opener) -> None:
    opened.path.rename(opened.path.with_name("before"))
    opened.path.touch()


@pytest.mark.parametrize("happened", [replaced, lambda opened: opened.path.unlink()])
def test_a_file_that_another_process_has_set_aside_is_only_opened_again(
    opened: Opener, happened: Callable[[Opener], object]
) -> None:
    cache = opened()
    happened(opened)
    damage = iter([sqlite3.DatabaseError("database disk image is malformed")])

    def fail_once(_connection: sqlite3.Connection) -> str:
        for each in damage:
            raise each
        return "done"

    assert cache._with_connection(fail_once) == "done"
    assert opened.warnings == []


# Files that are not program caches


def another_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")


def another_layout(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {statements._APPLICATION_ID}")
        connection.execute("CREATE TABLE entries (key)")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (special_files.a_file, "file is not a database"),
        (special_files.a_sparse_file, "file is not a database"),
        (another_database, "the file is not a program cache"),
        (another_layout, "the file is damaged"),
    ],
)
def test_a_file_that_is_not_a_program_cache_is_set_aside_unchanged(
    opened: Opener, make: Callable[[Path], None], why: str
) -> None:
    opened.path.parent.mkdir()
    make(opened.path)
    before = opened.path.stat()
    opened().write(b"k", b"code")
    assert opened.warnings == [f"was renamed to cache.aside-1: {why}"]
    after = (opened.path.parent / "cache.aside-1").stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert stored_keys(opened) == ["k"]


def test_a_write_ahead_log_without_its_file_is_ignored(opened: Opener, tmp_path: Path) -> None:
    opened().write(b"old", b"code")
    left_behind = Opener(tmp_path / "other" / "cache")
    left_behind.path.parent.mkdir()
    shutil.copyfile(f"{opened.path}-wal", f"{left_behind.path}-wal")
    cache = left_behind()
    assert (cache.read(b"old"), left_behind.warnings) == (None, [])
    cache.close()


def test_files_that_were_set_aside_are_not_overwritten(opened: Opener) -> None:
    opened.path.parent.mkdir()
    for text in ("one", "two"):
        opened.path.write_text(text)
        opened().close()
        opened.path.unlink()
    assert [(opened.path.parent / f"cache.aside-{number}").read_text() for number in (1, 2)] == ["one", "two"]


def test_a_database_that_another_program_uses_is_left_alone(opened: Opener) -> None:
    opened.path.parent.mkdir()
    another_database(opened.path)
    with contextlib.closing(sqlite3.connect(opened.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache = opened()
        cache.write(b"k", b"code")
        assert cache.read(b"k") is None
    why = (
        "the file is not a program cache, and hatch-cubin cannot replace the file, "
        "because another process uses the file"
    )
    assert {*opened.warnings} == {
        f"cannot be used fully: {why}",
        f"cannot be used fully: {why}; an entry was not stored",
    }
    assert files(opened) == ["cache"]


def test_an_empty_file_becomes_a_program_cache(opened: Opener) -> None:
    opened.path.parent.mkdir()
    opened.path.touch()
    opened().write(b"k", b"code")
    assert (stored_keys(opened), opened.warnings) == (["k"], [])


# Without permission to write


@pytest.fixture
def read_only(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes every path look read-only from then on."""

    def start() -> None:
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)

    return start


def test_a_read_only_file_can_be_read(opened: Opener, read_only: Callable[[], None]) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    cache.close()
    read_only()
    assert (cache.read(b"k"), cache.read(b"other"), files(opened)) == (b"code", None, ["cache"])
    cache.write(b"new", b"code")
    cache.close()
    assert opened.warnings == [
        "cannot be used fully: attempt to write a readonly database; an entry was not stored"
    ]


def test_a_reader_without_write_permission_sees_new_entries(
    opened: Opener, read_only: Callable[[], None]
) -> None:
    writer = opened()
    read_only()
    reader = opened()
    assert reader.read(b"k") is None
    writer.write(b"k", b"code")
    assert (reader.read(b"k"), opened.warnings) == (b"code", [])


def test_a_leftover_log_does_not_hide_the_entries_of_a_read_only_file(
    opened: Opener, read_only: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    cache.close()
    opened.path.with_name("cache-wal").touch()
    read_only()
    connect = sqlite3.connect

    def without_memory(place: str, **settings: object) -> sqlite3.Connection:
        if place.endswith("?mode=ro"):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(place, **settings)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", without_memory)
    assert (cache.read(b"k"), opened.warnings) == (b"code", [])


def test_damage_in_a_read_only_file_is_a_miss_and_stays(
    opened: Opener, read_only: Callable[[], None]
) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    cache.close()
    opened.sql("UPDATE contents SET data = x'00'")
    read_only()
    assert cache.read(b"k") is None
    cache.close()
    overwrite_with_nonsense(opened, 0)
    assert cache.read(b"k") is None
    assert opened.warnings == [
        "has a damaged entry, which counts as a cache miss",
        "cannot be used fully: file is not a database",
    ]
    assert files(opened) == ["cache"]


def test_a_folder_that_cannot_be_made_is_a_warning(opened: Opener) -> None:
    opened.path.parent.touch()
    cache = opened()
    cache.write(b"k", b"code")
    assert cache.read(b"k") is None
    assert opened.warnings[0] == "cannot be used fully: Not a directory"
    assert opened.warnings[1] == "cannot be used fully: Not a directory; an entry was not stored"


@pytest.mark.linux
def test_a_pipe_that_replaces_the_file_later_is_not_opened(opened: Opener) -> None:
    cache = opened()
    cache.close()
    opened.path.unlink()
    special_files.a_pipe(opened.path)
    assert cache.read(b"k") is None
    assert opened.warnings == [
        "cannot be used fully: a program cache must be a file, but this path is a pipe"
    ]


# Threads and forks


def test_threads_share_a_cache(opened: Opener) -> None:
    cache, wrong = opened(5000), []

    def use(number: int) -> None:
        for turn in range(100):
            key = b"%d" % (turn % 7)
            cache.write(key, key * 500)
            if (data := cache.read(key)) not in {None, key * 500}:
                wrong.append(data)

    threads = [threading.Thread(target=use, args=[number]) for number in range(8)]
    run_threads(threads)
    assert (wrong, opened.warnings) == ([], [])


def test_a_transaction_that_fails_changes_nothing(opened: Opener) -> None:
    opened().write(b"a", b"1")
    with contextlib.closing(sqlite3.connect(opened.path, isolation_level=None)) as connection:

        def empty_it() -> None:
            with statements.transaction(connection):
                connection.execute("DELETE FROM entries")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            empty_it()
        assert connection.execute("SELECT key FROM entries").fetchall() == [(b"a",)]
        assert not connection.in_transaction


FORK = """
import os, sys, warnings
warnings.simplefilter("error")
from hatch_cubin.program_cache import statements
from hatch_cubin.program_cache.database import Database
path = sys.argv[1]
cache, other = Database(path, None, sys.exit), Database(path, None, sys.exit)
cache.write(b"parent", b"1")
cache.read(b"parent")
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    assert cache.read(b"parent") == b"1"
    cache.write(b"child", b"2")
    os.write(ready[1], b".")
    os.read(go[0], 1)
    cache.close()
    assert other.read(b"parent") == b"1"
    other.close()
    os._exit(0)
os.read(ready[0], 1)
assert cache.read(b"child") == b"2"
cache.close()
print(statements.is_open(path))  # by the child, whose lock keeps the file from being taken away
os.write(go[1], b".")
assert os.waitpid(child, 0)[1] == 0
print(statements.is_open(path))
"""


@pytest.mark.linux
def test_a_forked_process_opens_the_file_again_with_its_own_locks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path / "cache")], check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True\nFalse\n", "")


def test_after_a_fork_that_python_did_not_see_the_child_has_only_misses(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened()
    cache.write(b"k", b"code")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        patch.setattr(statements, "count_uses", pytest.fail)
        assert cache.read(b"k") is None
        cache.close()
    why = "the file is open in the parent process, which forked without calling Python's fork handlers"
    assert opened.warnings == [f"cannot be used fully: {why}"]
    assert cache.read(b"k") == b"code"


def test_a_network_file_system_that_is_mounted_later_is_a_warning(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened()
    cache.close()
    monkeypatch.setattr(usable_paths, "file_system_type", lambda _path: "nfs")
    assert cache.read(b"k") is None
    assert opened.warnings[0].startswith("cannot be used fully: nfs is a network file system")
