"""Standard streams, which may be closed, full, or read by nobody."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO


def write(stream: TextIO | None, text: str) -> None:
    """Write *text* at once, or raise an OSError that has no sequel when the process ends."""
    if stream is None:  # so Python has those that were closed when it started
        raise OSError(errno.EBADF, "it is closed")
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _forget(stream)
        raise


def is_terminal(stream: TextIO | None) -> bool:
    """Say whether a person sees at once what is written."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed since
        return False


class Lossy:
    """A block in which messages that *stream* does not take are lost: no build fails for its reader."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, (OSError, ValueError)):
            return False
        if self._stream is not None:
            _forget(self._stream)
        return True


def _forget(stream: TextIO) -> None:
    """Drop what waits to be written: Python would try again at exit, and fail the process."""
    try:
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):  # a stream of somebody else's making, or closed since
        return
    try:
        os.dup2(nowhere, number)
        stream.flush()
    finally:
        os.dup2(kept, number)
        os.close(kept)
        os.close(nowhere)
