"""Change settings in a TOML text without changing anything else: comments, layout and line ends.

Each function parses the changed text, to check that only the requested setting has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .toml_positions import Path, Scanner, loads


class Setting(NamedTuple):
    """A key and its value, both as TOML text."""

    key: str
    value: str
    comment: str = ""


def add_settings(text: str, table: Sequence[str], settings: Sequence[Setting]) -> str:
    """Return a TOML *text* in which *settings* are added to one table.

    Raise ValueError if existing lines would have to change.
    """
    values = loads("".join(_lines(settings)))
    return _first_equal(text, _merged(_parsed(text), table, values), _candidates(text, table, settings))


def add_items(text: str, array: Sequence[str], items: Sequence[str]) -> str:
    """Return *text* with *items* added to an array. Each item is a TOML text.

    Raise ValueError if the items cannot be added.
    """
    present: Any = _parsed(text)
    for part in array:
        present = present[part]
    if not isinstance(present, list):
        raise ValueError(f"{'.'.join(array)} is not an array")
    added = loads(f"items = [{', '.join(items)}]")["items"]
    expected = _merged(_parsed(text), array[:-1], {array[-1]: [*present, *added]})
    spans = _Spans(text)
    if tuple(array) in spans.values:
        longer = _lengthened(text, spans, tuple(array), len(present), items)
        return _first_equal(text, expected, iter([longer]))
    return _first_equal(text, expected, iter([_with_tables(text, array, added)]))


def replace_value(text: str, key: Sequence[str], written: str) -> str:
    """Return *text* with another value for an existing key.

    Raise ValueError if *key* is the header of a table.
    """
    expected = _merged(_parsed(text), key[:-1], {key[-1]: loads(f"value = {written}")["value"]})
    start, end = _span(text, key)
    return _first_equal(text, expected, iter([f"{text[:start]}{written}{text[end:]}"]))


def remove_key(text: str, key: Sequence[str]) -> str:
    """Return *text* without an existing key and its value."""
    value, end = _span(text, key)
    start = re.search(r"""[\w"'. \t-]*=?[ \t]*\Z""", text[:value])
    assert start is not None  # the pattern also matches an empty text
    return _first_equal(text, _without(_parsed(text), key), _shortened(text, start.start(), end))


def _shortened(text: str, start: int, end: int) -> Iterator[str]:
    """Remove a range from the text in three ways, and yield each result, because only some are valid TOML.

    The function removes first all lines of the range, then only the range and a comma before the range, and
    last only the range and a comma after the range.
    """
    yield text[: text.rfind("\n", 0, start) + 1] + text[(text.find("\n", end) + 1) or len(text) :]
    yield re.sub(r",?\s*\Z", "", text[:start]) + text[end:]
    yield text[:start] + re.sub(r"\A\s*,?", "", text[end:])


def _span(text: str, key: Sequence[str]) -> tuple[int, int]:
    try:
        return _Spans(text).values[tuple(key)]
    except KeyError:
        raise ValueError(f"{'.'.join(key)} is not a plain value") from None


class _Spans(Scanner):
    """Finds, in a TOML text, the start and end of each value, and the end of each table's header line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.values: dict[Path, tuple[int, int]] = {}
        self.headers: dict[Path, int] = {}
        self.scan()

    def header(self) -> Path:
        path = super().header()
        self.headers[path] = min(self.at + 1, len(self.text))
        return path

    def value(self, path: Path) -> None:
        self.skip_blank()
        start = self.at
        super().value(path)
        self.values[path] = start, start + len(self.text[start : self.at].rstrip())


def _candidates(text: str, table: Sequence[str], settings: Sequence[Setting]) -> Iterator[str]:
    """Yield candidates: the text with *settings* in each possible position, the most readable text first."""
    yield f"{_with_line_end(text)}[{'.'.join(table)}]\n{''.join(_lines(settings))}"
    spans = _Spans(text)
    for length in reversed(range(len(table) + 1)):
        outer, inner = tuple(table[:length]), "".join(f"{part}." for part in table[length:])
        if outer in spans.values:  # an inline table
            end = len(text[: spans.values[outer][1] - 1].rstrip())
            inside = ", ".join(f"{inner}{setting.key} = {setting.value}" for setting in settings)
            comma = "" if text[:end].endswith("{") else ","
            yield f"{text[:end]}{comma} {inside}{text[end:]}"
        if outer in spans.headers or not outer:
            at = spans.headers.get(outer, 0)
            yield _with_line_end(text[:at], blank=False) + "".join(_lines(settings, inner)) + text[at:]


def _lines(settings: Sequence[Setting], inner: str = "") -> Iterator[str]:
    for setting in settings:
        comment = f"# {setting.comment}\n" if setting.comment else ""
        yield f"{comment}{inner}{setting.key} = {setting.value}\n"


def _with_line_end(text: str, *, blank: bool = True) -> str:
    """Return *text* with a line end; if *blank* is true, add an empty line.

    An empty text is returned unchanged.
    """
    if not text:
        return ""
    return text + "\n" * (not text.endswith("\n")) + "\n" * blank


def _lengthened(text: str, spans: _Spans, array: Path, count: int, items: Sequence[str]) -> str:
    """Return the text of a TOML file with *items* added after the last item of an array.

    Each item gets its own line if the array's closing bracket is on a later line than the last item.
    """
    start, end = spans.values[array]
    if not count:
        return f"{text[: start + 1]}{', '.join(items)}{text[start + 1 :]}"
    final: Path = (*array, count - 1)
    first, last = spans.values[final]
    blank = re.sub(r"#[^\n]*", lambda match: " " * len(match[0]), text[last : end - 1])
    comma = last + blank.find(",") + 1 if "," in blank else 0
    head = text[:comma] if comma else f"{text[:last]},"
    tail = text[comma or last : end - 1]
    if "\n" not in tail:
        return f"{head} {', '.join(items)}{tail}{text[end - 1 :]}"
    indent = text[text.rfind("\n", 0, first) + 1 : first]
    indent = indent if not indent.strip() else "  "
    body, newline, closing = tail.rpartition("\n")
    lines = "".join(f"\n{indent}{item}," for item in items)
    return f"{head}{body}{lines}{newline}{closing}{text[end - 1 :]}"


def _with_tables(text: str, array: Sequence[str], items: Sequence[Mapping[str, str]]) -> str:
    """Return the text of a TOML file with one more `[[table]]` at the end for each item."""
    for item in items:
        pairs = "".join(f'{key} = "{value}"\n' for key, value in item.items())
        text = f"{_with_line_end(text)}[[{'.'.join(array)}]]\n{pairs}"
    return text


def _first_equal(text: str, expected: Mapping[str, Any], candidates: Iterator[str]) -> str:
    """Return the first candidate text that parses to exactly *expected*."""
    only_crlf = "\r\n" in text and not re.search("(?<!\r)\n", text)
    for candidate in candidates:
        result = re.sub("(?<!\r)\n", "\r\n", candidate) if only_crlf else candidate
        if _has_content(result, expected):
            return result
    raise ValueError("the change is not possible without rewriting other lines")


def _has_content(text: str, expected: Mapping[str, Any]) -> bool:
    try:
        return _parsed(text) == expected
    except ValueError:
        return False


def _parsed(text: str) -> dict[str, Any]:
    return loads(text, parse_float=str)  # floats stay texts, because the number `nan` is not equal to itself


def _merged(tables: Any, path: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parsed TOML *tables* with *values* added to the table at *path*."""
    if not isinstance(tables, Mapping):
        raise ValueError("the existing value is not a table")
    if not path:
        return {**tables, **values}
    return {**tables, path[0]: _merged(tables.get(path[0], {}), path[1:], values)}


def _without(tables: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return parsed TOML *tables* without the key at *path*."""
    if len(path) == 1:
        return {key: value for key, value in tables.items() if key != path[0]}
    return {**tables, path[0]: _without(tables[path[0]], path[1:])}
