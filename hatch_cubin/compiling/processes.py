"""Exchange messages with worker processes. A single thread reads from all and never blocks on one.

A process's streams are sockets, which a selector can watch on every system. If a process cannot have a socket
as a stream, as on Windows, threads copy the bytes between its pipes and sockets.
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
_LONGEST_S = 86_400.0  # longest wait of a selector: some systems count milliseconds in few bits
_LAST_WORDS_S = 1.0  # for the last output of a process: programs that inherited its streams may go on writing

Message: TypeAlias = "dict[str, Any]"
_Started: TypeAlias = "tuple[subprocess.Popen[bytes], Callable[[], None]]"


class Watch:
    """Collects the messages of processes. A process that has ended gives None once."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._messages: deque[tuple[Process, Message | None]] = deque()

    def next(self, seconds: float) -> tuple[Process, Message | None] | None:
        """Return the next message and its process; None if nothing arrives for *seconds*."""
        until = time.monotonic() + seconds
        while not self._messages:
            left = until - time.monotonic()
            ready = self._selector.select(max(0.0, min(left, _LONGEST_S)))
            for key, events in ready:
                key.data(events)
            # Messages that arrived while nothing was reading count, however late it is. Endless output
            # without a message does not: the time-out still ends the wait.
            if left <= 0 and not self._messages and (not ready or left < -_LAST_WORDS_S):
                return None
        return self._messages.popleft()

    def add(self, process: Process, message: Message | None) -> None:
        """Append a message to those that `next` returns."""
        self._messages.append((process, message))

    def register(self, end: socket.socket, act: Callable[[int], None]) -> None:
        """Call *act* whenever there is something to read."""
        self._selector.register(end, selectors.EVENT_READ, act)

    def wait_for_room(self, end: socket.socket, *, waits: bool) -> None:
        """Also call the function when the stream can be written to, as long as *waits* is true."""
        if known := self._selector.get_map().get(end.fileno()):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            self._selector.modify(end, events, known.data)

    def forget(self, end: socket.socket) -> None:
        """Stop watching a socket."""
        with contextlib.suppress(KeyError, ValueError):  # already forgotten, or even closed
            self._selector.unregister(end)

    def close(self) -> None:
        """Stop watching all sockets."""
        self._selector.close()


class Process:
    """A process. Its watch gets each of its messages except the first, which means that it is *ready*."""

    def __init__(self, command: Sequence[str], watch: Watch) -> None:
        self.ready = False
        self.complaints: deque[str] = deque(maxlen=20)  # the last lines on its standard error
        self._watch = watch
        self._unsent, self._unread, self._complaint = bytearray(), bytearray(), b""
        self._waits = False  # for room to write
        with contextlib.ExitStack() as stack:
            self._talk, its_talk = _pair(stack)
            self._errors, its_errors = _pair(stack)
            start = _start if _STREAMS_MAY_BE_SOCKETS else _start_with_pipes
            self._process, self._clean_up = start(command, its_talk, its_errors)
            stack.pop_all()
        watch.register(self._talk, self._on_stream)
        watch.register(self._errors, self._on_errors)

    @property
    def ending(self) -> str:
        """A description of how the process ended."""
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def send(self, message: Message) -> None:
        """Send a message. If the socket is full, the rest is sent later."""
        self._unsent += framed(message)
        self._write()

    def kill(self) -> None:
        """End the process and its child processes; may be called from any thread.

        The watch notices the end.
        """
        if self._process.returncode is None and sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def close(self, patience_s: float = 0.0) -> None:
        """End the process, even if it is busy, unless it ends of its own accord within *patience_s*."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        if patience_s:
            self._read_last_errors()
        for end in (self._talk, self._errors):
            self._watch.forget(end)
            end.close()
        self._clean_up()

    def _on_stream(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._read()
        if events & selectors.EVENT_WRITE:
            self._write()

    def _write(self) -> None:
        """Send as much as there is room for. The watch reports when there is room again."""
        try:
            while self._unsent:
                del self._unsent[: self._talk.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, and the watch notices that
            self._unsent.clear()
        if self._waits != bool(self._unsent):
            self._waits = not self._waits
            self._watch.wait_for_room(self._talk, waits=self._waits)

    def _read(self) -> None:
        """Read the available bytes and assemble messages from them."""
        piece = _received(self._talk)
        self._unread += piece
        try:
            for message in _complete_messages(self._unread):
                if self.ready:
                    self._watch.add(self, message)
                self.ready = True
        except (EOFError, TypeError, ValueError):  # its further output cannot be split into messages
            piece = b""
        if not piece:
            self._watch.forget(self._talk)
            self._watch.add(self, None)

    def _on_errors(self, _events: int) -> None:
        if not self._complain(_received(self._errors)):
            self._watch.forget(self._errors)

    def _complain(self, piece: bytes) -> bytes:
        *lines, self._complaint = (self._complaint + piece).split(b"\n")
        self.complaints += (line.decode("utf-8", "replace").rstrip() for line in lines)
        return piece

    def _read_last_errors(self) -> None:
        """Read the rest of its standard error."""
        self._errors.settimeout(_LAST_WORDS_S)
        while self._complain(_received(self._errors)):
            pass
        if self._complaint:
            self._complain(b"\n")


def _complete_messages(unread: bytearray) -> Iterator[Message]:
    """Remove and yield each complete message."""
    while len(unread) >= (end := 8 + int.from_bytes(unread[:8], "big")):
        yield marshal.loads(unread[8:end])  # noqa: S302 - of our own script
        del unread[:end]


def _received(end: socket.socket) -> bytes:
    """Return the bytes available now; empty if the stream has ended."""
    try:
        return end.recv(_PIECE)
    except OSError:
        return b""


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return our end, which never blocks, and the process's end. *stack* closes both."""
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(ours.close)
    ours.settimeout(0.0)
    return ours, theirs


def _start(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Start a process with sockets as its streams. Return it, and a cleanup to run after it has ended."""
    process = subprocess.Popen(  # noqa: S603 - our own script
        command,
        stdin=talk.fileno(),
        stdout=talk.fileno(),
        stderr=errors.fileno(),
        env=without_secrets(os.environ),
        start_new_session=True,  # the front end handles an interrupt at the terminal
    )
    talk.close()
    errors.close()
    return process, lambda: None


def _start_with_pipes(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Start a process with pipes as its streams, and a thread for each pipe."""
    process = subprocess.Popen(  # noqa: S603 - our own script
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_secrets(os.environ),
        bufsize=0,
    )
    pipes = [stream for stream in (process.stdin, process.stdout, process.stderr) if stream is not None]
    directions = (
        (talk.recv, pipes[0].write, None),
        (pipes[1].read, talk.sendall, talk),
        (pipes[2].read, errors.sendall, errors),
    )
    threads = [threading.Thread(target=_copy_bytes, args=direction, daemon=True) for direction in directions]

    def leave() -> None:
        for end in (talk, errors):  # releases threads that wait for one of them
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for pipe in pipes:
            with contextlib.suppress(OSError):  # it may not have read everything
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


def _copy_bytes(
    read: Callable[[int], bytes], write: Callable[[bytes], int | None], into: socket.socket | None
) -> None:
    """Copy bytes from one end to the other until one is closed. Then close the socket *into* for writing."""
    with contextlib.suppress(OSError):
        while piece := read(_PIECE):
            while piece:
                piece = piece[
                    write(piece) or len(piece) :
                ]  # a pipe says how much it took, a socket takes all
    if into is not None:
        with contextlib.suppress(OSError):
            into.shutdown(socket.SHUT_WR)
