"""Write to standard streams, which may be closed or full, and escape text that other people wrote."""

from __future__ import annotations

import errno
import os
import re

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO


_COLOURS = {"error": "1;31", "warning": "1;33", "hint": "1;36"}
# Both patterns match commands of CI services (GitHub Actions, Azure Pipelines, TeamCity) in printed text.
# _COMMAND matches a command at the beginning of a line or after blanks. _TAGGED matches a command anywhere in
# a line. The patterns allow invisible characters, because a CI service may ignore them.
_COMMAND = re.compile(r"(?m)^([^!-~\n]*):(?=[^\x00-\x7f]*:)")
_TAGGED = re.compile(r"#(?=[^\x00-\x7f]*#(?:[^\x00-\x7f]|[A-Za-z])*\[)")
_WORDS = r"(?m)^(hatch-cubin[a-z ]*: (?!hint)|  (?=hint))(error|warning|hint):"


def plain(text: str) -> str:
    """Return *text*, but escape all parts that a terminal or a CI service would obey as commands.

    Other people may have hidden commands in file names, source lines and compiler messages that hatch-cubin
    prints. All printed text goes through this function, except progress lines on a terminal, JSON output, and
    annotations for GitHub Actions. Line ends and tabs are not escaped.
    """
    if not text.isprintable():
        shown = (char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)
        text = "".join(shown)
    # the length of the line does not change, so a compiler's caret on the next line still points at the right
    # column
    text = _COMMAND.sub(lambda found: f"{found[1].removesuffix(' ')}\\:", text)
    return _TAGGED.sub(r"#\\", text)


def one_line(text: str) -> str:
    """Return *text* as a single line that is safe to print."""
    return plain(text.replace("\n", "\\n"))


def one_message(text: str) -> str:
    """Return *text* with escapes, so that it is safe to print as one message.

    Lines after the first are indented, so that no line looks like a new message.
    """
    return re.sub(r"\n(?=\S)", "\n  ", plain(text))


def write(stream: TextIO | None, text: str) -> None:
    """Write *text* to *stream* and flush the stream; raise OSError if this fails."""
    if stream is None:  # the stream was closed when Python started
        raise OSError(errno.EBADF, "the stream is closed")
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _forget(stream)
        raise


def print_message(stream: TextIO | None, message: str) -> None:
    """Write a message to *stream*.

    The word `error:`, `warning:` or `hint:` is in colour if the stream shows colours.
    """
    message = plain(message)
    write(stream, f"{coloured(message) if takes_colour(stream) else message}\n")


def takes_colour(stream: TextIO | None) -> bool:
    """Return whether messages on *stream* should have colours; NO_COLOR takes precedence over FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (os.environ.get("TERM") != "dumb" and is_terminal(stream))


def coloured(message: str) -> str:
    """Return *message* with the words `error:`, `warning:` and `hint:` in colour."""
    return re.sub(_WORDS, lambda found: f"{found[1]}\x1b[{_COLOURS[found[2]]}m{found[2]}:\x1b[0m", message)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream was closed
        return False


class Lossy:
    """A context manager that ignores failed writes to *stream*, so that no build fails because of output."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        """Enter the `with` block."""

    def __exit__(
        self, kind: type[BaseException] | None, _raised: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, (OSError, ValueError)):
            return False
        if self._stream is not None:
            _forget(self._stream)
        return True


def _forget(stream: TextIO) -> None:
    """Drop the text in the stream's buffer; otherwise, Python would fail to write this text when it exits."""
    try:
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):  # the stream is not a real file, or is closed
        return
    try:
        os.dup2(nowhere, number)
        stream.flush()
    finally:
        os.dup2(kept, number)
        os.close(kept)
        os.close(nowhere)
