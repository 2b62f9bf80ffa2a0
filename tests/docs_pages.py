"""Pages of the documentation, as tests read them: sections, tables, blocks of code."""

from __future__ import annotations

import re

from tests.helpers import REPOSITORY

PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path.read_text("utf-8")
    for path in sorted(REPOSITORY.rglob("*.md"))
    if not {".venv", ".hatch"} & set(path.relative_to(REPOSITORY).parts)
}


def page(name: str) -> str:
    """Return the text of a page of `docs/`."""
    return PAGES[f"docs/{name}.md"]


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    match = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert match, f"there is no section {heading!r}"
    return match[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row of every table, without heads and rules."""
    tables = re.findall(r"^\|.*\n\| --- .*\n((?:\|.*\n)*)", text, re.MULTILINE)
    return [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for table in tables
        for line in table.splitlines()
    ]


def code(cell: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return what a link can lead to in a page, as forges name headings."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
