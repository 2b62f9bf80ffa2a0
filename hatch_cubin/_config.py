"""The hook's table → `Config`, or every problem at once with its place."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from . import _arch, _options, _reserved
from ._environment import read_environment
from ._toml import key_lines, line_of
from .errors import ConfigError, Location, Problem

HATCHLING_KEYS = frozenset(
    {
        "enable-by-default",
        "dependencies",
        "require-runtime-dependencies",
        "require-runtime-features",
    }
)
DEFAULT_SOURCES = ("**/*.cu", "**/*.ptx")
_WHOLE = range(-(2**63), 2**64)  # what a compiler has a type for

Macros = tuple[tuple[str, str], ...]
Variants = tuple[tuple[str, tuple[str | None, ...]], ...]  # None is not defined

_SIZE_UNITS: Mapping[str, int] = {"": 1, "B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGT", start=1)
    for infix, base in (("i", 1024), ("", 1000))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """What one [[source]] table sets for the sources that its path matches."""

    path: str
    name: str | None = None
    archs: tuple[str, ...] | None = None
    include_dirs: tuple[str, ...] = ()
    define: Macros = ()
    undefined: tuple[str, ...] = ()
    options: Mapping[str, _options.OptionValue] = field(default_factory=dict)
    instantiate: tuple[str, ...] = ()
    variants: Variants = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole table, checked; what the environment overrides is already merged in."""

    archs: tuple[str, ...] = ("all-major",)
    toolkit: str | None = None
    sources: tuple[str, ...] = DEFAULT_SOURCES
    exclude: tuple[str, ...] = ()
    package: str | None = None
    include_dirs: tuple[str, ...] = ()
    header_packages: tuple[str, ...] = ()
    define: Macros = ()
    options: Mapping[str, _options.OptionValue] = field(default_factory=dict)
    jobs: int | None = None
    cache_dir: str | None = None
    cache_size: int | None = None
    ship_sources: bool = False
    provenance: bool = False
    source: tuple[SourceRule, ...] = ()
    timeout_s: float = 1800.0
    replaced: frozenset[str] = field(default=frozenset(), compare=False)  # by variables
    place: Place = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where the table stands, so that a message can name the line of a key."""

    file: str
    text: str
    table: tuple[str, ...]

    def of(self, *path: str | int) -> Location:
        """Return the place of one key of the table, or of the table itself."""
        return Location(self.file, line_of(self._lines, (*self.table, *path)))

    def has(self, *path: str | int) -> bool:
        """Say whether a key is written there."""
        return (*self.table, *path) in self._lines

    @property
    def _lines(self) -> Mapping[tuple[str | int, ...], int]:
        try:
            return key_lines(self.text)
        except (ValueError, LookupError, RecursionError):
            return {}  # a place is a courtesy and must not hide the problem

    def __str__(self) -> str:
        return f"[{'.'.join(self.table)}]"

    @property
    def source_tables(self) -> str:
        """How a source table of this table is written."""
        return f"[[{'.'.join((*self.table, 'source'))}]]"


class _Reader:
    """Reads tables key by key and keeps every problem."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.problems: list[Problem] = []

    def table(
        self,
        checks: Mapping[str, Callable[..., Any]],
        table: Mapping[str, Any],
        path: tuple[str | int, ...],
    ) -> dict[str, Any]:
        """Return the checked values of *table* under their field names."""
        values = {}
        for key, value in table.items():
            if (check := checks.get(key)) is None:
                self._unknown(key, checks, path)
                continue
            try:
                values[key.replace("-", "_")] = check(value, self, (*path, key))
            except ValueError as exc:
                self.add(f"{key} {exc}", (*path, key))
        return values

    def add(self, what: str, path: tuple[str | int, ...], hint: str | None = None) -> None:
        self.problems.append(Problem(_short_line(what), self.place.of(*path), hint))

    def _unknown(self, key: str, known: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
        close = difflib.get_close_matches(key, known, n=1)
        inside = self.place.source_tables if path else str(self.place)
        self.add(
            f"{key!r} is not an option of {inside}",
            (*path, key),
            f"did you mean {close[0]!r}?" if close else None,
        )


def _short_line(text: str) -> str:
    """Return *text* as one line that a terminal can show, whatever a value or a quoted key holds."""
    return _cut("".join(char if char.isprintable() else repr(char)[1:-1] for char in _cut(text)))


def _cut(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:200]} … {text[-150:]}"


def parse_config(table: Mapping[str, Any], place: Place, environ: Mapping[str, str]) -> Config:
    """Return the configuration that *table* and *environ* ask for; ConfigError names all that is wrong."""
    reader = _Reader(place)
    own = {key: value for key, value in table.items() if key not in HATCHLING_KEYS}
    values = reader.table(_CHECKS, own, ())
    replaced, wrong = read_environment(environ, _VARIABLES)
    values |= replaced
    reader.problems += (Problem(_short_line(what)) for what in wrong)  # a variable has no line
    if reader.problems:
        raise ConfigError(*reader.problems)
    return Config(**values, replaced=frozenset(replaced), place=place)


def _arch_list(text: str) -> tuple[str, ...]:
    if not (specs := _arch.split_specs(text)):
        raise ValueError("must name at least one arch")
    return tuple(map(_checked_arch, specs))


def _whole_number(text: str) -> object:
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"must be a number of seconds, not {text!r}")
    return seconds


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"must be an array of strings, not {value!r}")
    return tuple(value)


def _each(check: Callable[[str], Any]) -> Callable[..., tuple[Any, ...]]:
    """Check an array of strings one by one, so that each bad one gets its own line."""

    def checked(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[Any, ...]:
        results = []
        for index, item in enumerate(_strings(value)):
            try:
                results.append(check(item))
            except ValueError as exc:
                reader.add(f"{path[-1]}: {exc}", (*path, index))
        return tuple(results)

    return checked


def _only(check: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda value, _reader, _path: check(value)


def _string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a string that is not empty, not {value!r}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {value!r}")
    return value


def _archs(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[str, ...]:
    if value == []:
        raise ValueError("must name at least one arch")
    return _each(_checked_arch)(value, reader, path)


def _checked_arch(text: str) -> str:
    try:
        _arch.parse_spec(text)
    except ValueError as exc:
        close = difflib.get_close_matches(text.lower(), _arch.GROUPS, n=1)
        guess = (
            f", did you mean {close[0]!r}?"
            if close
            else "; write sm_90, sm_90a, compute_90, 90-real, 9.0+PTX or all-major"
        )
        raise ValueError(f"{exc}{guess if 'is not an arch' in str(exc) else ''}") from None
    return text


def _checked_toolkit(value: object) -> str:
    text = _string(value)
    if text != "system" and not re.fullmatch(r"1[23](\.[0-9]{1,2}){0,3}", text):
        raise ValueError(
            f"must be a CUDA version such as '13', '13.0', '12.9' or '13.0.2', or 'system', not {text!r}"
        )
    return text


def _checked_jobs(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1024:
        return value
    raise ValueError(f"must be a whole number from 1 to 1024, not {value!r}")


def parse_size(value: object) -> int:
    """Return the bytes that a size such as '2 GiB' means."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) *([KMGT]?i?B?)", _string(value))
    unit = match and (match[2] if match[2] in _SIZE_UNITS else None)
    if not match or unit is None or float(match[1]) == 0:
        raise ValueError(f"must be a size such as '2 GiB', not {value!r}")
    return math.ceil(float(match[1]) * _SIZE_UNITS[unit])


def _checked_place(value: object) -> str:
    """Check a path that may lie anywhere."""
    text = _string(value)
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that no path should have")
    return text


def _checked_path(value: object) -> str:
    """Check a path or a glob that must stay inside the project."""
    text = _checked_place(value)
    parts = text.replace("\\", "/").split("/")
    if text.startswith(("/", "\\", "~")) or ":" in parts[0] or ".." in parts:
        raise ValueError(f"{text!r} must stay inside the project, relative to it")
    if "\\" in text:
        raise ValueError(f"{text!r} must be written with '/'")
    return str(PurePosixPath(text))


def _checked_package(value: object) -> str:
    text = _string(value)
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"must be a dotted name such as 'mypkg' or 'mypkg.gpu', not {text!r}")
    return text


def _checked_distribution(text: str) -> str:
    name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    pin = r"(?:===?|!=|~=|[<>]=?) *[A-Za-z0-9.*+!_-]+"
    if not re.fullmatch(rf"{name} *(?:{pin}(?: *, *{pin})*)?", text):
        raise ValueError(f"{text!r} is not the name of a distribution, such as 'nvidia-cutlass'")
    return text


def _checked_name(value: object) -> str:
    text = _string(value)
    if not text.isprintable() or any(char in text for char in '/\\[]<>"'):
        raise ValueError(f"must be a plain name, not {text!r}")
    return text


def _define(value: object, reader: _Reader, path: tuple[str | int, ...]) -> Macros:
    return tuple((name, text) for name, text in _macros(value, reader, path) if text is not None)


def _macros(value: object, reader: _Reader, path: tuple[str | int, ...]) -> list[tuple[str, str | None]]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of macros, not {value!r}")
    macros: list[tuple[str, str | None]] = []
    for name, item in value.items():
        try:
            _check_macro_name(name)
            macros.append((name, _macro_text(item)))
        except ValueError as exc:
            reader.add(f"define.{name} {exc}", (*path, name))
    return macros


def _check_macro_name(name: str) -> None:
    match = re.fullmatch(r"([A-Za-z_]\w*)(\([\w ,.]*\))?", name, re.ASCII)
    if not match:
        raise ValueError("is not a macro's name")
    if match[1] in (_reserved.CALLED if match[2] else _reserved.NAMES):
        raise ValueError(
            "cannot be a macro: NVRTC's own built-in header uses that name, and no source would compile"
        )


def _macro_text(value: object) -> str | None:
    """Return a macro's text: true is 1, numbers are as Python writes them; None is not defined."""
    if isinstance(value, bool):
        return "1" if value else None
    if value in _WHOLE if isinstance(value, int) else isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if not isinstance(value, str) or not all(char.isprintable() or char == "\t" for char in value):
        raise ValueError(f"must be a boolean, a number or a one-line string, not {value!r}")
    return value


def _option_table(
    value: object, reader: _Reader, path: tuple[str | int, ...]
) -> dict[str, _options.OptionValue]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table, not {value!r}")
    values: dict[str, _options.OptionValue] = {}
    for key, item in value.items():
        name = key.replace("-", "_")
        if reason := _options.REFUSED.get(name):
            reader.add(f"options.{key} cannot be set: {reason}", (*path, key))
        elif name not in _options.ALLOWED:
            close = difflib.get_close_matches(name, _options.ALLOWED, n=1)
            reader.add(
                f"options.{key} is not an option of cuda.core.ProgramOptions",
                (*path, key),
                f"did you mean {close[0]!r}?" if close else None,
            )
        elif name in values:
            reader.add(f"options.{key} is set twice, in two spellings", (*path, key))
        else:
            try:
                values[name] = _options.check_option(name, item)
                if name == "pre_include":  # a header that the keys must be able to see
                    for header in item if isinstance(item, list) else [item]:
                        _checked_path(header)
            except ValueError as exc:
                reader.add(f"options.{key} {exc}", (*path, key))
    return values


def _variants(value: object, reader: _Reader, path: tuple[str | int, ...]) -> Variants:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be a table of arrays such as {{ BLOCK = [128, 256] }}, not {value!r}")
    variants = []
    for name, items in value.items():
        try:
            _check_macro_name(name)
            if not isinstance(items, list) or not items:
                raise ValueError(f"must be an array of at least one value, not {items!r}")
            variants.append((name, tuple(dict.fromkeys(map(_macro_text, items)))))
        except ValueError as exc:
            reader.add(f"variants.{name} {exc}", (*path, name))
    return tuple(variants)


def _instantiation(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is not the name of a kernel, such as 'scale<float, 4>'")
    return text.strip()


def _sources(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[SourceRule, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"must be an array of tables, written as {reader.place.source_tables}")
    rules = []
    for index, table in enumerate(value):
        here = (*path, index)
        known = len(reader.problems)
        values = reader.table(_SOURCE_CHECKS, table, here)
        if "path" not in table:
            reader.add("a source table must say which sources it is for", here, 'path = "..."')
        if len(reader.problems) == known:
            undefined = tuple(name for name, item in table.get("define", {}).items() if item is False)
            rules.append(SourceRule(**values, undefined=undefined))
    return tuple(rules)


_CHECKS: dict[str, Callable[..., Any]] = {
    "archs": _archs,
    "toolkit": _only(_checked_toolkit),
    "sources": _each(_checked_path),
    "exclude": _each(_checked_path),
    "package": _only(_checked_package),
    "include-dirs": _each(_checked_path),
    "header-packages": _each(_checked_distribution),
    "define": _define,
    "options": _option_table,
    "jobs": _only(_checked_jobs),
    "cache-dir": _only(_checked_place),
    "cache-size": _only(parse_size),
    "ship-sources": _only(_boolean),
    "provenance": _only(_boolean),
    "source": _sources,
}
_SOURCE_CHECKS: dict[str, Callable[..., Any]] = {
    "path": _only(_checked_path),
    "name": _only(_checked_name),
    "archs": _archs,
    "include-dirs": _each(_checked_path),
    "define": _define,
    "options": _option_table,
    "instantiate": _each(_instantiation),
    "variants": _variants,
}
_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "HATCH_CUBIN_ARCHS": ("archs", _arch_list),
    "HATCH_CUBIN_TOOLKIT": ("toolkit", _checked_toolkit),
    "HATCH_CUBIN_JOBS": ("jobs", lambda text: _checked_jobs(_whole_number(text))),
    "HATCH_CUBIN_CACHE_DIR": ("cache_dir", _checked_place),
    "HATCH_CUBIN_TIMEOUT": ("timeout_s", _seconds),
}


def merge_macros(base: Macros, over: Macros, undefined: tuple[str, ...] = ()) -> Macros:
    """Merge two tables of macros: the later value wins, at the earlier place."""
    merged = dict(base) | dict(over)
    return tuple((name, text) for name, text in merged.items() if name not in undefined)
