"""Standard streams that are closed, full, or nobody's to write to."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from hatch_cubin.common import streams
from tests import hostile_texts

WRITES = """\
import sys
from hatch_cubin.common import streams
from tests import hostile_texts
try:
    streams.write(sys.{stream}, "text")
except OSError as exc:
    sys.exit(7)
"""


def shell(program: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a shell does that closes or redirects its streams."""
    command = f'exec "$0" -c "$1" {redirection}'
    environ = os.environ | {"PYTHONUNBUFFERED": ""}
    return subprocess.run(
        ["sh", "-c", command, sys.executable, program],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )


def test_what_is_written_is_there_at_once() -> None:
    class Stream(io.StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    flushed: list[str] = []
    streams.write(Stream(), "text")
    assert flushed == ["text"]


def test_a_stream_that_was_closed_at_the_start_is_an_error() -> None:
    with pytest.raises(OSError, match="the stream is closed") as caught:
        streams.write(None, "text")
    assert caught.value.strerror == "the stream is closed"


@pytest.mark.linux
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("how", [">/dev/full 2>/dev/full", ">&- 2>&-"], ids=["full", "closed"])
def test_what_failed_once_does_not_fail_again_at_exit(stream: str, how: str) -> None:
    """Python would end with 120, and say so where it can."""
    done = shell(WRITES.format(stream=stream), how)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


@pytest.mark.linux
def test_a_stream_that_failed_is_what_it_was() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        before = os.fstat(full.fileno())
        with pytest.raises(OSError, match="No space left on device"):
            streams.write(full, "text")
        assert os.path.samestat(os.fstat(full.fileno()), before)


def closed() -> TextIO:
    stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, io.StringIO(), closed()], ids=["none", "no file", "closed"])
@pytest.mark.parametrize("error", [OSError, ValueError])
def test_messages_that_cannot_be_told_are_lost(stream: TextIO | None, error: type[Exception]) -> None:
    with streams.Lossy(stream):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_no_other_error_is_lost(error: type[BaseException]) -> None:
    with pytest.raises(error), streams.Lossy(None):
        raise error


def test_where_a_message_is_told_nothing_is_lost(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w", encoding="utf-8") as stream, streams.Lossy(stream):
        streams.write(stream, "text")
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("stream", [None, io.StringIO(), closed()], ids=["none", "no file", "closed"])
def test_what_no_person_sees_is_no_terminal(stream: TextIO | None) -> None:
    assert not streams.is_terminal(stream)


# Colour


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "colour"),
    [
        (Screen(), {}, True),
        (Screen(), {"NO_COLOR": "1"}, False),
        (Screen(), {"NO_COLOR": ""}, True),
        (Screen(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": ""}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (None, {}, False),
    ],
)
def test_colour_is_for_terminals_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, stream: TextIO | None, environ: dict[str, str], *, colour: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert streams.takes_colour(stream) is colour


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("hatch-cubin: error: a: b", "hatch-cubin: \x1b[1;31merror:\x1b[0m a: b"),
        ("hatch-cubin cache gc: error: a", "hatch-cubin cache gc: \x1b[1;31merror:\x1b[0m a"),
        ("hatch-cubin: warning: error: a", "hatch-cubin: \x1b[1;33mwarning:\x1b[0m error: a"),
        ("a\n  error: b\n  hint: c", "a\n  error: b\n  \x1b[1;36mhint:\x1b[0m c"),
        ("hatch-cubin: 2 errors", "hatch-cubin: 2 errors"),
        ("error: a hint: b", "error: a hint: b"),
    ],
)
def test_the_words_that_say_what_a_message_is_have_colour(
    monkeypatch: pytest.MonkeyPatch, message: str, shown: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    streams.print_message(screen := Screen(), message)
    streams.print_message(paper := io.StringIO(), message)
    assert (screen.getvalue(), paper.getvalue()) == (f"{shown}\n", f"{message}\n")


# What others wrote


@pytest.mark.parametrize("text", hostile_texts.TEXTS, ids=ascii)
@pytest.mark.parametrize("form", ["{}", "  {}", "x\n{}\ny", "error: {}", "\t\n{}"])
def test_nothing_that_others_wrote_is_a_command(text: str, form: str) -> None:
    said = form.format(text)
    for shown in (streams.plain(said), streams.one_line(said), streams.one_message(said)):
        assert hostile_texts.commands(shown) == []
        assert hostile_texts.steering(shown) == ""
        assert streams.plain(shown) == shown


@pytest.mark.parametrize("text", hostile_texts.COMMANDS, ids=ascii)
def test_the_texts_would_be_commands(text: str) -> None:
    """And so the test above can fail."""
    assert hostile_texts.commands(text) or hostile_texts.steering(text)


@pytest.mark.parametrize(
    "text",
    ["", "a\n\tb\n", "a::b", "std::min(::max(a, b))", "# a", "## a [b]", "é ü 日本", "k.cu:3: x", "a##b"],
)
def test_what_commands_nothing_stays_as_it_is(text: str) -> None:
    assert streams.plain(text) == text


def test_a_caret_stays_below_its_column() -> None:
    assert streams.plain("    ::f(x);\n      ^") == "   \\::f(x);\n      ^"


def test_only_the_first_line_of_a_message_begins_as_messages_do() -> None:
    assert streams.one_message("a\nhatch-cubin: b\n  c\n\nd") == "a\n  hatch-cubin: b\n  c\n\n  d"


def test_a_long_text_takes_no_long_time() -> None:
    """Each pattern looks at each character a few times: this would take minutes otherwise."""
    for piece in (" ", "\n", "#", "##", "é", "#é", ":", ": ", "##a", "\u034f"):
        assert len(streams.plain(piece * 200_000)) >= 200_000 * len(piece)
