"""Exchange messages with worker processes: a single thread reads from all processes without blocking.

The standard streams of a worker process are sockets, which a selector can watch on every system. On Windows,
streams cannot be sockets, so threads copy the bytes between pipes and sockets.
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
# The longest time-out of a selector, in seconds. Some systems limit the number of milliseconds.
_LONGEST_S = 86_400.0
# How many seconds to read the output of a process after its end: child processes of the process may still
# write.
_LAST_WORDS_S = 1.0

Message: TypeAlias = "dict[str, Any]"
_Started: TypeAlias = "tuple[subprocess.Popen[bytes], Callable[[], None]]"


class WorkerMessages:
    """Waits for messages from worker processes, and keeps them until the method `next` returns them.

    The message None reports that a process has ended.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._messages: deque[tuple[Process, Message | None]] = deque()

    def next(self, seconds: float) -> tuple[Process, Message | None] | None:
        """Return the next message and its process; None if no message arrives within *seconds*."""
        until = time.monotonic() + seconds
        while not self._messages:
            left = until - time.monotonic()
            ready = self._selector.select(max(0.0, min(left, _LONGEST_S)))
            for key, events in ready:
                key.data(events)
            # A message that arrived before the time-out is returned, even if this thread reads the message
            # later. A process that writes endlessly without completing a message cannot delay the time-out.
            if left <= 0 and not self._messages and (not ready or left < -_LAST_WORDS_S):
                return None
        return self._messages.popleft()

    def add(self, process: Process, message: Message | None) -> None:
        """Add a message from *process*. A later call of `next` returns the process and the message."""
        self._messages.append((process, message))

    def register(self, end: socket.socket, act: Callable[[int], None]) -> None:
        """Arrange that the function *act* is called whenever the socket *end* has data to read."""
        self._selector.register(end, selectors.EVENT_READ, act)

    def wait_for_room(self, end: socket.socket, *, waits: bool) -> None:
        """Choose the events for which the function of the socket *end* is called.

        If *waits* is true, the function is called when the socket has received data or can send data. If
        *waits* is false, the function is called only when the socket has received data.
        """
        if known := self._selector.get_map().get(end.fileno()):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            self._selector.modify(end, events, known.data)

    def forget(self, end: socket.socket) -> None:
        """Stop watching a socket."""
        with contextlib.suppress(KeyError, ValueError):  # The socket was already unregistered or closed.
            self._selector.unregister(end)

    def close(self) -> None:
        """Stop watching all sockets."""
        self._selector.close()


class Process:
    """A worker process.

    The first message from a process says that the process is ready. All messages after the first are added to
    *messages*.
    """

    def __init__(self, command: Sequence[str], messages: WorkerMessages) -> None:
        self.ready = False
        # The last lines of the process's standard error.
        self.complaints: deque[str] = deque(maxlen=20)
        self._messages = messages
        self._unsent, self._unread, self._complaint = bytearray(), bytearray(), b""
        # Whether some data could not be sent yet, because the send buffer of the socket is full.
        self._waits = False
        with contextlib.ExitStack() as stack:
            self._talk, its_talk = _pair(stack)
            self._errors, its_errors = _pair(stack)
            start = _start if _STREAMS_MAY_BE_SOCKETS else _start_with_pipes
            self._process, self._clean_up = start(command, its_talk, its_errors)
            stack.pop_all()
        messages.register(self._talk, self._on_stream)
        messages.register(self._errors, self._on_errors)

    @property
    def ending(self) -> str:
        """The exit code or signal with which the process ended, as text."""
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def send(self, message: Message) -> None:
        """Send a message to the process without blocking.

        If the socket's buffer is full, the rest is sent later.
        """
        self._unsent += framed(message)
        self._write()

    def kill(self) -> None:
        """Kill the process and its child processes. Any thread may call `kill`.

        After the process was killed, `WorkerMessages.next` returns the message None for the process.
        """
        if self._process.returncode is None and sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def close(self, patience_s: float = 0.0) -> None:
        """Wait *patience_s* seconds for the process to end, then kill it, and free its resources."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        if patience_s:
            self._read_last_errors()
        for end in (self._talk, self._errors):
            self._messages.forget(end)
            end.close()
        self._clean_up()

    def _on_stream(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._read()
        if events & selectors.EVENT_WRITE:
            self._write()

    def _write(self) -> None:
        """Send as much data as the socket accepts now; the rest is sent when the socket accepts more data."""
        try:
            while self._unsent:
                del self._unsent[: self._talk.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # The process has ended, so reading from its socket fails.
            self._unsent.clear()
        if self._waits != bool(self._unsent):
            self._waits = not self._waits
            self._messages.wait_for_room(self._talk, waits=self._waits)

    def _read(self) -> None:
        """Read the available bytes, and assemble messages from the bytes."""
        piece = _received(self._talk)
        self._unread += piece
        try:
            for message in _complete_messages(self._unread):
                if self.ready:
                    self._messages.add(self, message)
                self.ready = True
        except (
            EOFError,
            TypeError,
            ValueError,
        ):  # The process has written invalid data, which cannot be divided into messages.
            piece = b""
        if not piece:
            self._messages.forget(self._talk)
            self._messages.add(self, None)

    def _on_errors(self, _events: int) -> None:
        if not self._complain(_received(self._errors)):
            self._messages.forget(self._errors)

    def _complain(self, piece: bytes) -> bytes:
        *lines, self._complaint = (self._complaint + piece).split(b"\n")
        self.complaints += (line.decode("utf-8", "replace").rstrip() for line in lines)
        return piece

    def _read_last_errors(self) -> None:
        """Read the last lines that the process has written to standard error."""
        self._errors.settimeout(_LAST_WORDS_S)
        while self._complain(_received(self._errors)):
            pass
        if self._complaint:
            self._complain(b"\n")


def _complete_messages(unread: bytearray) -> Iterator[Message]:
    """Remove each complete message from *unread*, and yield the messages."""
    while len(unread) >= (end := 8 + int.from_bytes(unread[:8], "big")):
        yield marshal.loads(unread[8:end])  # noqa: S302 - hatch-cubin's own script has written the data
        del unread[:end]


def _received(end: socket.socket) -> bytes:
    """Return the bytes that can be read from a socket now; empty if the process has closed the socket."""
    try:
        return end.recv(_PIECE)
    except OSError:
        return b""


def _pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets: a non-blocking socket for the build, and a socket for the worker process.

    Closing *stack* closes both sockets.
    """
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(ours.close)
    ours.settimeout(0.0)
    return ours, theirs


def _start(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Start a process with sockets as standard streams; return the process and a clean-up function."""
    process = subprocess.Popen(  # noqa: S603 - hatch-cubin's own script
        command,
        stdin=talk.fileno(),
        stdout=talk.fileno(),
        stderr=errors.fileno(),
        env=without_secrets(os.environ),
        start_new_session=True,  # Ctrl-C in the terminal must interrupt only the main process of the build.
    )
    talk.close()
    errors.close()
    return process, lambda: None


def _start_with_pipes(command: Sequence[str], talk: socket.socket, errors: socket.socket) -> _Started:
    """Start a process with pipes as standard streams, and threads that copy between pipes and sockets."""
    process = subprocess.Popen(  # noqa: S603 - hatch-cubin's own script
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
        # Shutting down a socket ends a thread that is blocked on it.
        for end in (talk, errors):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for pipe in pipes:
            with contextlib.suppress(OSError):  # Closing fails if the process has not read all its data.
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
    """Copy bytes from *read* to *write* until one of the two streams is closed.

    If *into* is given, shut down the writing side of this socket at the end.
    """
    with contextlib.suppress(OSError):
        while piece := read(_PIECE):
            while piece:
                # `write` of a pipe may accept only a part of the bytes. `sendall` of a socket always sends
                # all bytes and returns None.
                piece = piece[write(piece) or len(piece) :]
    if into is not None:
        with contextlib.suppress(OSError):
            into.shutdown(socket.SHUT_WR)
