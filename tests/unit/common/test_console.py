"""What a person sees while a build runs."""

from __future__ import annotations

import io
import threading
import time
import unicodedata

import pytest

from hatch_cubin.common.console import Console, Progress

ERASE = "\r\x1b[K"


class Screen(io.StringIO):
    """A stream that says when something was drawn on it."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        count = super().write(text)
        if "hatch-cubin" in text:
            self.drawn.set()
        return count


def _console_on(screen: Screen) -> Console:
    return Console(
        screen,
        say=lambda message: screen.write(f"say {message}\n"),
        warn=lambda message: screen.write(f"warn {message}\n"),
        every_s=0.001,
    )


@pytest.mark.parametrize(
    ("started", "finished", "line"),
    [
        ([], [], "hatch-cubin: 3 of 9 units, 3 cached"),
        (["a for sm_80"], [], "hatch-cubin: 3 of 9 units, 3 cached, compiling a for sm_80"),
        (["a", "b", "c"], [], "hatch-cubin: 3 of 9 units, 3 cached, compiling a and 2 more"),
        (["a", "b"], ["a", "a"], "hatch-cubin: 5 of 9 units, 3 cached, compiling b, about 4 s left"),
        (["a"], ["a"], "hatch-cubin: 4 of 9 units, 3 cached, about 10 s left"),
    ],
)
def test_a_line_says_how_far_a_build_is(
    monkeypatch: pytest.MonkeyPatch, started: list[str], finished: list[str], line: str
) -> None:
    clock = iter([100.0, 102.0])  # two seconds pass
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = Progress(total=9, cached=3)
    for unit in started:
        progress.started(unit)
    for unit in finished:
        progress.finished(unit)
    assert progress.line() == line


def test_what_another_build_compiled_counts_as_cached() -> None:
    progress = Progress(total=9, cached=3)
    progress.found()
    assert progress.line() == "hatch-cubin: 4 of 9 units, 4 cached"


def test_long_times_are_told_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = Progress(total=4, cached=0)
    progress.finished("a")
    assert progress.line() == "hatch-cubin: 1 of 4 units, 0 cached, about 5 min 0 s left"


def test_a_terminal_has_one_line_that_is_drawn_again_and_gone_at_the_end() -> None:
    screen = Screen(terminal=True)
    with _console_on(screen).units(4, 1):
        assert screen.drawn.wait(30)
    first, *_more, last = screen.getvalue().split(ERASE)[1:]
    assert (first, last) == ("hatch-cubin: 1 of 4 units, 1 cached", "")
    assert "\n" not in screen.getvalue()


def test_elsewhere_there_are_plain_lines() -> None:
    screen = Screen(terminal=False)
    with _console_on(screen).units(4, 1):
        assert screen.drawn.wait(30)
    assert set(screen.getvalue().splitlines()) == {"hatch-cubin: 1 of 4 units, 1 cached"}


def test_a_line_is_cut_where_the_terminal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen(terminal=True)
    with _console_on(screen).units(4, 1):
        assert screen.drawn.wait(30)
    assert screen.getvalue().split(ERASE)[1] == "hatch-cubin: 1 of 4"


@pytest.mark.parametrize(("terminal", "before"), [(True, ERASE), (False, "")])
def test_a_message_takes_the_place_of_the_line(*, terminal: bool, before: str) -> None:
    screen = Screen(terminal=terminal)
    console = _console_on(screen)
    console.say("one")
    console.warn("two")
    assert screen.getvalue() == f"{before}say one\n{before}warn two\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stream_that_is_closed_ends_no_build(*, terminal: bool) -> None:
    class Gone(Screen):
        def write(self, text: str) -> int:
            self.drawn.set()
            raise BrokenPipeError

    screen = Gone(terminal=terminal)
    with Console(screen, print, print, every_s=0.001).units(4, 1):
        assert screen.drawn.wait(30)


def test_a_stream_that_was_closed_at_the_start_ends_no_build(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(None, print, print, every_s=0.001)
    console.say("one")
    with console.units(4, 1):
        console.warn("two")
    assert capsys.readouterr().out == "one\ntwo\n"


def test_messages_that_a_stream_does_not_take_end_no_build() -> None:
    def tell(message: str) -> None:
        told.append(message)
        raise OSError(28, "No space left on device")

    told: list[str] = []
    console = Console(Screen(terminal=True), tell, tell)
    console.say("one")
    console.warn("two")
    assert told == ["one", "two"]


def test_a_terminal_is_drawn_more_often_than_a_log() -> None:
    often = Console(Screen(terminal=True), print, print)._every_s
    seldom = Console(Screen(terminal=False), print, print)._every_s
    assert often < 1 < seldom


@pytest.mark.parametrize("terminal", [True, False])
def test_what_others_named_steers_no_terminal(*, terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    console = _console_on(screen)
    console.warn("\x1b[2J\x07 in a warning\n  that an earlier build gave")
    with console.units(2, 0) as progress:
        progress.started("\x1b]0;title for sm_90")
        assert screen.drawn.wait(60)
    written = screen.getvalue().replace(ERASE, "")
    assert "warn \\x1b[2J\\x07 in a warning\n  that an earlier build gave\n" in written
    assert not {"\x1b", "\x07"} & {*written}


NAMES = (
    "k for sm_90",
    "attention[BLOCK=128,CAUSAL=1,HEAD=128,SCALAR=__nv_bfloat16] for sm_100a",
    "\u30ab\u30fc\u30cd\u30eb" * 12 + " for sm_90",
    "solve\u0301" * 20 + " for sm_90",
    "two\nlines" * 9,
)


@pytest.mark.parametrize("columns", range(40, 201, 8))
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_line_fits_its_terminal_and_says_how_long_the_rest_takes(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress(2000, 100)
    now += 30.0
    for each in ("a", "b"):
        progress.started(each)
        progress.finished(each)
    progress.started(name)
    progress.started("another")
    line = progress.line(columns)
    width = sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in line)
    assert width <= columns
    assert line.startswith("hatch-cubin: 102 of 2000 units"[:columns])
    if columns >= 60:
        assert line.endswith("about 474 min 30 s left")
    if columns >= 120:
        assert " and 1 more" in line
    assert progress.line(400) == progress.line()


def test_too_narrow_a_terminal_gets_the_beginning() -> None:
    progress = Progress(2000, 100)
    progress.started("k")
    assert progress.line(20) == "hatch-cubin: 100 of "
