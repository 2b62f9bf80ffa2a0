"""The file of a `SQLiteProgramCache`, as one process uses it.

An entry has a digest over its key and its bytes. What does not fit its digest is a miss, and is removed. A
file that is no such database, or damaged beyond single entries, is set aside. A fault is a miss, or something
that is not stored, and a warning. Only SQLite opens the file: to close a descriptor of our own would drop its
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

_LATE = 256  # reads, or
_LATE_S = 1.0  # after which they are written down
_SHORT_S = 0.05  # to wait for others with that
_OPENING_S = 10.0  # to wait for whoever opens the file, or sets it aside
_FAULTS = (statements.UnfitError, sqlite3.Error, OSError, MemoryError, OverflowError, ValueError)


class Database:
    """The file, as one process uses it; all its threads share a connection.

    The connection is made when it is needed: after close() too, and after a fork, before which it is closed.
    """

    def __init__(self, path: str, cap: int | None, warn: Callable[[str], object]) -> None:
        self._path = path
        self._folder = Path(os.path.dirname(path))
        self._cap = cap
        self._warn = warn
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # which the connection is to
        self._process = 0  # which made it
        self._writable = False
        self._pending: dict[bytes, None] = {}  # what was read and is not written down, the latest last
        self._late = 0
        self._timer: threading.Timer | None = None
        with _EVERY:
            _DATABASES.add(self)
        self._guarded(lambda _connection: None)

    def read(self, key: bytes) -> bytes | None:
        """Return the bytes under *key*, proven; None on a miss."""

        def action(connection: sqlite3.Connection) -> bytes | None:
            data, damaged = statements.find(connection, key)
            if data is not None:
                self._note(connection, key)
            elif damaged:
                self._say("has a damaged entry, which counts as missing")
                if self._writable:
                    self._change(connection, lambda: statements.remove(connection, key))
            return data

        return self._guarded(action)

    def write(self, key: bytes, data: bytes) -> None:
        """Store *data* under *key*; what was used longest ago goes where there is no room for it."""
        if large := len(data) > statements.MOST:
            self._say(f"takes no entry of {len(data)} bytes: it was not stored")

        def action(connection: sqlite3.Connection) -> bool:
            def change() -> bool:
                gone = statements.remove(connection, key)
                if large or (self._cap is not None and len(data) > self._cap):
                    return gone
                if self._cap is not None:
                    gone |= statements.evict(connection, self._cap - len(data))
                statements.store(connection, key, data)
                return gone

            return self._change(connection, change)

        self._guarded(action, "an entry was not stored")

    def remove(self, key: bytes) -> bool:
        """Remove the entry of *key*, and say whether there was one."""

        def action(connection: sqlite3.Connection) -> bool:
            return self._change(connection, lambda: statements.remove(connection, key))

        return bool(self._guarded(action, "nothing was removed"))

    def clear(self) -> None:
        """Remove every entry."""

        def action(connection: sqlite3.Connection) -> bool:
            return self._change(connection, lambda: statements.clear(connection))

        self._guarded(action, "nothing was removed")

    def count(self) -> int:
        """Return how many entries there are."""
        return self._guarded(statements.count) or 0

    def close(self) -> None:
        """Write down what was read, make the file whole without those beside it, and let go of it."""
        with self._lock:
            self._settle()
            if self._connection is not None and self._process == os.getpid() and self._writable:
                self._write_down(self._connection)
                with contextlib.suppress(sqlite3.Error):
                    statements.fold(self._connection)
            self._drop()

    def hold(self) -> None:
        """Close, and keep every thread out until release(): in between the process is forked."""
        if (timer := self._timer) is not None:  # it may be waiting for the lock
            timer.cancel()
            timer.join()
        self._lock.acquire()
        self.close()

    def release(self) -> None:
        """Let the threads in again."""
        self._lock.release()

    # The connection

    def _guarded(self, action: Callable[[sqlite3.Connection], _R], lost: str = "") -> _R | None:
        """Return what *action* does with the file; None, and a warning, where it cannot be done."""
        with self._lock:
            try:
                try:
                    return action(self._opened())
                except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
                    if not statements.is_damage(exc, writable=self._writable):
                        raise
                    damaged = self._file
                    self._drop()
                    return action(self._opened(damaged))
            except _FAULTS as exc:
                if not statements.is_busy(exc):
                    self._drop()
                reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
                self._say(f"cannot be used fully: {reason}{lost and '; '}{lost}")
                return None

    def _opened(self, damaged: tuple[int, int] | None = None) -> sqlite3.Connection:
        """Return the connection; a file that was found *damaged* is set aside before it is made."""
        if self._connection is None:
            usable_paths.check(self._path)
            os.makedirs(self._folder, exist_ok=True)
            # Whoever has opened the file has it for sure when the next one asks whether anybody has.
            with wait_for_lock(self._folder, _OPENING_S):
                if damaged is not None and damaged == _identity(self._path):
                    self._set_aside(statements.DAMAGED)
                try:
                    self._connection = self._connect()
                except statements.UnfitError as exc:
                    self._set_aside(str(exc))
                    self._connection = self._connect()
                self._file, self._process = _identity(self._path), os.getpid()
        elif self._process != os.getpid():
            raise OSError(0, "it is open in the process that this one was forked of, unseen by Python")
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        """Open the file, which is made where there is none."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._writable = os.access(self._path, os.W_OK) and os.access(self._folder, os.W_OK)
        if self._writable:
            return statements.connect(self._path, "mode=rw")
        if os.path.exists(f"{self._path}-wal"):  # somebody who may write is perhaps about to
            with contextlib.suppress(sqlite3.OperationalError):
                return statements.connect(self._path, "mode=ro")
        return statements.connect(self._path, "immutable=1")

    def _set_aside(self, why: str) -> None:
        """Rename the file; not under somebody who uses it and would not notice.

        To ask whether anybody does has emptied its log. One that is left counts for no new file.
        """
        if not self._writable:
            raise OSError(0, why)
        if statements.is_used(self._path):
            raise OSError(0, f"{why}, and can be set aside only while no other process uses it")
        number = 1
        while os.path.lexists(aside := f"{self._path}.aside-{number}"):
            number += 1
        os.rename(self._path, aside)
        self._say(f"was set aside as {os.path.basename(aside)}: {why}")

    def _drop(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _change(self, connection: sqlite3.Connection, change: Callable[[], bool]) -> bool:
        """Make a change, after what was read is written down; say whether it took any row away."""
        with statements.writing(connection):
            statements.use(connection, self._pending)
            gone = change()
            if gone:
                statements.shrink(connection)
        self._written_down()
        return gone

    def _say(self, what: str) -> None:
        self._warn(f"the program cache {self._path} {what}")

    # What was read

    def _note(self, connection: sqlite3.Connection, key: bytes) -> None:
        """Count a read. It is written down in a moment, together with others."""
        if not self._writable:
            return
        self._pending.pop(key, None)
        self._pending[key] = None
        self._late += 1
        if self._late >= _LATE:
            self._write_down(connection)
        elif self._timer is None:
            timer = threading.Timer(_LATE_S, self._when_late)
            timer.daemon = True
            with contextlib.suppress(RuntimeError):  # while Python ends, and at the process's limit
                timer.start()
                self._timer = timer

    def _when_late(self) -> None:
        with self._lock:
            self._settle()
            if self._connection is not None:
                self._write_down(self._connection)

    def _write_down(self, connection: sqlite3.Connection) -> None:
        """Write down what was read; where somebody else is writing, another time."""
        self._late = 0
        try:
            with statements.patience(connection, _SHORT_S), statements.writing(connection):
                statements.use(connection, self._pending)
        except sqlite3.Error as exc:
            if statements.is_busy(exc):
                return
        self._written_down()

    def _written_down(self) -> None:
        self._pending.clear()
        self._late = 0
        self._settle()

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# A child that inherits a connection, and makes another to the same file, has no lock on it: SQLite counts the
# locks of its parent as its own. So nobody has a connection while the process is forked.

_DATABASES: weakref.WeakSet[Database] = weakref.WeakSet()
_EVERY = threading.RLock()
_held: list[Database] = []


def _before_fork() -> None:
    _EVERY.acquire()
    _held[:] = _DATABASES
    for each in _held:
        each.hold()


def _after_fork() -> None:
    for each in _held:
        each.release()
    _held.clear()
    _EVERY.release()


# Windows knows no forks.
_register = getattr(os, "register_at_fork", lambda **_handlers: None)
_register(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
