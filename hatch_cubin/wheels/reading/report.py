"""The sections and tables of a report about wheels, for a terminal, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class ReportTable(NamedTuple):
    """A table of a report: the names of its columns, and its rows.

    *numbers* are the columns with numbers. *names* are the columns with names from the code, such as names of
    kernels.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    names: Collection[int] = ()
    marked: Collection[str] = ()  # The texts of table cells that are highlighted as warnings.


class ReportSection(NamedTuple):
    """A section of a report: its title, lines of text, and a table."""

    title: str
    lines: Sequence[str] = ()
    table: ReportTable | None = None


def kernel_title(module: str, kernel: str) -> str:
    """Return the name of a kernel, followed by the name of its module if the two names differ."""
    return kernel if module == kernel else f"{kernel} in {module}"
