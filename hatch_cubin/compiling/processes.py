"""Processes that are talked to in messages: one thread hears them all, and waits for none.

The streams of a process are sockets, which a selector can watch on every system. Where a process cannot have
a socket for a stream, as on Windows, threads carry the bytes between its pipes and sockets.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ..common.environment import without_secrets
from ..toolkit.worker import framed

_STREAMS_MAY_BE_SOCKETS = sys.platform != "win32"
_PIECE = 1 << 16
_LONGEST_S = 86_400.0  # that a selector is asked to wait: some count milliseconds in few bits
_LAST_WORDS_S = 1.0  # for what a process has said, and that it left its streams to may go on

Message: TypeAlias = "dict[str, Any]"
_Started: TypeAlias = "tuple[subprocess.Popen[bytes], Callable[[], None]]"


class Watch:
    """Hears what processes say: each message, and once None when one has ended."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._heard: deque[tuple[Process, Message | None]] = deque()

    def next(self, seconds: float) -> tuple[Process, Message | None] | None:
        """Return what is heard next; None where that is nothing for so many seconds."""
        until = time.monotonic() + seconds
        while not self._heard:
            left = until - time.monotonic()
            ready = self._selector.select(max(0.0, min(left, _LONGEST_S)))
            for key, events in ready:
                key.data(events)
            # What was said while nobody listened is no silence, however long that was; chatter is.
            if left <= 0 and not self._heard and (not ready or left < -_LAST_WORDS_S):
                return None
        return self._heard.popleft()

    def note(self, process: Process, message: Message | None) -> None:
        """Have it returned in its turn."""
        self._heard.append((process, message))

    def hear(self, end: socket.socket, act: Callable[[int], None]) -> None:
        """Call *act* whenever there is something to read."""
        self._selector.register(end, selectors.EVENT_READ, act)

    def wait_for_room(self, end: socket.socket, *, waits: bool) -> None:
        """Do so too when there is room to write, as long as something *waits* for it."""
        if known := self._selector.get_map().get(end.fileno()):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            self._selector.modify(end, events, known.data)

    def forget(self, end: socket.socket) -> None:
        """Look at a socket no more."""
        with contextlib.suppress(KeyError, ValueError):  # it is forgotten, or even closed
            self._selector.unregister(end)

    def close(self) -> None:
        """Hear no more."""
        self._selector.close()


class Process:
    """One process, which tells its watch of every message but the first: that says that it is *ready*."""

    def __init__(self, command: Sequence[str], watch: Watch) -> None:
        self.ready = False
        self.complaints: deque[str] = deque(maxlen=20)  # the last lines that it wrote for people
        self._watch = watch
        self._unsent, self._unread, self._complaint = bytearray(), bytearray(), b""
        self._waits = False  # for room to write
        with contextlib.ExitStack() as stack:
            self._talk, its_talk = _pair(stack)
            self._errors, its_errors = _pair(stack)
            start = _start if _STREAMS_MAY_BE_SOCKETS else _start_with_pipes
            self._process, self._leave = start(command, its_talk, its_errors)
            stack.pop_all()
        watch.hear(self._talk, self._on_talk)
        watch.hear(self._errors, self._on_errors)

    @property
    def ending(self) -> str:
        """How the process ended."""
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def send(self, message: Message) -> None:
        """Send a message, what there is no room for as soon as there is."""
        self._unsent += framed(message)
        self._write()

    def kill(self) -> None:
        """End the process and those that it has started, from any thread; the watch notices."""
        if self._process.returncode is None and sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def close(self, patience_s: float = 0.0) -> None:
        """End the process, whatever it is doing, unless it ends by itself within *patience_s*."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        if patience_s:
            self._hear_the_last()
        for end in (self._talk, self._errors):
            self._watch.forget(end)
            end.close()
        self._leave()

    def _on_talk(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._read()
        if events & selectors.EVENT_WRITE:
            self._write()

    def _write(self) -> None:
        """Send what there is room for; the watch tells when there is more."""
        try:
            while self._unsent:
                del self._unsent[: self._talk.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which the watch notices
            self._unsent.clear()
        if self._waits != bool(self._unsent):
            self._waits = not self._waits
            self._watch.wait_for_room(self._talk, waits=self._waits)

    def _read(self) -> None:
        """Take what has come, and put messages together of it."""
        piece = _received(self._talk)
        self._unread += piece
        try:
            for message in _whole(self._unread):
                if self.ready:
                    self._watch.note(self, message)
                self.ready = True
        except (EOFError, TypeError, ValueError):  # nothing that it says can be told apart any more
            piece = b""
        if not piece:
            self._watch.forget(self._talk)
            self._watch.note(self, None)

    def _on_errors(self, _events: int) -> None:
        if not self._complain(_received(self._errors)):
            self._watch.forget(self._errors)

    def _complain(self, piece: bytes) -> bytes:
        *lines, self._complaint = (self._complaint + piece).split(b"\n")
        self.complaints += (line.decode("utf-8", "replace").rstrip() for line in lines)
        return piece

    def _hear_the_last(self) -> None:
        """Take what it has complained of and nobody has heard yet."""
        self._errors.settimeout(_LAST_WORDS_S)
        while self._complain(_received(self._errors)):
            pass
        if self._complaint:
            self._complain(b"\n")


def _whole(unread: bytearray) -> Iterator[Message]:
    """Take each message off that is there to its end."""
    while len(unread) >= (end := 8 + int.from_bytes(unread[:8], "big")):
        yield marshal.loads(unread[8:end])  # noqa: S302 - of our own script
        del unread[:end]


def _received(end: socket.socket) -> bytes:
    """Return what has come by now; nothing where nothing will come any more."""
    try:
        return end.recv(_PIECE)
    except OSError:
        return b""


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return our end, which never waits, and the other one; *stack* closes both."""
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(ours.close)
    ours.settimeout(0.0)
    return ours, theirs


def _start(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Start a process with sockets for its streams; return it, and what is left to do when it has ended."""
    process = subprocess.Popen(  # noqa: S603 - our own script
        command,
        stdin=talk.fileno(),
        stdout=talk.fileno(),
        stderr=errors.fileno(),
        env=without_secrets(os.environ),
        start_new_session=True,  # an interrupt at the terminal is the front end's to answer
    )
    talk.close()
    errors.close()
    return process, lambda: None


def _start_with_pipes(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Do the same with pipes for its streams, and a thread for each."""
    process = subprocess.Popen(  # noqa: S603 - our own script
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_secrets(os.environ),
        bufsize=0,
    )
    pipes = [stream for stream in (process.stdin, process.stdout, process.stderr) if stream is not None]
    ways = (
        (talk.recv, pipes[0].write, None),
        (pipes[1].read, talk.sendall, talk),
        (pipes[2].read, errors.sendall, errors),
    )
    threads = [threading.Thread(target=_carry, args=way, daemon=True) for way in ways]

    def leave() -> None:
        for end in (talk, errors):  # whoever waits for one of them goes
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for pipe in pipes:
            with contextlib.suppress(OSError):  # of what it did not take any more
                pipe.close()
        talk.close()
        errors.close()

    try:
        for thread in threads:
            thread.start()
    except RuntimeError as exc:
        process.kill()
        process.wait()
        leave()
        raise OSError(errno.EAGAIN, str(exc)) from exc
    return process, leave


def _carry(
    read: Callable[[int], bytes], write: Callable[[bytes], int | None], into: socket.socket | None
) -> None:
    """Carry bytes from one end to another, until one of them is gone; the socket they go *into* is told."""
    with contextlib.suppress(OSError):
        while piece := read(_PIECE):
            while piece:
                piece = piece[
                    write(piece) or len(piece) :
                ]  # a pipe says how much it took, a socket takes all
    if into is not None:
        with contextlib.suppress(OSError):
            into.shutdown(socket.SHUT_WR)
