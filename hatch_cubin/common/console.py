"""Show messages and progress while a build runs.

On a terminal, the progress line is redrawn several times a second. If the output is not a terminal, a plain
line is written every few seconds. A message is written in place of the progress line, which is then drawn
again below the message.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from . import streams

_REDRAW_S, _LINE_S = 0.2, 5.0
_SHORTEST_NAME = 16  # characters: a shorter part of a module's name would not identify the module


class Console:
    """Write the messages and the progress line of one build without mixing them."""

    def __init__(
        self,
        stream: TextIO | None,
        say: Callable[[str], object],
        warn: Callable[[str], object],
        *,
        every_s: float | None = None,
    ) -> None:
        self._stream = stream
        self._say, self._warn = say, warn
        self._terminal = streams.is_terminal(stream)
        self._every_s = every_s or (_REDRAW_S if self._terminal else _LINE_S)
        self._lock = threading.Lock()

    def say(self, message: str) -> None:
        """Write an informational message."""
        self._message(self._say, message)

    def warn(self, message: str) -> None:
        """Write a warning message."""
        self._message(self._warn, message)

    @contextlib.contextmanager
    def units(self, total: int, cached: int) -> Iterator[Progress]:
        """Show a progress line during the `with` block: *cached* of *total* units are done at the start."""
        progress, over = Progress(total, cached), threading.Event()
        drawer = threading.Thread(target=self._keep_drawing, args=(progress, over), daemon=True)
        drawer.start()
        try:
            yield progress
        finally:
            over.set()
            drawer.join()
            with self._lock:
                self._erase()

    def _keep_drawing(self, progress: Progress, over: threading.Event) -> None:
        while not over.wait(self._every_s):
            with self._lock:
                self._draw(progress)

    def _message(self, tell: Callable[[str], object], message: str) -> None:
        with self._lock:
            self._erase()
            with streams.Lossy(self._stream):
                tell(streams.one_message(message))

    def _draw(self, progress: Progress) -> None:
        if self._terminal:
            import shutil

            self._write(f"\r\x1b[K{progress.line(shutil.get_terminal_size().columns - 1)}")
        else:
            self._write(f"{progress.line()}\n")

    def _erase(self) -> None:
        if self._terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with streams.Lossy(self._stream):
            streams.write(self._stream, text)


class Progress:
    """The progress of one build: the build updates the numbers, and another thread prints them as a line."""

    def __init__(self, total: int, cached: int) -> None:
        self._total = total
        self._cached = cached
        self._compiled = 0
        self._running: dict[str, None] = {}
        self._start = time.monotonic()

    def started(self, unit: str) -> None:
        """Record that the compile of a unit has started."""
        self._running[unit] = None

    def finished(self, unit: str) -> None:
        """Record that the compile of a unit has ended, with or without success."""
        self._running.pop(unit, None)
        self._compiled += 1

    def found(self) -> None:
        """Record that a unit's result is now in the cache, because another build has compiled the unit."""
        self._cached += 1

    def line(self, columns: int | None = None) -> str:
        """Return the progress as one line.

        If the line is longer than *columns*, the name of the compiled module is shortened or left out. If the
        line is still too long, the number of cached units is left out too.
        """
        done = self._cached + self._compiled
        parts = [f"hatch-cubin: {done} of {self._total} units", f"{self._cached} cached"]
        if running := list(self._running):
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            parts.append(f"compiling {streams.plain(running[0])}{more}")
        if self._compiled:
            left = (time.monotonic() - self._start) / self._compiled * (self._total - done)
            parts.append(f"about {_duration(left)} left")
        line = ", ".join(parts)
        if columns is None or (over := _columns(line) - columns) <= 0:
            return line
        if running:
            name = streams.plain(running[0])
            if (room := _columns(name) - over) >= _SHORTEST_NAME:
                return line.replace(name, _shortened(name, room))
            parts.pop(2)
        if _columns(", ".join(parts)) > columns:
            parts.pop(1)
        return ", ".join(parts)[:columns]


def _shortened(name: str, columns: int) -> str:
    """Return the start and the end of a module's name, joined by "...", in at most *columns* columns.

    The end of the name is kept, because variants of a module differ only in the middle and at the end of
    their names.
    """
    start, end = name, name
    while _columns(start) > (columns - 3) // 2:
        start = start[:-1]
    while _columns(end) > columns - 3 - _columns(start):
        end = end[1:]
    return f"{start}...{end}"


def _columns(text: str) -> int:
    """Return how many columns a terminal needs for *text*: two for a wide character, none for an accent."""
    if text.isascii():
        return len(text)
    import unicodedata  # lazy import: few names have characters outside ASCII

    wide = (unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + sum(wide) - sum(map(bool, map(unicodedata.combining, text)))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
