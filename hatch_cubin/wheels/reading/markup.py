"""Write a report as HTML: text from the wheel is escaped, wide tables scroll, and long names may wrap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from .report import ReportSection, ReportTable

_BREAKS = re.compile(r"([,\[]|::|&lt;)")


def section_html(part: ReportSection) -> str:
    """Return a section of a report as HTML."""
    lines = "".join(f"<p>{escaped(line)}</p>" for line in part.lines)
    table = "" if part.table is None else scrolling(_table(part.table), escaped(part.title))
    title = escaped(part.title).replace(" -&gt; ", " &rarr; ")
    return f"<h3>{title}</h3>{lines}{table}"


def _table(table: ReportTable) -> str:
    head = "".join(_cell("th", table, number, each) for number, each in enumerate(table.head))
    rows = "".join(f"<tr>{_row(table, row)}</tr>" for row in table.rows)
    return f'<table class="part"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _row(table: ReportTable, row: Sequence[str]) -> str:
    return "".join(_cell("td", table, number, each) for number, each in enumerate(row))


def _cell(kind: str, table: ReportTable, number: int, text: str) -> str:
    classes = ["number"] * (number in table.numbers)
    if kind == "td":
        classes += ["arch" if number else "name"] * (number in table.names) + ["warn"] * (
            text in table.marked
        )
    scope = ' scope="col"' if kind == "th" else ""
    shape = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{kind}{scope}{shape}>{breakable(text)}</{kind}>"


def scrolling(table: str, label: str) -> str:
    """Return a table in a box that scrolls, with a label for screen readers."""
    return f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">{table}</div>'


def breakable(name: str) -> str:
    """Return a name as HTML in which a line may break after commas, brackets and colons."""
    return _BREAKS.sub(r"\1<wbr>", escaped(name))


def escaped(value: object) -> str:
    """Return text from a wheel as escaped HTML, so that the text cannot contain elements."""
    return escape(str(value).encode("utf-8", "backslashreplace").decode("utf-8"))
