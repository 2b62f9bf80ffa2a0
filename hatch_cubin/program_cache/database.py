"""Access the SQLite file of a `SQLiteProgramCache` for all threads of one process.

Each entry has a digest of its key and its bytes. An entry that does not match its digest is a cache miss, and
is removed. If the file is not a program cache, or if the damage is not limited to single entries, the file is
renamed and a new file replaces it. Other errors, such as a full disk, only cause a warning: reading an entry
is then a cache miss, and writing an entry has no effect.

Only SQLite may open the file: if other code opened and closed the file, POSIX systems would drop SQLite's
locks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..common.file_lock import wait_for_lock
from . import statements, usable_paths

_R = TypeVar("_R")

# A read counts as a use of an entry and so changes the order of eviction. Many uses are saved together,
# because each save is a write to the disk.
_SAVE_AFTER_READS = 256
_SAVE_AFTER_S = 1.0
# Seconds to wait for other processes that write: reads must be fast, and uses can be saved later.
_SAVE_WAIT_S = 0.05
_OPEN_WAIT_S = 10.0  # seconds to wait for other processes that open or rename the file
_FAULTS = (statements.UnusableFileError, sqlite3.Error, OSError, MemoryError, OverflowError, ValueError)


class Database:
    """A program cache's file, with one connection that all threads of the process share.

    The connection is opened at its first use, and opened again at the first use after close(). The connection
    is closed before the process forks, so that the parent and the child open separate connections.
    """

    def __init__(self, path: str, max_size: int | None, warn: Callable[[str], object]) -> None:
        self._path = path
        self._folder = Path(os.path.dirname(path))
        self._max_size = max_size
        self._warn = warn
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        # The device number and inode number of the file when it was opened.
        self._file_identity: tuple[int, int] | None = None
        self._process = 0  # the process that opened the connection
        self._writable = False
        # the keys that were read, in the order of their last reads
        self._unsaved_uses: dict[bytes, None] = {}
        self._unsaved_reads = 0
        self._timer: threading.Timer | None = None
        with _ALL_DATABASES_LOCK:
            _ALL_DATABASES.add(self)
        self._with_connection(lambda _connection: None)

    def read(self, key: bytes) -> bytes | None:
        """Return the bytes that are stored under *key*, after checking their digest; None on a cache miss."""

        def action(connection: sqlite3.Connection) -> bytes | None:
            data, damaged = statements.find(connection, key)
            if data is not None:
                self._note_use(connection, key)
            elif damaged:
                self._warn(
                    f"the program cache {self._path} has a damaged entry, which counts as a cache miss"
                )
                if self._writable:
                    self._commit(connection, lambda: statements.remove(connection, key))
            return data

        return self._with_connection(action)

    def write(self, key: bytes, data: bytes) -> None:
        """Store *data* under *key*, and evict the least recently used entries if there is not enough room."""
        if large := len(data) > statements.MAX_ENTRY_SIZE:
            self._warn(
                f"the program cache {self._path} cannot store an entry of {len(data)} bytes, "
                "which is too large for SQLite"
            )

        def action(connection: sqlite3.Connection) -> bool:
            def change() -> bool:
                gone = statements.remove(connection, key)
                if large or (self._max_size is not None and len(data) > self._max_size):
                    return gone
                if self._max_size is not None:
                    gone |= statements.evict(connection, self._max_size - len(data))
                statements.store(connection, key, data)
                return gone

            return self._commit(connection, change)

        self._with_connection(action, "an entry was not stored")

    def remove(self, key: bytes) -> bool:
        """Remove the entry of *key*; return whether the entry existed."""

        def action(connection: sqlite3.Connection) -> bool:
            return self._commit(connection, lambda: statements.remove(connection, key))

        return bool(self._with_connection(action, "nothing was removed"))

    def clear(self) -> None:
        """Remove every entry."""

        def action(connection: sqlite3.Connection) -> bool:
            return self._commit(connection, lambda: statements.clear(connection))

        self._with_connection(action, "nothing was removed")

    def count(self) -> int:
        """Return the number of entries in the file."""
        return self._with_connection(statements.entry_count) or 0

    def close(self) -> None:
        """Save which entries were read, move the write-ahead log into the file, and close the connection.

        After close(), the file contains all data and can be copied.
        """
        with self._lock:
            self._cancel_timer()
            if self._connection is not None and self._process == os.getpid() and self._writable:
                self._save_uses(self._connection)
                with contextlib.suppress(sqlite3.Error):
                    statements.checkpoint(self._connection)
            self._disconnect()

    def before_fork(self) -> None:
        """Close the connection, and make all threads wait until after_fork()."""
        if (timer := self._timer) is not None:  # the thread of the timer may be waiting for the lock
            timer.cancel()
            timer.join()
        self._lock.acquire()
        self.close()

    def after_fork(self) -> None:
        """Release the lock that before_fork() acquired, so that the waiting threads continue."""
        self._lock.release()

    # The connection

    def _with_connection(
        self, action: Callable[[sqlite3.Connection], _R], consequence: str = ""
    ) -> _R | None:
        """Return the result of *action*.

        If *action* fails, print a warning with the *consequence*, and return None.

        If the file turns out to be damaged, it is renamed, and *action* runs again on a new file.
        """
        with self._lock:
            try:
                try:
                    return action(self._open_connection())
                except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
                    if not statements.is_damage(exc, writable=self._writable):
                        raise
                    damaged = self._file_identity
                    self._disconnect()
                    return action(self._open_connection(damaged))
            except _FAULTS as exc:
                if not statements.is_busy(exc):
                    self._disconnect()
                reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
                because = f"{reason}; {consequence}" if consequence else reason
                self._warn(f"the program cache {self._path} cannot be used fully: {because}")
                return None

    def _open_connection(self, damaged: tuple[int, int] | None = None) -> sqlite3.Connection:
        """Return the connection to the database file, after opening the connection if necessary.

        If the path still leads to the *damaged* file, the file is renamed first.
        """
        if self._connection is None:
            usable_paths.check(self._path)
            os.makedirs(self._folder, exist_ok=True)
            # The lock makes sure that is_open() in another process notices that this process has opened the
            # file.
            with wait_for_lock(self._folder, _OPEN_WAIT_S):
                if damaged is not None and damaged == _device_and_inode(self._path):
                    self._set_aside(statements.DAMAGED)
                try:
                    self._connection = self._connect()
                except statements.UnusableFileError as exc:
                    self._set_aside(str(exc))
                    self._connection = self._connect()
                self._file_identity, self._process = _device_and_inode(self._path), os.getpid()
        elif self._process != os.getpid():
            raise OSError(
                0,
                "the file is open in the parent process, which forked without calling Python's fork handlers",
            )
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        """Open the database file, or make the file if it does not exist."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._writable = os.access(self._path, os.W_OK) and os.access(self._folder, os.W_OK)
        if self._writable:
            return statements.connect(self._path, "mode=rw")
        # The write-ahead log shows that another process, which may write, probably uses the file.
        if os.path.exists(f"{self._path}-wal"):
            with contextlib.suppress(sqlite3.OperationalError):
                return statements.connect(self._path, "mode=ro")
        return statements.connect(self._path, "immutable=1")

    def _set_aside(self, why: str) -> None:
        """Rename the database file, so that a new file can replace it.

        A file that another process uses is not renamed, because that process would continue to write into the
        renamed file.

        The write-ahead log is not renamed: is_open() has emptied the log, and SQLite ignores a log that
        belongs to another file.
        """
        if not self._writable:
            raise OSError(0, why)
        if statements.is_open(self._path):
            raise OSError(
                0, f"{why}, and hatch-cubin cannot replace the file, because another process uses the file"
            )
        number = 1
        while os.path.lexists(aside := f"{self._path}.aside-{number}"):
            number += 1
        os.rename(self._path, aside)
        self._warn(f"the program cache {self._path} was renamed to {os.path.basename(aside)}: {why}")

    def _disconnect(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _commit(self, connection: sqlite3.Connection, change: Callable[[], bool]) -> bool:
        """Save which keys were read, and run *change*, in one transaction.

        Return whether *change* removed rows.
        """
        with statements.transaction(connection):
            statements.count_uses(connection, self._unsaved_uses)
            gone = change()
            if gone:
                statements.shrink(connection)
        self._uses_were_saved()
        return gone

    # Uses by reading

    def _note_use(self, connection: sqlite3.Connection, key: bytes) -> None:
        """Remember that *key* was read; the database is updated soon, together with other reads."""
        if not self._writable:
            return
        self._unsaved_uses.pop(key, None)
        self._unsaved_uses[key] = None
        self._unsaved_reads += 1
        if self._unsaved_reads >= _SAVE_AFTER_READS:
            self._save_uses(connection)
        elif self._timer is None:
            timer = threading.Timer(_SAVE_AFTER_S, self._save_when_due)
            timer.daemon = True
            with contextlib.suppress(RuntimeError):  # Python is shutting down, or no more threads are allowed
                timer.start()
                self._timer = timer

    def _save_when_due(self) -> None:
        with self._lock:
            self._cancel_timer()
            if self._connection is not None:
                self._save_uses(self._connection)

    def _save_uses(self, connection: sqlite3.Connection) -> None:
        """Save which keys were read; if another process is writing, a later call saves the keys."""
        self._unsaved_reads = 0
        try:
            with statements.busy_timeout(connection, _SAVE_WAIT_S), statements.transaction(connection):
                statements.count_uses(connection, self._unsaved_uses)
        except sqlite3.Error as exc:
            if statements.is_busy(exc):
                return
        self._uses_were_saved()

    def _uses_were_saved(self) -> None:
        self._unsaved_uses.clear()
        self._unsaved_reads = 0
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _device_and_inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# A forked child process must not inherit a connection: SQLite would assume that the child holds its parent's
# locks, and further connections of the child to the same file would lock nothing. So all connections are
# closed before a fork.

_ALL_DATABASES: weakref.WeakSet[Database] = weakref.WeakSet()
_ALL_DATABASES_LOCK = threading.RLock()
_closed_for_fork: list[Database] = []


def _before_fork() -> None:
    _ALL_DATABASES_LOCK.acquire()
    _closed_for_fork[:] = _ALL_DATABASES
    for each in _closed_for_fork:
        each.before_fork()


def _after_fork() -> None:
    for each in _closed_for_fork:
        each.after_fork()
    _closed_for_fork.clear()
    _ALL_DATABASES_LOCK.release()


# Windows does not have fork, and Python there does not have register_at_fork.
_register = getattr(os, "register_at_fork", lambda **_handlers: None)
_register(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
