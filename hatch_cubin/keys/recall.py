"""What the last build found out, kept so that the next one need not ask cuda.core and NVRTC again.

It is a file in the user's own folder, one for each project, cache and installation of the toolkit, and for
whose signatures count. In it, a module's line has a digest of all that the module's results depend on, then
what is known of its units. The line of a source or header has a digest of its text, then its includes. Where
the file cannot be read or written, nothing is recalled, and that is no error.
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

# Since 2 what several units have in common stands once; since 3 closures, and nothing of dates; since 4 what
# kernels take; since 5 nothing of results whose arch no build has compared; since 6 what shows that the
# installation is the same.
_FORMAT = 6
_LOCKED = "locked"  # a recall that needs no toolkit
_FILES = 20  # that are kept, those used last

_NONE = Evidence("", "", [])  # where nothing that is installed matters

Units = Mapping[str, tuple[Keys, RecalledResult]]  # of a module, by arch


class Recall:
    """What is known of a project's modules and of their texts, from the file at *path*; nothing without one.

    Each line is told once, when it is asked for, and then dropped: a large project has megabytes of them.
    """

    def __init__(
        self, path: Path | None, installed: Installation | None = None, *, knows_linker: bool = True
    ) -> None:
        self._installed, self._knows_linker = installed, knows_linker
        self._evidence: Evidence | None = None  # of the installation, as the file has it
        self.facts: Facts | None = None
        self.scans = ScanCache(self._scan)
        self.closures = RecalledClosures(self.scans, self._take)
        self._path, self._knows_linker = path, knows_linker
        self._lines: dict[str, str] = {}  # those not asked for yet, by digest
        self._modules: set[str] = set()  # digests of the modules that were asked for
        self._new_text = False
        self._alike: dict[str, Scan] = {}  # by line: many texts have the same includes
        if path is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self.facts, self._evidence, self._lines = _read(path, installed)
                os.utime(path)
            if self.facts is None and installed is not None:  # before anything is asked of what is installed
                with contextlib.suppress(OSError):
                    installed.evidence()

    def units(self, module: str) -> Units:
        """Return what is known of a module's units."""
        self._modules.add(module)
        return _units(self._lines.pop(module, "[]"))

    def _scan(self, text: str) -> Scan | None:
        if (line := self._lines.pop(text, None)) is None:
            self._new_text = True
            return None
        if line not in self._alike:
            includes, defines = json.loads(line)
            self._alike[line] = Scan(tuple(Include(*each) for each in includes), tuple(map(tuple, defines)))
        return self._alike[line]

    def keep(self, facts: Facts, found: Mapping[str, Units]) -> None:
        """Remember what this build asked for, and what it *found* out about modules."""
        if self._path is None or (facts.nvjitlink and not self._knows_linker):
            return
        # Outside the project, a text that was not asked for is still what a recalled closure has.
        kept = {text: self._lines[text] for text in self.closures.contents() if text in self._lines}
        changed = found or self._new_text or self.closures.new or facts != self.facts
        with contextlib.suppress(OSError):
            evidence = self._installed.evidence() if self._installed else _NONE
            # What a build found out while something else was installed is true of neither.
            new = changed or len(kept) != len(self._lines) or evidence != self._evidence
            if new and evidence is not None:
                lines = kept | self._now(self._path, found)
                user_folders.write_retained(self._path, _encode(facts, evidence, lines), _FILES)

    def _take(self, name: str) -> str | None:
        return self._lines.pop(name, None)

    def _now(self, path: Path, found: Mapping[str, Units]) -> dict[str, str]:
        """Return the lines of all that was asked for: as this build knows them, or else as the file does."""
        lines = {text: compact(scan) for text, scan in self.scans.used.items()} | self.closures.lines()
        with contextlib.suppress(OSError, ValueError, TypeError):
            read = _read(path, self._installed)[-1]
            lines |= {asked: line for asked, line in read.items() if asked in self._modules}
        for module, units in found.items():
            lines[module] = _line({**_units(lines.get(module, "[]")), **units})
        return lines


def recall_of(project: Project) -> Recall:
    """Return what is known of *project* with its cache and the toolkit that is installed here."""
    return _recall(project, "", libraries.installation(project.config.toolkit))


def recall_of_locked(project: Project) -> Recall:
    """Return what is known of the results that the lock of *project* names: no toolkit is needed for it."""
    return _recall(project, _LOCKED, libraries.own_installation())


def _recall(project: Project, kind: str, installed: Installation | None) -> Recall:
    try:
        folder = user_folders.recall_folder()
    except RuntimeError:
        return Recall(None)
    if installed is None:
        return Recall(None)
    places = (os.fsencode(os.path.realpath(place)) for place in (project.root, project.cache_folder))
    made_for: list[str | bytes] = [kind, installed.name, *places, *_trusted(project)]
    knows_linker = kind == _LOCKED or libraries.has_linker(project.config.toolkit)
    return Recall(folder / f"{digest(made_for)[:32]}.txt", installed, knows_linker=knows_linker)


def _trusted(project: Project) -> tuple[str, ...]:
    """Return whose signatures count, and whether nothing else does: what one proves another does not."""
    keys = project.config.trusted_keys
    return (f"{REQUIRE_SIGNED}={project.is_switched_on(REQUIRE_SIGNED)}", *sorted(keys)) if keys else ()


def _line(units: Units) -> str:
    """Return the line of a module's units; a description that neighbours have in common stands once."""
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
    """Return what was encoded; ValueError or TypeError where it is anything else, or another's."""
    hasher, lines = hashlib.sha256(), {}
    with user_folders.open_retained(path) as file:
        check, head = file.readline(), file.readline()
        hasher.update(head)
        for line in file:  # not read at once, for that would be a second copy of all of it
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
