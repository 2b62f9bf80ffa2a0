"""Sections of a report about wheels, for a terminal, Markdown and HTML: lines of text and a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class ReportTable(NamedTuple):
    """A table: the names of its columns, its rows, and which columns have numbers or names of code."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    names: Collection[int] = ()
    marked: Collection[str] = ()  # cells with bad news, to be highlighted


class ReportSection(NamedTuple):
    """A section of a report: its title, lines of text, and a table."""

    title: str
    lines: Sequence[str] = ()
    table: ReportTable | None = None


def kernel_title(module: str, kernel: str) -> str:
    """Return the name of a kernel for people, with its module if that has another name."""
    return kernel if module == kernel else f"{kernel} in {module}"
