"""Facts that a build records in a file, so that later builds do not have to load cuda.core and NVRTC.

The file with the recorded facts is in the user's cache folder, not in the project. There is one file of
recorded facts for each combination of a project, a cache, an installed toolkit and a set of trusted signing
keys. The file contains a line for each module: a digest of all inputs of the module's compiles, followed by
the cache keys and results of the module's units. The file also contains a line for each source and header: a
digest of the text, followed by the includes in the text. If the file of recorded facts cannot be read or
written, the build continues and determines the facts again.
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

# The changes in each version of the format:
# Format 2 writes a description only once if several units share the description.
# Format 3 adds header closures, and removes dates.
# Format 4 adds macros, which the types of parameters depend on.
# Format 5 adds a result only after the result's arch was checked.
# Format 6 adds facts that prove that the installed packages are the same.
# Format 7 adds a field for tileiras to the facts.
_FORMAT = 7
_LOCKED = "locked"  # a part of the file name for builds with a lock file, which do not need a toolkit
_FILES = 20  # the maximum number of files with recorded facts; the most recently used files are kept

_NONE = Evidence("", "", [])  # the evidence for facts that do not depend on installed packages

Units = Mapping[str, tuple[Keys, RecalledResult]]  # the cache keys and results of a module's units, by arch


class Recall:
    """The recorded facts about a project's modules and files, read from *path*; empty if *path* is None.

    A line of the file is removed from memory after its first use, because the file of a large project has
    megabytes of lines.
    """

    def __init__(
        self, path: Path | None, installed: Installation | None = None, *, knows_linker: bool = True
    ) -> None:
        self._installed, self._knows_linker = installed, knows_linker
        self._evidence: Evidence | None = None  # recorded facts about the installed packages
        self.facts: Facts | None = None
        self.scans = ScanCache(self._scan)
        self.closures = RecalledClosures(self.scans, self._take_line)
        self._path, self._knows_linker = path, knows_linker
        self._lines: dict[str, str] = {}  # the recorded lines that this build has not used yet, by digest
        self._modules: set[str] = set()  # the digests of all modules that this build looked up
        self._new_text = False
        # the parsed lines of includes, because many files have the same includes
        self._scans_by_line: dict[str, Scan] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self.facts, self._evidence, self._lines = _read(path, installed)
                os.utime(path)
            # the evidence is recorded now, before the build loads the installed compiler
            if self.facts is None and installed is not None:
                with contextlib.suppress(OSError):
                    installed.evidence()

    def units(self, module: str) -> Units:
        """Return a mapping from arch to recorded cache keys and result for the units of a module."""
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
        """Write the facts that this build used, and new facts about the modules in *found*, into the file."""
        if self._path is None or (facts.nvjitlink and not self._knows_linker):
            return
        # the evidence does not cover the files of tileiras
        facts = facts._replace(tileiras=None)
        # Recorded header closures refer to the lines of headers outside the project. So these lines are kept,
        # even if this build did not search the headers for includes.
        retained = {text: self._lines[text] for text in self.closures.contents() if text in self._lines}
        changed = found or self._new_text or self.closures.has_new_facts or facts != self.facts
        with contextlib.suppress(OSError):
            evidence = self._installed.evidence() if self._installed else _NONE
            # If the installed packages changed during the build, the facts may belong to both versions, so
            # they are not written.
            new = changed or len(retained) != len(self._lines) or evidence != self._evidence
            if new and evidence is not None:
                lines = retained | self._used_lines(self._path, found)
                user_folders.write_retained(self._path, _encode(facts, evidence, lines), _FILES)

    def _take_line(self, name: str) -> str | None:
        return self._lines.pop(name, None)

    def _used_lines(self, path: Path, found: Mapping[str, Units]) -> dict[str, str]:
        """Collect the recorded lines of all facts that this build used, from memory and from the old file."""
        lines = {text: compact(scan) for text, scan in self.scans.used.items()} | self.closures.lines()
        with contextlib.suppress(OSError, ValueError, TypeError):
            read = _read(path, self._installed)[-1]
            lines |= {asked: line for asked, line in read.items() if asked in self._modules}
        for module, units in found.items():
            lines[module] = _line({**_units(lines.get(module, "[]")), **units})
        return lines


def recall_of(project: Project) -> Recall:
    """Return the facts that builds of *project* with the same cache and toolkit have recorded."""
    return _recall(project, "", libraries.installation(project.config.toolkit))


def recall_of_locked(project: Project) -> Recall:
    """Return the facts that builds recorded about the results in the lock file.

    No toolkit is needed.
    """
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
    """Return the trusted keys, and whether signatures are required.

    Recorded facts depend on the trusted keys, because the keys decide which cached results a build uses.
    """
    keys = project.config.trusted_keys
    return (f"{REQUIRE_SIGNED}={project.is_switched_on(REQUIRE_SIGNED)}", *sorted(keys)) if keys else ()


def _line(units: Units) -> str:
    """Return the line of text with the cache keys and results of a module's units.

    In the returned line, adjacent units with the same description share one copy of the description.
    """
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
    """Read a file of recorded facts and return its content.

    Raise ValueError or TypeError if the file is damaged, has another format, or was recorded with other
    installed packages.
    """
    hasher, lines = hashlib.sha256(), {}
    with user_folders.open_retained(path) as file:
        check, head = file.readline(), file.readline()
        hasher.update(head)
        # the file is read line by line, because reading the whole file at once would need twice the memory
        for line in file:
            hasher.update(line)
            lines[line[:64].decode()] = line[65:-1].decode()
    if check != f"{hasher.hexdigest()}\n".encode():
        raise ValueError("the file is damaged")
    number, seen, core, major, nvrtc, supported, *others = json.loads(head)
    if number != _FORMAT:
        raise ValueError("the file was written in another format")
    evidence = Evidence(*seen)
    if installed is not None and not installed.is_that_of(evidence):
        raise ValueError("the installed packages have changed since the file was written")
    return Facts(core, major, nvrtc, tuple(supported), *others), evidence, lines
