"""The codes of problems, as the package's calls of `problem` have them, and the page that lists them.

`hatch run errors` adds rows for new messages and removes those of codes that are gone. The last column,
which says what a user can do, is written by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.helpers import REPOSITORY

PAGE = REPOSITORY / "docs/reference/errors.md"
_ROW = re.compile(r"\| `([a-z0-9-]+)` \| (.*?) \| (.*) \|", re.ASCII)
_SECTIONS = {  # where new codes of a room go; others go into the last section
    "config": "## In the table",
    "frontends": "## Around another build backend",
    "project": "## About sources",
    "planning": "## About sources",
    "producing": "## About sources",
    "keys": "## About sources",
    "headers": "## About sources",
    "toolkit": "## About the compiler",
    "compiling": "## About the compiler",
    "cache": "## Signatures",
    "lockfile": "## `cubin.lock`",
    "cli": "## On the command line",
}
_LAST = "## In a wheel"


class Raised(NamedTuple):
    """A call of `problem`: its code, the text in the source, and the room."""

    code: str
    message: str
    room: str


def raised() -> list[Raised]:
    """Return each call of `problem` in the package, sorted by code."""
    package = REPOSITORY / "hatch_cubin"
    calls = [
        Raised(*call, path.relative_to(package).parts[0])
        for path in sorted(package.rglob("*.py"))
        for call in _calls(ast.parse(path.read_text("utf-8")))
    ]
    return sorted(calls)


def _calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        texts = sorted(_assigned(function), key=lambda text: text[0])
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _called(node) in {"problem", "failure", "self._error"}:
                code, message = node.args[:2]
                if _called(node) == "failure" and isinstance(code, ast.Name):  # passes on what it was given
                    continue
                assert isinstance(code, ast.Constant), (
                    f"the code is written where it is raised: {ast.unparse(node)}"
                )
                if isinstance(message, ast.Name):
                    known = (text for line, name, text in texts if name == message.id and line < node.lineno)
                    message = [message, *known][-1]
                yield str(code.value), _message(message)


def _called(call: ast.Call) -> str:
    """Return the name of the called function: the functions above have a code and a text first."""
    return ast.unparse(call.func).removeprefix("diagnostics.")


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[int, str, ast.expr]]:
    """Yield each assignment to a name in a function: its line, the name and the value."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets, values = node.targets, [node.value]
            if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                targets, values = targets[0].elts, node.value.elts
            for target, value in zip(targets, values, strict=False):
                if isinstance(target, ast.Name):
                    yield node.lineno, target.id, value


def _message(node: ast.expr) -> str:
    """Return the text of an expression, with … for each part that is known only at run time."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        return re.sub("…+", "…", "".join(map(str, parts)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _message(node.left) + _message(node.right)
    return "…"


def listed() -> dict[str, list[tuple[str, str]]]:
    """Return the messages of each code on the page, each with its advice; a row may have several messages."""
    found: dict[str, list[tuple[str, str]]] = {}
    for match in filter(None, map(_ROW.fullmatch, PAGE.read_text("utf-8").splitlines())):
        found.setdefault(match[1], []).extend((each, match[3]) for each in match[2].split("<br>"))
    return found


def expected() -> dict[str, set[str]]:
    """Return the messages of each code that stand beside it in the source, as cells of the page."""
    messages: dict[str, set[str]] = {}
    for code, message, _room in raised():
        messages.setdefault(code, set()).update({f"`{message}`".replace("|", "\\|")} - {"`…`"})
    return messages


def main() -> None:
    """Add a row for each message that the page does not have, and remove the rows of codes that are gone."""
    cells, rooms, known = expected(), {code: room for code, _message, room in raised()}, listed()
    lines = []
    for line in PAGE.read_text("utf-8").splitlines():
        match = _ROW.fullmatch(line)
        if match is None or match[1] in cells:
            lines.append(line)
    for code in sorted(cells):
        start = lines.index(_SECTIONS.get(rooms[code], _LAST))
        end = next(
            number for number, line in enumerate(lines) if number > start and line.startswith("| --- ")
        )
        missing = cells[code] - {message for message, _advice in known.get(code, [])}
        lines[end + 1 : end + 1] = [f"| `{code}` | {message} |  |" for message in sorted(missing)]
    PAGE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
