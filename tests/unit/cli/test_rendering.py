"""Parts of an answer as lines and as Markdown: what others named stays text in both."""

from __future__ import annotations

from hatch_cubin.cli import rendering
from hatch_cubin.cli.rendering import as_lines, as_markdown, problem_parts
from hatch_cubin.errors import Location, Problem
from hatch_cubin.wheels.reading.report import ReportSection, ReportTable

PARTS = [
    ReportSection("first", ["a line"]),
    ReportSection(
        "second",
        (),
        ReportTable(["kernel", "size"], [["a", "10 B"], ["long", "2 B"]], numbers=[1], names=[0]),
    ),
]


def test_lines() -> None:
    assert as_lines(PARTS) == [
        "first",
        "  a line",
        "",
        "second",
        "  kernel  size",
        "  a       10 B",
        "  long     2 B",
    ]


def test_markdown() -> None:
    assert as_markdown(PARTS) == [
        "### first",
        "",
        "a line",
        "",
        "### second",
        "",
        "| kernel | size |",
        "| --- | ---: |",
        "| `a` | 10 B |",
        "| `long` | 2 B |",
        "",
    ]


EVIL = "<img src=x> @all `a`|b\n# [x](y) *z* ~q\\ \x1b[2J"


def test_what_others_named_is_no_markdown_and_steers_no_terminal() -> None:
    parts = [ReportSection(EVIL, [EVIL], ReportTable(["x", "y"], [[EVIL, ""]], names=[0, 1]))]
    escaped = r"&lt;img src=x&gt; \@all \`a\`\|b\\n\# \[x\](y) \*z\* \~q\\ \\x1b\[2J"
    assert as_markdown(parts) == [
        f"### {escaped}",
        "",
        escaped,
        "",
        "| x | y |",
        "| --- | --- |",
        r"| `<img src=x> @all 'a'\|b\n# [x](y) *z* ~q\ \x1b[2J` |  |",
        "",
    ]
    plain = EVIL.replace("\n", "\\n").replace("\x1b", "\\x1b")
    assert as_lines(parts)[:2] == [plain, f"  {plain}"]


def test_no_more_than_github_takes() -> None:
    lines = [f"line {number}" for number in range(100_000)]
    shown = as_markdown([ReportSection("many", lines)])
    assert sum(len(line) + 1 for line in shown) < 201_000
    assert shown[-1] == f"… and {len(lines) * 2 + 2 - len(shown) + 2} more lines"
    assert rendering._MOST < 1 << 20


def test_problems_are_a_table_in_their_order() -> None:
    problems = [
        Problem("late", Location("b", 2)),
        Problem("early", Location("a"), "mend it", ("  code", "more")),
        Problem("nowhere"),
    ]
    (wrong, warnings) = problem_parts(problems, [Problem("odd")])
    assert wrong.table is not None
    assert wrong.table.rows == [
        ["a", "early; code; more; hint: mend it"],
        ["b:2", "late"],
        ["", "nowhere"],
    ]
    assert (wrong.title, warnings.title) == ("problems", "warnings")
    assert [*problem_parts([], [])] == []
