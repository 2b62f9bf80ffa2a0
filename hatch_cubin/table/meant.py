"""What a value of the wrong type was meant to be, as the table's line. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import _gpus
from . import checks, lines, names, options
from .toml import loads

_ARRAYS = frozenset(
    {"archs", "sources", "exclude", "include-dirs", "header-packages", "instantiate", "trusted-keys"}
)
_LONGEST = 100
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NAMES = {
    "G": "debug",
    "device-debug": "debug",
    "maxrregcount": "max-register-count",
    "line-info": "lineinfo",
}
_DEFAULTS = re.compile(r"-{1,2}O[0-3]?")  # flags of nvcc's that change nothing here
_UNANNOTATED = (
    "device-as-default-execution-space = true takes functions that are not annotated as device code"
)
_OPTIONS = {
    "expt_relaxed_constexpr": _UNANNOTATED,
    "default_device": _UNANNOTATED,
    "expt_extended_lambda": "NVRTC takes lambdas in device code without it: leave it out",
    "extended_lambda": "NVRTC takes lambdas in device code without it: leave it out",
    "opt_level": "code is optimized without it: leave it out",
    "include_dirs": "it is a key of the table and no option",
    "defines": "macros are set with 'define', a key of the table",
}
_NUMBER_OF_STD = re.compile(r"(?:c|gnu|cpp)?(?:\+\+)?(11|14|17|20|23)", re.IGNORECASE)
_VERSION = re.compile(r"(?:cuda|cu|v|[\s=~>-])*([0-9]{1,2}(?:\.[0-9.]*[0-9])?)(?:\.\*)?")
_WHEELS = re.compile(r"cu([0-9]{2})([0-9])")  # as in the names of PyTorch's: cu130


def line(key: str, value: object) -> str | None:
    """Return the line that a key with a wrong value may have been meant as, if that is plain."""
    try:
        meant = _meant(key, value)
        shown = "" if meant is None else lines.setting(key, meant)
        loads(shown)
    except (TypeError, ValueError):  # a date, or a number that is too long to be written
        return None
    return shown if shown.isprintable() and 0 < len(shown) <= _LONGEST else None


def option(key: str, values: Mapping[str, object]) -> str | None:
    """Return what to do about one of the options that is unknown, or whose value is wrong."""
    name, value = key.replace("-", "_"), values[key]
    if name not in options.ALLOWED:
        return _OPTIONS.get(name)
    meant = _option(name, str(value))
    return None if meant is None or meant == value else lines.setting("options", {**values, key: meant})


def _option(name: str, text: str) -> str | int | None:
    if name == "std" and (match := _NUMBER_OF_STD.fullmatch(text)):
        return f"c++{match[1]}"
    if (switch := _SWITCHES.get(text.lower())) is not None:
        return switch
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _meant(key: str, value: object) -> Any:
    if key in _ARRAYS:
        return _array(key, [value] if isinstance(value, (str, int, float)) else value)
    if key in {"pack", "ship-sources", "provenance"}:
        return _SWITCHES.get(str(value).lower())
    known = _READERS.get(key)
    return None if known is None else known(value)


def _backend(value: object) -> str | None:
    return names.backend_meant(str(value))


def _jobs(value: object) -> int | None:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,2}", value) else None


def _package(value: object) -> str | None:
    home, src, path = str(value).partition("src/")
    name = path.strip("/").replace("/", ".") if src and home in {"", "./"} else str(value)
    name = name.replace("-", "_")
    return name if name != value and all(map(str.isidentifier, name.split("."))) else None


def _size(value: object) -> str | None:
    match = re.fullmatch(r"([0-9]+) *([kmgt])(i?)b?", str(value).lower())
    return f"{match[1]} {match[2].upper()}{match[3]}B" if match and int(match[1]) else None


def _define(value: object) -> dict[str, Any] | None:
    """Return the macros of `-DN=4` and the like."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        return None
    matches = [re.fullmatch(r"(?:-D *)?([A-Za-z_]\w*)(?:=(.*))?", str(item), re.ASCII) for item in items]
    return {match[1]: _typed(match[2]) for match in matches if match} if all(matches) else None


def _options(value: object) -> dict[str, Any] | None:
    """Return the options that flags of nvcc's are called here."""
    items = value.split() if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        return None
    bare = [item for item in map(str, items) if not _DEFAULTS.fullmatch(item)]
    matches = [re.fullmatch(r"--?([A-Za-z][\w-]*)(?:=(.*))?", item, re.ASCII) for item in bare]
    named = {_NAMES.get(match[1], match[1].replace("_", "-")): _typed(match[2]) for match in matches if match}
    known = all(name.replace("-", "_") in options.ALLOWED for name in named)
    return named if known and all(matches) else None


def _typed(text: str | None) -> Any:
    if text is None:
        return True
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _variants(value: object) -> dict[str, list[Any]] | None:
    """Return the values of each macro, where variants are listed one by one, or a value is no list."""
    tables = value if isinstance(value, list) else [value]
    found: dict[str, list[Any]] = {}
    for table in tables:
        if not isinstance(table, dict):
            return None
        for name, each in table.items():
            found.setdefault(name, []).extend(each if isinstance(each, list) else [each])
    return found if found and all(found.values()) else None


def _array(key: str, items: object) -> list[str] | None:
    if not isinstance(items, list) or any(isinstance(item, bool) for item in items):
        return None
    if key != "archs":
        return items if items and all(isinstance(item, str) and item for item in items) else None
    found = [_archs(str(item)) for item in items]
    return [arch for archs in found for arch in archs] if found and all(found) else None


def _archs(text: str) -> tuple[str, ...]:
    try:
        return (checks.arch(text),)
    except ValueError:
        return _gpus.archs_meant(text)


def _toolkit(value: object) -> str | None:
    """Return a release that is known: the one that is named, or the nearest to it."""
    text = str(value).lower()
    if text in {"latest", "newest", "cuda", "*"}:
        return str(max(checks.CUDA))
    match = _WHEELS.fullmatch(text) or _VERSION.fullmatch(text)
    if match is None:
        return None
    named = ".".join(filter(None, match.groups()))
    try:
        return checks.toolkit(named)
    except ValueError:
        major, minor = (*map(int, named.split(".")[:2]), None)[:2]
        assert major is not None
        if minor in checks.CUDA.get(major, {}):  # and the patch is not known
            return f"{major}.{minor}"
        return checks.newest_of(min(max(major, min(checks.CUDA)), max(checks.CUDA)))


def _source_roots(value: object) -> dict[str, str] | None:
    """Return the folders that are listed without names, each under its own."""
    ways = [value] if isinstance(value, str) else value
    if not isinstance(ways, list) or not ways:
        return None
    roots: dict[str, str] = {}
    for way in map(checks.folder_above, ways):
        roots[checks.root_name(way.rpartition("/")[2], roots)] = way
    return roots


def above(path: str, *, is_file: bool = False) -> str | None:
    """Return how a path that leads out of the project can be told, if a folder above has it."""
    match = re.fullmatch(r"((?:\.\./)+([^\W_][\w.-]*))(/.*)?", path)
    if match is None:
        return None
    there, name, rest = match.groups()
    if is_file and not rest and "." in name:
        return f"'source-roots' names folders above: put {name} into one of these, or into the project"
    return (
        f'\'source-roots\' names folders above: with {name} = "{there}" there, this is "{name}{rest or ""}"'
    )


_READERS: dict[str, Callable[[object], Any]] = {
    "backend": _backend,
    "cache-size": _size,
    "max-size": _size,
    "define": _define,
    "jobs": _jobs,
    "options": _options,
    "package": _package,
    "source-roots": _source_roots,
    "toolkit": _toolkit,
    "variants": _variants,
}
