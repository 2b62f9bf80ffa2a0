"""Find the line of each key in a TOML text, so that messages can name the line."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads

from ..errors import Location

__all__ = ["Path", "Scanner", "TableLocation", "key_lines", "line_of", "loads"]

Path = tuple[str | int, ...]

_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
_STATEMENT = re.compile(r"^[ \t]*(?:\[|[\w.\"'-][^=\n]*=)", re.MULTILINE)
_MOST_OF_A_SOURCE = 1_000_000  # how many bytes of a source are searched for a template
_FURTHER = 20  # how many more statements are tried after the statement that the binary search finds
_BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")
# How deep tables and arrays may be nested. Functions that call themselves for each level need a limit.
MAX_DEPTH = 100


# cached, because every message about the same file needs the lines of the file's keys
@functools.lru_cache(maxsize=8)
def key_lines(text: str) -> Mapping[Path, int]:
    """Return the line of every table, key and array element of *text*, which must be valid TOML."""
    return Scanner(text.replace("\r\n", "\n")).scan()


def broken_line(text: str) -> int | None:
    """Return the line on which the first statement begins that is invalid or nested too deep."""
    starts = [match.start() for match in _STATEMENT.finditer(text)]
    if not starts or not _is_toml(text[: starts[0]]):
        return None
    first, end = 0, len(starts)  # the text before the statement with the number `first` is valid TOML
    while end - first > 1:
        middle = (first + end) // 2
        first, end = (middle, end) if _is_toml(text[: starts[middle]]) else (first, middle)
    # A line inside an array may look like a statement, so the binary search may have stopped too early.
    for further in range(first + 1, min(first + _FURTHER, len(starts))):
        first = further if _is_toml(text[: starts[further]]) else first
    return text.count("\n", 0, starts[first]) + 1


def is_too_deep(table: Mapping[str, Any]) -> bool:
    """Return whether *table* has tables and arrays nested more than `MAX_DEPTH` levels deep."""
    level: list[Any] = [table]
    for _depth in range(MAX_DEPTH + 1):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
        if not level:
            return False
    return True


def _is_toml(text: str) -> bool:
    try:
        return not is_too_deep(loads(text))
    except (ValueError, RecursionError):
        return False


def line_of(lines: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of *path*, or of the nearest table or key around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


class TableLocation:
    """The file and position of hatch-cubin's table, so that messages can name the line of a key."""

    def __init__(self, file: str, text: str, table: tuple[str, ...], *, wraps: bool = False) -> None:
        self.file, self.text, self.table = file, text, table
        # whether the project uses `hatch_cubin.backend`, which wraps another build backend
        self.wraps = wraps
        self.root: str | None = None  # the project's folder, if it is known

    def of(self, *path: str | int) -> Location:
        """Return the location of a key of hatch-cubin's table, or of the table itself."""
        return Location(self.file, line_of(self._lines, (*self.table, *path)))

    def has(self, *path: str | int) -> bool:
        """Return whether hatch-cubin's table contains the key at *path*."""
        return (*self.table, *path) in self._lines

    def is_header(self, *path: str | int) -> bool:
        """Return whether an inner table has its own header, as in `[table.options]`."""
        line = self.of(*path).line
        return line is not None and self.text.splitlines()[line - 1].lstrip().startswith("[")

    def moved_up(self, from_header: str) -> str:
        """Return how to move a line from the table with the header *from_header* into hatch-cubin's table."""
        header, place = str(self), Location(self.file, self.of().line)
        if header in self.headers:
            return f"move the line from {from_header} to the lines below {header} ({place})"
        return f"move the line out of {from_header}, below a new header {header}"

    def how_to_set(self, key: str, line: str) -> str:
        """Return how to write *line*, which sets *key* of hatch-cubin's table, into the file."""
        if self.has(key):
            return f"replace {key!r} at {self.of(key)} with {line}"
        new = "" if str(self) in self.headers else "a new header "
        return f"write below {new}{self} the line {line}"

    @property
    def headers(self) -> list[str]:
        """The headers of hatch-cubin's table and its inner tables, as they are written in the file."""
        size, rows = len(self.table), self.text.splitlines()
        numbers = sorted({line for path, line in self._lines.items() if path[:size] == self.table})
        found = (rows[number - 1].partition("#")[0].strip() for number in numbers)
        return [*dict.fromkeys(header for header in found if header.startswith("["))] or [str(self)]

    def renamed(self, right: TableLocation) -> str:
        """Return how to rename this table and its inner tables: "[a] to [b] and [a.inner] to [b.inner]"."""
        old, new = (".".join(each.table) for each in (self, right))
        return " and ".join(f"{header} to {header.replace(old, new)}" for header in self.headers)

    def path_in_project(self, path: str) -> str | None:
        """Make an absolute path relative to the project; return None if the path is outside the project."""
        drives = {os.path.splitdrive(each)[0] for each in (path, self.root or "")}
        if self.root is None or not os.path.isabs(path) or len(drives) > 1:
            return None
        inner = os.path.relpath(path, self.root).replace(os.sep, "/")
        return None if inner.split("/")[0] in {os.pardir, os.curdir} else inner

    def is_folder(self, path: str) -> bool:
        """Return whether the project has a folder at this path; False if the project's place is unknown."""
        return self.root is not None and os.path.isdir(os.path.join(self.root, path))

    def source_with(self, name: str) -> str | None:
        """Return the project's first .cu file that contains the function *name*, if there is one."""
        function = re.compile(rf"\b{re.escape(name)}\s*\(".encode())
        for folder, folders, files in os.walk(self.root or os.devnull):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for path in (os.path.join(folder, file) for file in sorted(files) if file.endswith(".cu")):
                with contextlib.suppress(OSError), open(path, "rb") as source:
                    if function.search(source.read(_MOST_OF_A_SOURCE)):
                        return os.path.relpath(path, self.root).replace(os.sep, "/")
        return None

    def is_file(self, path: str) -> bool:
        """Return whether the project has a file at this path; False if the project's place is unknown."""
        return self.root is not None and os.path.isfile(os.path.join(self.root, path))

    @property
    def content(self) -> tuple[str, Sequence[str], Any] | None:
        """The name of the file, the keys that lead to the table, and the content of the table."""
        found = loads(self.text)
        for key in self.table:
            found = found.get(key, {})
        return (self.file, self.table, found) if self.text else None

    @property
    def _lines(self) -> Mapping[Path, int]:
        try:
            return key_lines(self.text)
        except (ValueError, LookupError, RecursionError):
            return {}  # without a line number, the message is still printed

    def __str__(self) -> str:
        return f"[{'.'.join(self.table)}]"

    def in_full(self, hint: str | None) -> str | None:
        """Return a hint in which the headers of inner tables, such as `[[…module]]`, are written in full."""
        return hint and hint.replace("[[…", f"[[{'.'.join(self.table)}.")

    @property
    def source_tables(self) -> str:
        """The TOML header of [[source]] tables, such as `[[tool.hatch-cubin.source]]`."""
        return self.tables("source")

    def tables(self, key: str) -> str:
        """Return the header of an array of tables, as in `[[tool.hatch-cubin.module]]`."""
        return f"[[{'.'.join((*self.table, key))}]]"


class Scanner:
    """Finds the positions of keys and values in a TOML text. tomllib interprets the values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._line, self._counted = 1, 0
        self._lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}

    def scan(self) -> Mapping[Path, int]:
        table: Path = ()
        while self.skip_blank():
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self._pair(table)
        return self._lines

    def skip_blank(self) -> bool:
        self.at = _match(_BLANK, self.text, self.at).end()
        return self.at < len(self.text)

    def _note(self, path: Path) -> None:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        for end in range(1, len(path) + 1):
            self._lines.setdefault(path[:end], self._line)

    def header(self) -> Path:
        is_array = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 1 + is_array
        path = self._inside_arrays(self._key(), new=is_array)
        self.at, end = start, self.text.find("\n", self.at)
        self._note(path)
        self.at = len(self.text) if end < 0 else end
        return path

    def _inside_arrays(self, keys: Path, *, new: bool) -> Path:
        """After each key that names an array of tables, insert the number of the array's current table."""
        path: Path = ()
        for position, key in enumerate(keys):
            path = (*path, key)
            if new and position == len(keys) - 1:
                self._counts[path] = self._counts.get(path, -1) + 1
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _key(self) -> Path:
        keys: list[str] = []
        while True:
            match = _match(_KEY, self.text, self.at)
            escaped, literal, bare, dot = match.groups()
            keys.append(loads(f'key = "{escaped}"')["key"] if escaped else literal or bare or "")
            self.at = match.end()
            if not dot:
                return tuple(keys)

    def _pair(self, table: Path) -> None:
        start = self.at
        path = (*table, *self._key())
        self.at, after = start, self.at
        self._note(path)
        self.at = self.text.index("=", after) + 1
        self.value(path)

    def value(self, path: Path) -> None:
        self.skip_blank()
        opening = self.text[self.at]
        if opening in "[{":
            self.at += 1
            self._members(path, "]" if opening == "[" else "}")
        else:
            pattern = _STRING if opening in "\"'" else _SCALAR
            self.at = _match(pattern, self.text, self.at).end()

    def _members(self, path: Path, closing: str) -> None:
        index = 0
        while self.skip_blank() and not self.text.startswith(closing, self.at):
            if closing == "]":
                self._note((*path, index))
                self.value((*path, index))
                index += 1
            else:
                self._pair(path)
        self.at += 1


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"not TOML at offset {at}")
    return match
