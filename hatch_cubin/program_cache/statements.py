"""What a `SQLiteProgramCache` says to SQLite: how its file is laid out, and what is done with the rows."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..common.digest import digest

MOST = 1_000_000_000 - 4096  # bytes of an entry: SQLite takes a billion for all of a row
_PATIENCE_S = 5.0  # with whoever else writes
_MARK = 0x63756201  # the file's application id, which also names the version of its layout
_TABLE = """CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL, -- of key and data
    size INTEGER NOT NULL, -- of data
    used INTEGER NOT NULL -- the higher, the later
)"""
_LOG_AHEAD = "PRAGMA journal_mode = WAL"
_LAYOUT = (
    _TABLE,
    "CREATE INDEX by_use ON entries (used, size)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",  # else a use would write it again
)
_FIND = "SELECT data, size, digest FROM entries LEFT JOIN contents USING (id) WHERE key = ?"
# Uses are counted: no clock can confuse their order.
_USE = "UPDATE entries SET used = (SELECT max(used) + 1 FROM entries) WHERE key = ?"
_INSERT = """
    INSERT INTO entries (key, digest, size, used)
    VALUES (?, ?, ?, (SELECT coalesce(max(used), 0) + 1 FROM entries))
"""
# A size that is damaged can be anything.
_TOTAL = "SELECT total(max(coalesce(CAST(size AS INTEGER), 0), 0)) FROM entries"
_OLDEST = "SELECT id, max(coalesce(CAST(size AS INTEGER), 0), 0) FROM entries ORDER BY used"
_FOREIGN = "file is not a database"  # as SQLite says it, like the next two
_UNKNOWN_FORMAT = "unsupported file format"
_READ_ONLY = "attempt to write a readonly database"
DAMAGED = "it is damaged"


class UnfitError(Exception):
    """The file is not one of ours, or not as we left it."""


def connect(path: str, how: str) -> sqlite3.Connection:
    """Return a connection to a file that is one of ours, as an empty one becomes; UnfitError otherwise."""
    connection = _open(path, how, _PATIENCE_S)
    try:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "synchronous = NORMAL"):
            connection.execute(f"PRAGMA {setting}")
        found = _marked(connection)
        if found == (0, []) and how == "mode=rw":
            _lay_out(connection)
            found = _marked(connection)
        if found != (_MARK, [each.encode() for each in _LAYOUT]):
            raise UnfitError(DAMAGED if found[0] == _MARK else "it is not a program cache")
        if how == "mode=rw":  # a damaged byte can have turned it off, and then nobody sees who uses the file
            connection.execute(_LOG_AHEAD).fetchall()
    except BaseException as exc:
        connection.close()
        if is_damage(exc):
            raise UnfitError(_FOREIGN if _FOREIGN in str(exc) else DAMAGED) from exc
        raise
    return connection


def is_damage(exc: BaseException, *, writable: bool = False) -> bool:
    """Say whether SQLite finds that the file is damaged, or is not a database.

    SQLite reports two kinds of damage to the header in other ways: it does not know the file's format, or it
    takes a *writable* file for one that may only be read.
    """
    # Python gives SQLite's codes since 3.11. Its messages may have damaged names in them, which are not text.
    if type(exc) is sqlite3.DatabaseError or isinstance(exc, UnicodeDecodeError):
        return True
    text = str(exc) if isinstance(exc, sqlite3.OperationalError) else ""
    return _UNKNOWN_FORMAT in text or (writable and _READ_ONLY in text)


def is_busy(exc: BaseException) -> bool:
    """Say whether somebody else was writing for too long."""
    return isinstance(exc, sqlite3.OperationalError) and "locked" in str(exc)


def is_used(path: str) -> bool:
    """Say whether anybody has the database open; of what is no database nobody can tell."""
    connection = _open(path, "mode=rw", 0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as exc:
        return is_busy(exc)
    finally:
        connection.close()
    return False


def find(connection: sqlite3.Connection, key: bytes) -> tuple[bytes | None, bool]:
    """Return the bytes under *key*, proven; without any, whether a row that proves nothing is there."""
    rows = connection.execute(_FIND, (key,)).fetchall()
    for data, size, proof in rows:
        if type(data) is bytes and size == len(data) and proof == _proof(key, data):
            return data, False
    return None, bool(rows)


def store(connection: sqlite3.Connection, key: bytes, data: bytes) -> None:
    number = connection.execute(_INSERT, (key, _proof(key, data), len(data))).lastrowid
    connection.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", (number, data))


def remove(connection: sqlite3.Connection, key: bytes) -> bool:
    """Remove the row of *key*, and say whether there was one."""
    return _delete(connection, connection.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchall())


def clear(connection: sqlite3.Connection) -> bool:
    """Remove every row, and say whether there was one."""
    connection.execute("DELETE FROM contents")
    return connection.execute("DELETE FROM entries").rowcount > 0


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM entries").fetchall()[0][0])


def use(connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
    """Count *keys* as used, one after the other."""
    connection.executemany(_USE, [(key,) for key in keys])


def evict(connection: sqlite3.Connection, room: int) -> bool:
    """Remove what was used longest ago, until the rest has no more bytes than *room*."""
    over = connection.execute(_TOTAL).fetchall()[0][0] - room
    doomed = []
    oldest = connection.execute(_OLDEST)
    for number, size in oldest:
        if over <= 0:
            break
        doomed.append((number,))
        over -= size
    oldest.close()
    return _delete(connection, doomed)


def _delete(connection: sqlite3.Connection, numbers: Sequence[tuple[int]]) -> bool:
    for table in ("contents", "entries"):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", numbers)  # noqa: S608 - these two
    return bool(numbers)


def shrink(connection: sqlite3.Connection) -> None:
    """Give back the room in the file that no row takes."""

    def done() -> bool:
        connection.execute("PRAGMA incremental_vacuum").fetchall()
        return not _free_pages(connection)

    any(done() for _page in range(_free_pages(connection)))  # Python 3.11 gives back one page at a time


def _free_pages(connection: sqlite3.Connection) -> int:
    ((pages,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return int(pages)


def fold(connection: sqlite3.Connection) -> None:
    """Have all that is in the log in the file, unless somebody still reads the log."""
    with patience(connection, 1.0):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextlib.contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all that is done meanwhile, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def patience(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Wait no longer for others meanwhile."""
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_PATIENCE_S * 1000)}").fetchall()


def _open(path: str, how: str, patience_s: float) -> sqlite3.Connection:
    place = f"{Path(path).as_uri()}?{how}"
    connection = sqlite3.connect(
        place, uri=True, timeout=patience_s, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = bytes  # damaged text is none
    return connection


def _marked(connection: sqlite3.Connection) -> tuple[int, list[bytes]]:
    """Return what tells whose file it is."""
    ((mark,),) = connection.execute("PRAGMA application_id").fetchall()
    rows = connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid").fetchall()
    return mark, [sql for (sql,) in rows if sql is not None]


def _lay_out(connection: sqlite3.Connection) -> None:
    """Make an empty file one of ours, in one step."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute(_LOG_AHEAD).fetchall()
    with writing(connection):
        for statement in (*_LAYOUT, f"PRAGMA application_id = {_MARK}"):
            connection.execute(statement)


def _proof(key: bytes, data: bytes) -> bytes:
    """Return the digest of an entry; with its key, so that no other entry's bytes fit."""
    return bytes.fromhex(digest((key, data)))
