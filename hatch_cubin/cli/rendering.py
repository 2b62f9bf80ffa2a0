"""Show a report as lines for a terminal, or as Markdown for a pull request or the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..errors import Problem, in_order
from ..wheels.reading.report import ReportSection, ReportTable
from .verb_base import table

_MOST = 200_000  # The most characters of a report. GitHub accepts at most 1 MiB for the summary of a job.
_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]|~#@])")
_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def as_lines(parts: Iterable[ReportSection]) -> list[str]:
    """Return a report as lines of text with aligned columns, and an empty line between two sections."""
    lines: list[str] = []
    for part in parts:
        lines += [""] * bool(lines)
        lines.append(plain(part.title))
        lines += [f"  {plain(line)}" for line in part.lines]
        if part.table is not None:
            rows = [[*map(plain, row)] for row in (part.table.head, *part.table.rows)]
            lines += [f"  {line}" for line in table(rows, right=part.table.numbers)]
    return lines


def as_markdown(parts: Iterable[ReportSection]) -> list[str]:
    """Return a report as lines of Markdown. Characters with a meaning in Markdown are escaped."""
    lines = [line for part in parts for line in _markdown(part)]
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > _MOST:
            return [*lines[:number], "", f"… and {len(lines) - number} more lines"]
    return lines


def problem_parts(problems: Sequence[Problem], warnings: Sequence[Problem]) -> Iterator[ReportSection]:
    """Yield tables of problems and warnings, because the readers of a report do not see standard error."""
    for title, told in (("problems", problems), ("warnings", warnings)):
        if told:
            rows = [[str(each.where or ""), *_said(each)] for each in in_order(told)]
            yield ReportSection(title, (), ReportTable(["where", "what"], rows, names=[0]))


def _said(problem: Problem) -> list[str]:
    hint = () if problem.hint is None else (f"hint: {problem.hint}",)
    return ["; ".join((problem.what, *(detail.strip() for detail in problem.details), *hint))]


def _markdown(part: ReportSection) -> Iterator[str]:
    yield from (f"### {_escaped(part.title)}", "")
    for line in part.lines:
        yield from (_escaped(line), "")
    if part.table is not None:
        yield _row([_escaped(name) for name in part.table.head])
        yield _row(
            ["---:" if number in part.table.numbers else "---" for number in range(len(part.table.head))]
        )
        yield from (_row(_cells(part.table, row)) for row in part.table.rows)
        yield ""


def _cells(shown: ReportTable, row: Sequence[str]) -> list[str]:
    return [
        _code(cell) if number in shown.names and cell else _escaped(cell) for number, cell in enumerate(row)
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _MEANS_SOMETHING.sub(r"\\\1", plain(text).translate(_HTML))


def _code(text: str) -> str:
    """Return a name as Markdown code.

    The character | is escaped, because it would end the cell of a Markdown table.
    """
    name = plain(text).replace("`", "'").replace("|", r"\|")
    return f"`{name}`"


def plain(text: str) -> str:
    """Return *text* with escaped control characters, because a name in a wheel could control the terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
