"""Facts that the last build recorded, so that the next build does not have to ask cuda.core and NVRTC again.

They are in a file in the user's cache folder. There is one file for each combination of a project, a cache,
an installed toolkit and trusted keys. A module's line has a digest of all inputs of the module's results,
then the keys and results of its units. The line of a source or header has a digest of its text, then its
includes. If the file cannot be read or written, this is not an error: the build finds the facts again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..cache.records import RecalledResult
from ..common import user_folders
from ..common.digest import digest, file_digest
from ..common.environment import REQUIRE_SIGNED
from ..headers.recalled_closures import RecalledClosures, compact
from ..project.project import Project
from ..project.scan import Include, Scan, ScanCache
from ..toolkit import libraries
from ..toolkit.libraries import Evidence, Installation
from ..toolkit.toolkit import Facts, Keys

# 2: a description that several units share is written once. 3: closures; dates are left out. 4: macros, for
# the types of parameters. 5: only results whose arch a build has compared. 6: evidence that the installation
# is the same.
_FORMAT = 6
_LOCKED = "locked"  # for builds with a lock, which do not need a toolkit
_FILES = 20  # the most recently used ones are retained

_NONE = Evidence("", "", [])  # if the facts do not depend on an installation

Units = Mapping[str, tuple[Keys, RecalledResult]]  # a module's units, by arch


class Recall:
    """The recorded facts about a project's modules and texts, read from *path*; empty if *path* is None.

    A line is dropped from memory after its first use, because a large project has megabytes of lines.
    """

    def __init__(
        self, path: Path | None, installed: Installation | None = None, *, knows_linker: bool = True
    ) -> None:
        self._installed, self._knows_linker = installed, knows_linker
        self._evidence: Evidence | None = None  # about the installation, as recorded in the file
        self.facts: Facts | None = None
        self.scans = ScanCache(self._scan)
        self.closures = RecalledClosures(self.scans, self._take_line)
        self._path, self._knows_linker = path, knows_linker
        self._lines: dict[str, str] = {}  # lines that were not used yet, by digest
        self._modules: set[str] = set()  # digests of the modules that this build looked up
        self._new_text = False
        self._scans_by_line: dict[str, Scan] = {}  # by line: many texts have the same includes
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self.facts, self._evidence, self._lines = _read(path, installed)
                os.utime(path)
            if self.facts is None and installed is not None:  # before the build asks the installed compiler
                with contextlib.suppress(OSError):
                    installed.evidence()

    def units(self, module: str) -> Units:
        """Return the recorded keys and results of a module's units."""
        self._modules.add(module)
        return _units(self._lines.pop(module, "[]"))

    def _scan(self, text: str) -> Scan | None:
        if (line := self._lines.pop(text, None)) is None:
            self._new_text = True
            return None
        if line not in self._scans_by_line:
            includes, defines = json.loads(line)
            self._scans_by_line[line] = Scan(
                tuple(Include(*each) for each in includes), tuple(map(tuple, defines))
            )
        return self._scans_by_line[line]

    def record(self, facts: Facts, found: Mapping[str, Units]) -> None:
        """Record the facts that this build used, and the facts about modules that it *found*."""
        if self._path is None or (facts.nvjitlink and not self._knows_linker):
            return
        # A recorded closure needs the lines of its headers outside the project, even if nothing scanned them.
        retained = {text: self._lines[text] for text in self.closures.contents() if text in self._lines}
        changed = found or self._new_text or self.closures.has_new_facts or facts != self.facts
        with contextlib.suppress(OSError):
            evidence = self._installed.evidence() if self._installed else _NONE
            # If the installation changed during the build, the facts fit neither the old one nor the new one.
            new = changed or len(retained) != len(self._lines) or evidence != self._evidence
            if new and evidence is not None:
                lines = retained | self._used_lines(self._path, found)
                user_folders.write_retained(self._path, _encode(facts, evidence, lines), _FILES)

    def _take_line(self, name: str) -> str | None:
        return self._lines.pop(name, None)

    def _used_lines(self, path: Path, found: Mapping[str, Units]) -> dict[str, str]:
        """Return the lines of all facts that this build used: its own lines, or else those in the file."""
        lines = {text: compact(scan) for text, scan in self.scans.used.items()} | self.closures.lines()
        with contextlib.suppress(OSError, ValueError, TypeError):
            read = _read(path, self._installed)[-1]
            lines |= {asked: line for asked, line in read.items() if asked in self._modules}
        for module, units in found.items():
            lines[module] = _line({**_units(lines.get(module, "[]")), **units})
        return lines


def recall_of(project: Project) -> Recall:
    """Return the recorded facts about *project*, for its cache and the toolkit that is installed here."""
    return _recall(project, "", libraries.installation(project.config.toolkit))


def recall_of_locked(project: Project) -> Recall:
    """Return the recorded facts about the results in the lock of *project*. This needs no toolkit."""
    return _recall(project, _LOCKED, libraries.own_installation())


def _recall(project: Project, kind: str, installed: Installation | None) -> Recall:
    try:
        folder = user_folders.recall_folder()
    except RuntimeError:
        return Recall(None)
    if installed is None:
        return Recall(None)
    places = (os.fsencode(os.path.realpath(place)) for place in (project.root, project.cache_folder))
    made_for: list[str | bytes] = [kind, installed.name, *places, *_signature_settings(project)]
    knows_linker = kind == _LOCKED or libraries.has_linker(project.config.toolkit)
    return Recall(folder / f"{digest(made_for)[:32]}.txt", installed, knows_linker=knows_linker)


def _signature_settings(project: Project) -> tuple[str, ...]:
    """Return the trusted keys, and whether results need a signature: other keys prove other results."""
    keys = project.config.trusted_keys
    return (f"{REQUIRE_SIGNED}={project.is_switched_on(REQUIRE_SIGNED)}", *sorted(keys)) if keys else ()


def _line(units: Units) -> str:
    """Return the line of a module's units. Adjacent units with the same description share it."""
    groups = itertools.groupby(units.items(), key=lambda item: item[1][1].description)
    return compact(
        [
            (description, {arch: (keys.hex(), known[:-1]) for arch, (keys, known) in group})
            for description, group in groups
        ]
    )


def _units(line: str) -> Units:
    return {
        arch: (Keys.of(*keys), RecalledResult(sha256, size, record, description))
        for description, group in json.loads(line)
        for arch, (keys, (sha256, size, record)) in group.items()
    }


def _encode(facts: Facts, evidence: Evidence, lines: Mapping[str, str]) -> bytes:
    head = json.dumps([_FORMAT, evidence, *facts])
    body = "\n".join([head, *(f"{asked} {lines[asked]}" for asked in sorted(lines)), ""]).encode()
    return file_digest(body).encode() + b"\n" + body


def _read(path: Path, installed: Installation | None) -> tuple[Facts, Evidence, dict[str, str]]:
    """Return the content of a file of facts.

    ValueError or TypeError if it is damaged, or of another format or installation.
    """
    hasher, lines = hashlib.sha256(), {}
    with user_folders.open_retained(path) as file:
        check, head = file.readline(), file.readline()
        hasher.update(head)
        for line in file:  # not read at once: that would need twice the memory
            hasher.update(line)
            lines[line[:64].decode()] = line[65:-1].decode()
    if check != f"{hasher.hexdigest()}\n".encode():
        raise ValueError("damaged")
    number, seen, core, major, nvrtc, supported, nvjitlink = json.loads(head)
    if number != _FORMAT:
        raise ValueError("of another version")
    evidence = Evidence(*seen)
    if installed is not None and not installed.is_that_of(evidence):
        raise ValueError("of another installation")
    return Facts(core, major, nvrtc, tuple(supported), nvjitlink), evidence, lines
