"""Parts of an answer about wheels, for a terminal, for Markdown and for a page alike: lines and a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class ReportTable(NamedTuple):
    """A table: the names of its columns, its rows, and which columns have numbers or names of code."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    names: Collection[int] = ()
    marked: Collection[str] = ()  # cells that are bad news


class ReportSection(NamedTuple):
    """A part of an answer: what it is about, lines of text, and a table."""

    title: str
    lines: Sequence[str] = ()
    table: ReportTable | None = None


def kernel_title(module: str, kernel: str) -> str:
    """Return what a kernel is called where its module may matter."""
    return kernel if module == kernel else f"{kernel} in {module}"
