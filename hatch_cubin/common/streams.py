"""Write to standard streams, which may be closed or full, and make foreign text safe to print."""

from __future__ import annotations

import errno
import os
import re

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO


_COLOURS = {"error": "1;31", "warning": "1;33", "hint": "1;36"}
# The commands of GitHub Actions, Azure Pipelines and TeamCity: the first form at the beginning of a line,
# after blanks, the second form anywhere. These services may ignore invisible characters.
_COMMAND = re.compile(r"(?m)^([^!-~\n]*):(?=[^\x00-\x7f]*:)")
_TAGGED = re.compile(r"#(?=[^\x00-\x7f]*#(?:[^\x00-\x7f]|[A-Za-z])*\[)")
_WORDS = r"(?m)^(hatch-cubin[a-z ]*: (?!hint)|  (?=hint))(error|warning|hint):"


def plain(text: str) -> str:
    """Return *text* without anything that controls a terminal or a CI service.

    It may contain names, lines of sources and compiler messages that other people chose. All printed text
    goes through here, except the progress line on a terminal, JSON, and our own annotations. Line ends and
    tabs are kept.
    """
    if not text.isprintable():
        shown = (char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
        text = "".join(shown)
    text = _COMMAND.sub(lambda found: f"{found[1].removesuffix(' ')}\\:", text)  # a caret below still fits
    return _TAGGED.sub(r"#\\", text)


def one_line(text: str) -> str:
    """Return *text* as one safe line."""
    return plain(text.replace("\n", "\\n"))


def one_message(text: str) -> str:
    """Return *text* safe to print. All lines but the first are indented: none looks like a new message."""
    return re.sub(r"\n(?=\S)", "\n  ", plain(text))


def write(stream: TextIO | None, text: str) -> None:
    """Write *text* at once, or raise an OSError. After an error, Python does not try again at exit."""
    if stream is None:  # the stream was closed when Python started
        raise OSError(errno.EBADF, "it is closed")
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _forget(stream)
        raise


def print_message(stream: TextIO | None, message: str) -> None:
    """Write a message for people, with its first word in colour if the stream shows colours."""
    message = plain(message)
    write(stream, f"{coloured(message) if takes_colour(stream) else message}\n")


def takes_colour(stream: TextIO | None) -> bool:
    """Return whether to use colour. As for Python itself, NO_COLOR wins over FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (os.environ.get("TERM") != "dumb" and is_terminal(stream))


def coloured(message: str) -> str:
    """Return a message with colour on the words `error:`, `warning:` and `hint:`."""
    return re.sub(_WORDS, lambda found: f"{found[1]}\x1b[{_COLOURS[found[2]]}m{found[2]}:\x1b[0m", message)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed meanwhile
        return False


class Lossy:
    """A block in which errors of writing to *stream* are ignored: no build fails because of its reader."""

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
    """Drop buffered text: Python would write it again at exit, and the process would fail."""
    try:
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):  # not a real file, or closed meanwhile
        return
    try:
        os.dup2(nowhere, number)
        stream.flush()
    finally:
        os.dup2(kept, number)
        os.close(kept)
        os.close(nowhere)
