"""Every text of the code that shows a line of the table: the line is all that follows, and it is TOML."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from hatch_cubin.config import reader, toml_positions
from tests.helpers import REPOSITORY

KEYS = "|".join([*reader._CHECKS, *reader._SOURCE_CHECKS])
LINE = re.compile(rf"(?:^|(?<=[ :]))(?:{KEYS}) = (?=\S).*", re.DOTALL)
PRODUCED = re.compile(
    r"pasted$|(?:[\w.]+\.)?(?:pasted|silencing|source_table|setting)\(|[\w.]*setting\.line\("
)
# What is said of a line that stands there already, and the loader's words for those who cannot mend it.
SAID = (
    "toolkit = …: the toolkit's patch level is not checked, because the wheel cuda-toolkit is not installed",
    "toolkit = …, but the installed",
    "archs = ['native'] needs a GPU",
)


def texts() -> Iterator[str]:
    """Yield every text of the code, with `…` for what it fills in and a mark for the lines of a producer."""
    for path in (REPOSITORY / "hatch_cubin").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        inside |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield "".join(map(shown, node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield node.value


def shown(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return "\npasted\n" if PRODUCED.match(ast.unparse(part.value)) else "…"


TEXTS = sorted({*texts()})
LINES = [match[0] for text in TEXTS if (match := LINE.search(text)) and not match[0].startswith(SAID)]


def test_there_are_such_texts() -> None:
    toolkits = {line for line in LINES if line.startswith("toolkit = ")}
    assert toolkits == {
        'toolkit = "….9"',
        'toolkit = "12.9"',
        'toolkit = "13"',
        'toolkit = "13.0"',
        'toolkit = "13.3.0"',
        'toolkit = "…"',
    }
    assert sum("\npasted\n" in text for text in TEXTS) > 10


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_a_text_shows_is_toml_to_its_end(line: str) -> None:
    assert toml_positions.loads(line)


@pytest.mark.parametrize("text", [text for text in TEXTS if "\npasted\n" in text])
def test_nothing_follows_the_lines_that_a_hint_shows(text: str) -> None:
    before, _mark, after = text.partition("\npasted\n")
    assert after == ""
    assert before.strip() == "" or before.endswith((":", ": "))
