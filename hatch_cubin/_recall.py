"""What the last build found out, so that the next one asks neither cuda.core nor NVRTC for it.

A module's line begins with a digest of all that its results depend on, and has what is known of its units;
a text's begins with a digest of the text, and has what it includes. It is kept for one project, one cache
and one installation of the toolkit, in the user's own folder. What cannot be read or written there is not
recalled, and is no fault.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _home, _libraries
from ._cuda import Facts
from ._digest import digest, file_digest
from ._includes import Include, Scan, Scans
from ._project import Project
from ._proof import Known

_FORMAT = 1
_FILES = 20  # that are kept, those used last


class Recall:
    """What is known of a project's modules and of the texts in them; nothing without a *path*."""

    def __init__(self, path: Path | None) -> None:
        self.facts: Facts | None = None
        self.scans = Scans(self._scan)
        self._path = path
        self._lines: dict[str, str] = {}  # by what was asked
        self._asked: set[str] = set()
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self.facts, self._lines = _decode(path.read_bytes())
                os.utime(path)

    def units(self, module: str) -> Mapping[str, Known]:
        """Return what is known of a module's units, by arch."""
        return {arch: Known(*values) for arch, values in self._known(module, {}).items()}

    def _scan(self, text: str) -> Scan | None:
        if (known := self._known(text, None)) is None:
            return None
        includes, defines, stamps = known
        pairs = (tuple(map(tuple, each)) for each in (defines, stamps))
        return Scan(tuple(Include(*each) for each in includes), *pairs)

    def _known(self, asked: str, otherwise: Any) -> Any:
        if asked not in self._lines:
            return otherwise
        self._asked.add(asked)
        return json.loads(self._lines[asked])

    def keep(self, facts: Facts, modules: Mapping[str, Mapping[str, Known]]) -> None:
        """Remember what this build asked for, and what it found out about *modules* and their texts."""
        found = {
            **{text: scan for text, scan in self.scans.used.items() if text not in self._lines},
            **modules,
        }
        lines = {asked: self._lines[asked] for asked in self._asked}
        lines |= {asked: json.dumps(known, separators=(",", ":")) for asked, known in found.items()}
        if self._path is None or (facts, lines) == (self.facts, self._lines):
            return
        with contextlib.suppress(OSError):
            _home.keep(self._path, _encode(facts, lines), _FILES)


def of_project(project: Project) -> Recall:
    """Return what is known of *project* with its cache and the toolkit that is installed here."""
    installed = _libraries.identity(project.config.toolkit)
    try:
        folder = _home.recall_folder()
    except RuntimeError:
        return Recall(None)
    places = (os.fsencode(os.path.realpath(place)) for place in (project.root, project.cache_folder))
    return Recall(None if installed is None else folder / f"{digest([installed, *places])[:32]}.txt")


def _encode(facts: Facts, lines: Mapping[str, str]) -> bytes:
    head = json.dumps([_FORMAT, *facts])
    body = "\n".join([head, *(f"{asked} {lines[asked]}" for asked in sorted(lines))]).encode()
    return file_digest(body).encode() + b"\n" + body


def _decode(data: bytes) -> tuple[Facts, dict[str, str]]:
    """Return what was encoded; ValueError or TypeError where *data* is anything else."""
    check, _, body = data.partition(b"\n")
    if check != file_digest(body).encode():
        raise ValueError("damaged")
    head, *lines = body.decode().split("\n")
    number, core, major, nvrtc, supported, nvjitlink = json.loads(head)
    if number != _FORMAT:
        raise ValueError("of another version")
    return Facts(core, major, nvrtc, tuple(supported), nvjitlink), {line[:64]: line[65:] for line in lines}
