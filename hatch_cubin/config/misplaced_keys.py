"""Find keys of hatch-cubin in tables of other tools, where users add them by mistake at a file's end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import Problem, problem
from .known_names import HOOK, inside
from .toml_positions import Path, TableLocation, loads

_OWN_TABLES = (("tool", "hatch-cubin"), ("hooks", HOOK))
# Users choose the keys of such tables, so a key may be the name of a package, of a task or of a variable.
_NAMES_OF_USERS = re.compile(r"(.*[-_])?(aliases|dependencies|env|extras?|map|scripts|sources|tasks|vars)")
_ARCH = re.compile(r"(?:sm|compute)_[0-9]+[af]?")
_RELEASE = re.compile(r"1[0-9](?:\.[0-9]+){0,2}|system")


def _is_size(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _has_texts(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and any(pattern.match(str(each)) for each in value)


# The keys that no other known tool has with such a value. For example, uv has `sources`, `exclude` and
# `cache-keys`, and cibuildwheel has `archs`, but with the names of processors.
_UNMISTAKABLE: Mapping[str, Callable[[Any], bool]] = {
    "archs": _has_texts(_ARCH),
    "cache-size": _is_size,
    "header-packages": _has_texts(re.compile("[A-Za-z]")),
    "max-size": _is_size,
    "pack": _is_boolean,
    "provenance": _is_boolean,
    "remote-cache": lambda value: isinstance(value, str) and "://" in value,
    "ship-sources": _is_boolean,
    "toolkit": lambda value: isinstance(value, str) and bool(_RELEASE.fullmatch(value)),
    "trusted-keys": _has_texts(re.compile("ed25519:")),
}


def misplaced_keys(place: TableLocation) -> Iterator[Problem]:
    """Yield a warning for each key of hatch-cubin that is in a table of another tool."""
    tables = loads(place.text)
    tools = {"tool": inside(tables, "tool")} if place.table[0] == "tool" else tables
    for path in _keys_like_ours(tools, ()):
        header = ".".join(part for part in path[:-1] if isinstance(part, str))
        header = f"[[{header}]]" if isinstance(path[-2], int) else f"[{header}]"
        where = TableLocation(place.file, place.text, ()).of(*path)
        what = f"{path[-1]!r} is an option of {place}, but {header} contains this line"
        yield problem("key-in-wrong-table", what, where, place.moved_up(header))


def _keys_like_ours(table: object, path: Path) -> Iterator[Path]:
    """Search *table* and its inner tables for keys that only hatch-cubin has, and yield their paths."""
    if path[-2:] in _OWN_TABLES or (path and _NAMES_OF_USERS.fullmatch(str(path[-1]))):
        return
    if isinstance(table, list):  # perhaps an array of tables
        for index, element in enumerate(table):
            yield from _keys_like_ours(element, (*path, index))
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if path and key in _UNMISTAKABLE and _UNMISTAKABLE[key](value):
            yield (*path, key)
        else:
            yield from _keys_like_ours(value, (*path, key))
