"""The sections and tables of a report about wheels, for a terminal, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...bundle.manifest import is_of_call

_DIGITS = 12  # of the key of a call, as in messages of the loader


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
    """Return the name of a kernel, followed by the name of its module if the two names differ.

    The name of a module for a recorded call of CuPy or cuda.core contains a long key, which is shortened.
    """
    shown = module[: module.index(":") + 1 + _DIGITS] if is_of_call(module) else module
    return kernel if module == kernel else f"{kernel} in {shown}"
