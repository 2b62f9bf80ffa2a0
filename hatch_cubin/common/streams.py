"""Standard streams, which may be closed, full, or read by nobody."""

from __future__ import annotations

import errno
import os
import re

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO


_COLOURS = {"error": "1;31", "warning": "1;33", "hint": "1;36"}
# What GitHub Actions, Azure Pipelines and TeamCity take for a command: the first at the beginning of a line,
# behind blanks, the second wherever it stands. They may ignore characters that nobody sees.
_COMMAND = re.compile(r"(?m)^([^!-~\n]*):(?=[^\x00-\x7f]*:)")
_TAGGED = re.compile(r"#(?=[^\x00-\x7f]*#(?:[^\x00-\x7f]|[A-Za-z])*\[)")
_WORDS = r"(?m)^(hatch-cubin[a-z ]*: (?!hint)|  (?=hint))(error|warning|hint):"


def plain(text: str) -> str:
    """Return *text* so that it cannot steer a terminal or a service that reads the output of its jobs.

    Others chose the names, the lines of sources and the messages of compilers in it. All that is printed goes
    through here, except the escapes of progress on a terminal, JSON, and our own annotations. Lines and tabs
    stay.
    """
    if not text.isprintable():
        shown = (char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
        text = "".join(shown)
    text = _COMMAND.sub(lambda found: f"{found[1].removesuffix(' ')}\\:", text)  # a caret below still fits
    return _TAGGED.sub(r"#\\", text)


def one_line(text: str) -> str:
    """Return a plain text as one line."""
    return plain(text.replace("\n", "\\n"))


def one_message(text: str) -> str:
    """Return a plain text of which only the first line can begin as messages do."""
    return re.sub(r"\n(?=\S)", "\n  ", plain(text))


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


def tell(stream: TextIO | None, message: str) -> None:
    """Write a message for people, its first words in colour where the stream takes that."""
    message = plain(message)
    write(stream, f"{coloured(message) if takes_colour(stream) else message}\n")


def takes_colour(stream: TextIO | None) -> bool:
    """Say whether colour is wanted: as for Python itself, NO_COLOR counts most, then FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (os.environ.get("TERM") != "dumb" and is_terminal(stream))


def coloured(message: str) -> str:
    """Return a message with colour on the word that says what it is, and on that before a hint."""
    return re.sub(_WORDS, lambda found: f"{found[1]}\x1b[{_COLOURS[found[2]]}m{found[2]}:\x1b[0m", message)


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
