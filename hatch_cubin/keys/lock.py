"""The file `cubin.lock`: what the units of a project were built from, for people to commit.

It is JSON with a line for each file, module and unit, sorted, and has no time and no path of a machine. Its
digest makes two branches that both changed it conflict: lines of one beside lines of the other can be wrong.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import _files, _limits
from .._digest import file_digest
from ..errors import ConfigError, Location, Problem

NAME = "cubin.lock"
HINT = "'hatch-cubin lock' writes it anew"

_FORMAT = 1
_ABOUT = "written by 'hatch-cubin lock': commit it, do not edit it"
_DEPTH = 4  # where a value stands in one line, whatever it is: the keys of a unit do


class Lock(NamedTuple):
    """What a build with the lock has to know, and what has to be as it was for that to be true."""

    generator: str  # the version of hatch-cubin: another one may find out other things
    data_model: str
    toolkit: str | None  # as the table asks for it
    header_packages: Sequence[str]
    builds: Mapping[str, Any]  # of cuda.core and the compilers, and what they can target
    wheels: Mapping[str, str]  # that a build with a compiler needs, with their versions
    headers: Mapping[str, str | None]  # what is not the project's, with the version if it is a wheel
    files: Mapping[str, str]  # of the project, that its units read, with their digests
    of_parts: Mapping[str, str]  # of the project, that only sources without kernels read
    absent: Mapping[str, Sequence[str]]  # by folder, where includes were looked for in vain
    parts: Mapping[str, Mapping[str, Any]]  # modules that are none, for others include their sources
    unsure: Sequence[str]  # sources whose headers only a build with the compiler's own headers can tell
    modules: Mapping[str, Mapping[str, Any]]  # each has its source, its settings and its units


def encode(lock: Lock) -> str:
    """Return the text of the file."""
    rest = _body(lock)
    return f'{{\n "about": {json.dumps(_ABOUT)},\n "check": "{file_digest(rest.encode())}",\n{rest}'


def decode(text: str) -> Lock:
    """Return the lock that a text holds; ConfigError where it is damaged, or of another format."""
    try:
        values = json.loads(text)
        number, checked = values.pop("format"), values.pop("check")
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as exc:
        line = exc.lineno if isinstance(exc, json.JSONDecodeError) else None
        raise _broken("is no lock, perhaps because of a merge", line) from None
    if checked != file_digest(text.split("\n", 3)[-1].encode()):
        raise _broken("was edited, or merged from two that differ", None)
    if number != _FORMAT:
        raise _broken(f"has format {number}, this hatch-cubin reads {_FORMAT}", None)
    del values["about"]
    return Lock(**{name.replace("-", "_"): value for name, value in values.items()})


def read(root: Path) -> Lock | None:
    """Return the lock of the project at *root*; None where it has none."""
    path = os.path.join(root, NAME)
    try:
        # As text, because git may make other ends of lines.
        with io.TextIOWrapper(_files.opened(path, _limits.INDEX), encoding="utf-8") as file:
            return decode(file.read())
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(Problem(f"cannot be read: {exc.strerror}", Location(NAME))) from exc
    except UnicodeDecodeError:
        raise _broken("is no text", None) from None


def _broken(what: str, line: int | None) -> ConfigError:
    return ConfigError(Problem(what, Location(NAME, line), HINT))


def _body(lock: Lock) -> str:
    values = {name.replace("_", "-"): value for name, value in lock._asdict().items()}
    return "".join(_lines({"format": _FORMAT, **values}, 0))[2:] + "\n"


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Yield a value with a line for each thing that can change by itself."""
    if not isinstance(value, Mapping) or not value or depth == _DEPTH:
        yield json.dumps(value)
        return
    names = sorted(value) if depth else value
    for number, name in enumerate(names):
        yield f"{',' if number else '{'}\n{' ' * (depth + 1)}{json.dumps(name)}: "
        yield from _lines(value[name], depth + 1)
    yield f"\n{' ' * depth}}}"
