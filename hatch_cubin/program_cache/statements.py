"""The SQL of a `SQLiteProgramCache`: the schema of its file, and statements that read and change entries."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..common.digest import digest

MAX_ENTRY_SIZE = 1_000_000_000 - 4096  # bytes: SQLite allows a billion bytes for a whole row
_BUSY_TIMEOUT_S = 5.0  # how many seconds to wait for other processes that write to the file
_APPLICATION_ID = 0x63756201  # the last byte is the version of the schema.
# SQLite stores the text of these statements in the file, and connect() compares the text. So no word may
# change, not even in the SQL comments.
_TABLE = """CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL, -- of key and data
    size INTEGER NOT NULL, -- of data
    used INTEGER NOT NULL -- the higher, the later
)"""
_WRITE_AHEAD_LOG = "PRAGMA journal_mode = WAL"
_SCHEMA = (
    _TABLE,
    "CREATE INDEX by_use ON entries (used, size)",
    # The data are in a separate table, so that counting a use does not rewrite the data.
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
)
_FIND_ENTRY = "SELECT data, size, digest FROM entries LEFT JOIN contents USING (id) WHERE key = ?"
# Uses are ordered by a counter and not by time, because a clock that is set back would change the order.
_COUNT_USE = "UPDATE entries SET used = (SELECT max(used) + 1 FROM entries) WHERE key = ?"
_INSERT_ENTRY = """
    INSERT INTO entries (key, digest, size, used)
    VALUES (?, ?, ?, (SELECT coalesce(max(used), 0) + 1 FROM entries))
"""
# In a damaged row, the size can have any type and value. So the size is converted to an integer of at least
# 0.
_TOTAL_SIZE = "SELECT total(max(coalesce(CAST(size AS INTEGER), 0), 0)) FROM entries"
_OLDEST_FIRST = "SELECT id, max(coalesce(CAST(size AS INTEGER), 0), 0) FROM entries ORDER BY used"
# this text and the next two texts are parts of SQLite's own messages
_NOT_A_DATABASE = "file is not a database"
_UNKNOWN_FORMAT = "unsupported file format"
_READ_ONLY = "attempt to write a readonly database"
DAMAGED = "the file is damaged"


class UnusableFileError(Exception):
    """Raised if a file is not a program cache, or is damaged."""


def connect(path: str, query: str) -> sqlite3.Connection:
    """Return a connection to the program cache in a file; UnusableFileError if the file has other content.

    An empty file becomes a program cache.
    """
    connection = _open(path, query, _BUSY_TIMEOUT_S)
    try:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "synchronous = NORMAL"):
            connection.execute(f"PRAGMA {setting}")
        found = _identification(connection)
        if found == (0, []) and query == "mode=rw":
            _create_schema(connection)
            found = _identification(connection)
        if found != (_APPLICATION_ID, [each.encode() for each in _SCHEMA]):
            raise UnusableFileError(
                DAMAGED if found[0] == _APPLICATION_ID else "the file is not a program cache"
            )
        if query == "mode=rw":  # a damaged byte can turn the write-ahead log off, and is_open() needs the log
            connection.execute(_WRITE_AHEAD_LOG).fetchall()
    except BaseException as exc:
        connection.close()
        if is_damage(exc):
            raise UnusableFileError(_NOT_A_DATABASE if _NOT_A_DATABASE in str(exc) else DAMAGED) from exc
        raise
    return connection


def is_damage(exc: BaseException, *, writable: bool = False) -> bool:
    """Return whether an error means that the file is damaged, or is not an SQLite database.

    SQLite may also report a damaged header of the file as an unsupported file format, or as a read-only file
    although the file is *writable*.
    """
    # The messages are compared because Python 3.10 does not provide SQLite's error codes. A message that
    # contains a damaged name raises UnicodeDecodeError.
    if type(exc) is sqlite3.DatabaseError or isinstance(exc, UnicodeDecodeError):
        return True
    text = str(exc) if isinstance(exc, sqlite3.OperationalError) else ""
    return _UNKNOWN_FORMAT in text or (writable and _READ_ONLY in text)


def is_busy(exc: BaseException) -> bool:
    """Return whether an error means that another process kept the file locked for too long."""
    return isinstance(exc, sqlite3.OperationalError) and "locked" in str(exc)


def is_open(path: str) -> bool:
    """Return whether any process has a connection to the database; False if the file is not a database."""
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
    """Return the bytes that are stored under *key*, and whether the row of *key* is damaged.

    The bytes are None if the row of *key* is missing, or if the row does not match its digest.
    """
    rows = connection.execute(_FIND_ENTRY, (key,)).fetchall()
    for data, size, proof in rows:
        if type(data) is bytes and size == len(data) and proof == _entry_digest(key, data):
            return data, False
    return None, bool(rows)


def store(connection: sqlite3.Connection, key: bytes, data: bytes) -> None:
    number = connection.execute(_INSERT_ENTRY, (key, _entry_digest(key, data), len(data))).lastrowid
    connection.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", (number, data))


def remove(connection: sqlite3.Connection, key: bytes) -> bool:
    """Remove the row of *key*; return whether the row existed."""
    return _delete(connection, connection.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchall())


def clear(connection: sqlite3.Connection) -> bool:
    """Remove all rows; return whether any row existed."""
    connection.execute("DELETE FROM contents")
    return connection.execute("DELETE FROM entries").rowcount > 0


def entry_count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM entries").fetchall()[0][0])


def count_uses(connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
    """Mark *keys* as used now, in their order: the last key becomes the most recently used key."""
    connection.executemany(_COUNT_USE, [(key,) for key in keys])


def evict(connection: sqlite3.Connection, room: int) -> bool:
    """Remove the least recently used rows, until the remaining rows have at most *room* bytes."""
    over = connection.execute(_TOTAL_SIZE).fetchall()[0][0] - room
    evicted = []
    oldest = connection.execute(_OLDEST_FIRST)
    for number, size in oldest:
        if over <= 0:
            break
        evicted.append((number,))
        over -= size
    oldest.close()
    return _delete(connection, evicted)


def _delete(connection: sqlite3.Connection, numbers: Sequence[tuple[int]]) -> bool:
    for table in ("contents", "entries"):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", numbers)  # noqa: S608 - constants
    return bool(numbers)


def shrink(connection: sqlite3.Connection) -> None:
    """Give free pages of the file back to the disk."""

    def done() -> bool:
        connection.execute("PRAGMA incremental_vacuum").fetchall()
        return not _free_pages(connection)

    # repeated, because on Python 3.11 each call frees only a single page
    any(done() for _page in range(_free_pages(connection)))


def _free_pages(connection: sqlite3.Connection) -> int:
    ((pages,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return int(pages)


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file, unless another process still reads the log."""
    with busy_timeout(connection, 1.0):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the statements of the `with` block as one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def busy_timeout(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Within the `with` block, wait at most *seconds* for other processes that write to the file."""
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}").fetchall()
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_TIMEOUT_S * 1000)}").fetchall()


def _open(path: str, query: str, timeout_s: float) -> sqlite3.Connection:
    place = f"{Path(path).as_uri()}?{query}"
    connection = sqlite3.connect(
        place, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = bytes  # texts are returned as bytes, because damaged text cannot be decoded
    return connection


def _identification(connection: sqlite3.Connection) -> tuple[int, list[bytes]]:
    """Return the application id and the schema of a file, which show whether the file is a program cache."""
    ((mark,),) = connection.execute("PRAGMA application_id").fetchall()
    rows = connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid").fetchall()
    return mark, [sql for (sql,) in rows if sql is not None]


def _create_schema(connection: sqlite3.Connection) -> None:
    """Turn an empty file into a program cache, in one transaction."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute(_WRITE_AHEAD_LOG).fetchall()
    with transaction(connection):
        for statement in (*_SCHEMA, f"PRAGMA application_id = {_APPLICATION_ID}"):
            connection.execute(statement)


def _entry_digest(key: bytes, data: bytes) -> bytes:
    """Return the digest of an entry.

    The digest also covers the key, so that the bytes of another entry do not match.
    """
    return bytes.fromhex(digest((key, data)))
