"""The lock file `cubin.lock`, which users commit, and which lists all inputs of a project's compiles.

The lock file is sorted JSON with one line for each file, module and unit (a module for one arch). The lock
file contains neither times nor absolute paths. The lock file also contains a digest of its content, so two
branches that both changed the lock file always have a merge conflict. Merge conflicts in the lock file are
intended, because a mix of lines from two branches may be wrong.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..common import file_access, read_limits
from ..common.digest import file_digest
from ..errors import ConfigError, Location, problem

NAME = "cubin.lock"
SWITCH = "HATCH_CUBIN_LOCKED"  # if this switch is set, a build that does not match the lock file fails
HINT = "run 'hatch-cubin lock' to write the lock again"

_FORMAT = 1
_ABOUT = "written by 'hatch-cubin lock': commit it, do not edit it"
_DEPTH = 4  # values that are nested more deeply, such as the cache keys of a unit, are written in one line


class LockFile(NamedTuple):
    """The content of a lock file: facts for builds without a compiler, and inputs that must be unchanged."""

    # The version of hatch-cubin that wrote the lock file: another version may find other facts.
    generator: str
    data_model: str
    toolkit: str | None  # the value of the setting in the project's configuration
    header_packages: Sequence[str]
    builds: Mapping[str, Any]  # the versions of cuda.core and of the compilers, and the supported archs
    wheels: Mapping[str, str]  # the wheels that a build with a compiler installs, with their versions.
    # The header trees (such as a toolkit's headers) outside the project, with the version if the tree is from
    # a wheel.
    headers: Mapping[str, str | None]
    # The project's files that units read (a unit is a module for one arch), with the files' digests.
    files: Mapping[str, str]
    # The project's files that only sources without kernels include, with their digests.
    of_parts: Mapping[str, str]
    # For each folder: the names of included files that were not found in the folder, and that must not exist
    # there.
    absent: Mapping[str, Sequence[str]]
    # for each producer: its inputs, and the name, the digest and the settings of each generated source
    producers: Mapping[str, Mapping[str, Any]]
    parts: Mapping[str, Mapping[str, Any]]  # sources that are not modules, because other sources include them
    unsure: Sequence[str]  # Sources whose headers depend on the compiler's own headers.
    # The source, settings and units of each module, by the module's name.
    modules: Mapping[str, Mapping[str, Any]]


def encode(lock: LockFile) -> str:
    """Return the text of a lock file `cubin.lock` with the content *lock*."""
    rest = _body(lock)
    return f'{{\n "about": {json.dumps(_ABOUT)},\n "check": "{file_digest(rest.encode())}",\n{rest}'


def decode(text: str) -> LockFile:
    """Return the content of the lock file's *text*; ConfigError if it is damaged, or has another format."""
    try:
        values = json.loads(text)
        number, recorded_digest = values.pop("format"), values.pop("check")
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as exc:
        line = exc.lineno if isinstance(exc, json.JSONDecodeError) else None
        raise _damaged_lock("is not a valid lock, perhaps because of a merge", line) from None
    if recorded_digest != file_digest(text.split("\n", 3)[-1].encode()):
        raise _damaged_lock("was edited, or merged from two different locks", None)
    if number != _FORMAT:
        what = f"has format {number!r:.80}, but this version of hatch-cubin reads only format {_FORMAT}"
        raise ConfigError(problem("lock-of-other-version", what, Location(NAME), HINT))
    values.pop("about", None)
    if unknown := sorted(values.keys() - _FIELDS.keys()):
        raise _damaged_lock(f"has an unknown field: {unknown[0]!r:.80}", None)
    for name, is_sound in _FIELDS.items():
        if name not in values:
            raise _damaged_lock(f"does not have the field {name!r}", None)
        if not is_sound(values[name]):
            raise _damaged_lock(f"has an impossible value in the field {name!r}", None)
    return LockFile(**{name.replace("-", "_"): value for name, value in values.items()})


def read(root: Path) -> LockFile | None:
    """Return the content of the lock file of the project at *root*; None if there is no lock file."""
    path = os.path.join(root, NAME)
    try:
        # The lock file is read as text, because git may have changed the line ends.
        with io.TextIOWrapper(file_access.open_plain(path, read_limits.INDEX), encoding="utf-8") as file:
            return decode(file.read())
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(
            problem("file-not-readable", f"cannot be read: {exc.strerror}", Location(NAME))
        ) from exc
    except UnicodeDecodeError:
        raise _damaged_lock("is not a text file", None) from None


def _damaged_lock(what: str, line: int | None) -> ConfigError:
    return ConfigError(problem("lock-damaged", what, Location(NAME, line), HINT))


def _body(lock: LockFile) -> str:
    values = {name.replace("_", "-"): value for name, value in lock._asdict().items()}
    return "".join(_lines({"format": _FORMAT, **values}, 0))[2:] + "\n"


_Check: TypeAlias = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_name(value: object) -> bool:
    """Return whether a JSON value is a text without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _is_path(value: object) -> bool:
    """Return whether a JSON value can be a path.

    The path may contain lone surrogates, with which Python represents file names that are not Unicode.
    """
    try:
        return isinstance(value, str) and b"\0" not in value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _is_number(value: object) -> bool:
    return type(value) is int and value in _NUMBERS


def _matches(pattern: str) -> _Check:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: isinstance(value, str) and match(value) is not None


def _or_null(is_sound: _Check) -> _Check:
    return lambda value: value is None or is_sound(value)


def _list_of(is_sound: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(is_sound, value))


def _table_of(is_sound: _Check, names: _Check = _is_name) -> _Check:
    return lambda value: (
        isinstance(value, dict) and all(map(names, value)) and all(map(is_sound, value.values()))
    )


def _record(needed: Mapping[str, _Check], possible: Mapping[str, _Check] | None = None) -> _Check:
    fields = {**needed, **(possible or {})}
    return lambda value: (
        isinstance(value, dict)
        and needed.keys() <= value.keys() <= fields.keys()
        and all(fields[name](each) for name, each in value.items())
    )


def _is_option(value: object) -> bool:
    """Return whether a value has the type of a compiler option.

    Nothing else about the value is checked, because a build only compares the options in the lock file with
    the options of the project.
    """
    return all(type(each) in {bool, int, str} for each in (value if isinstance(value, list) else [value]))


def _is_unit(value: object) -> bool:
    """Return whether *value* is a unit's entry in a lock file: two cache keys, and the result's digest."""
    return (
        isinstance(value, list)
        and len(value) == len(_UNIT)
        and all(is_sound(each) for is_sound, each in zip(_UNIT, value, strict=True))
    )


_NUMBERS = range(1, 10_000)  # the valid numbers for major versions of CUDA and for archs
_KEY = _matches("(?:[0-9a-f]{2})+")
_UNIT = (_KEY, _or_null(_KEY), _or_null(_matches("[0-9a-f]{64}")))
_BUILD = _matches(r"[0-9]{1,4}(?:\.[0-9]{1,4}){2}")
_SETTINGS: Mapping[str, _Check] = {
    "define": _list_of(_is_text),
    "include-dirs": _list_of(_is_text),
    "instantiate": _list_of(_is_text),
    "link": _list_of(_is_text),
    "mode": _is_text,
    "options": _table_of(_is_option),
    "sources": _list_of(_is_text),
}
_BUILDS = {
    "core": _is_name,
    "major": _is_number,
    "nvrtc": _BUILD,
    "supported": lambda value: bool(value) and _list_of(_is_number)(value),
    "nvjitlink": _or_null(_BUILD),
    "tileiras": _or_null(_is_name),
}
_MODULE_FIELDS: Mapping[str, _Check] = {
    "source": _is_path,
    "headers": _is_text,
    "units": _table_of(_is_unit),
}
_DIGEST = _matches("[0-9a-f]{64}")
_PRODUCED: Mapping[str, _Check] = {
    "sha256": _DIGEST,
    # The code that reads a producer's settings checks these values.
    "settings": lambda value: isinstance(value, dict),
}
_PRODUCER: Mapping[str, _Check] = {
    "modules": _table_of(_DIGEST, _is_path),
    "files": _table_of(_DIGEST, _is_path),
    "folders": _table_of(_DIGEST, _is_path),
    "environment": _table_of(_or_null(_DIGEST)),
    "texts": _table_of(_record(_PRODUCED, {"key": _DIGEST, "ptx": _is_text, "tile": _is_text}), _is_path),
}
_FIELDS: Mapping[str, _Check] = {
    "generator": _is_name,
    "data-model": _is_name,
    "toolkit": _or_null(_is_name),
    "header-packages": _list_of(_is_name),
    "builds": _record(_BUILDS),
    "wheels": _table_of(_matches(r"[\w.+!-]+"), _matches(r"[\w.-]+")),
    "headers": _table_of(_or_null(_is_name)),
    "files": _table_of(_is_text, _is_path),
    "of-parts": _table_of(_is_text, _is_path),
    "absent": _table_of(_list_of(_is_path), _is_path),
    "producers": _table_of(_record(_PRODUCER), _is_path),
    "parts": _table_of(_record({"source": _is_path}, _SETTINGS)),
    "unsure": _list_of(_is_path),
    "modules": _table_of(
        _record(_MODULE_FIELDS, {**_SETTINGS, "types": _table_of(_list_of(_or_null(_is_name)))}),
    ),
}


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Yield the text of a JSON value in parts, with a line for each item that can change separately."""
    if not isinstance(value, Mapping) or not value or depth == _DEPTH:
        yield json.dumps(value)
        return
    names = sorted(value) if depth else value
    for number, name in enumerate(names):
        yield f"{',' if number else '{'}\n{' ' * (depth + 1)}{json.dumps(name)}: "
        yield from _lines(value[name], depth + 1)
    yield f"\n{' ' * depth}}}"
