"""Read the compiled files of a split wheel.

A companion wheel contains the main wheel's code for one arch.

The companion of a wheel is a wheel in the same folder. The companion of an installed package is a package in
the same site-packages folder.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...bundle.manifest import NOT_OURS, Manifest
from ...common import file_access, read_limits
from ...common.digest import file_digest
from ...errors import BundleError, HatchCubinError, Location, Problem, problem
from .bundles import (
    COMPANION_FILE,
    Bundle,
    FileElsewhereError,
    OpenedWheel,
    member_location,
    open_archive,
    open_wheel,
    read_member,
)

_METADATA = re.compile(r"[^/]+-([^-/]+)\.dist-info/METADATA")


_ReadFile = Callable[[str], bytes]


class _CompanionLocation(NamedTuple):
    """A wheel or folder that may be a companion, and a function that reads its files."""

    where: Path
    folder: Path
    get: _ReadFile


class Companions:
    """The companion wheels of a bundle, which stay open until *opened* is closed."""

    def __init__(self, bundle: Bundle, manifest: Manifest, opened: contextlib.ExitStack) -> None:
        self._bundle, self._manifest, self._opened = bundle, manifest, opened
        self._chosen: dict[str, _ReadFile | Problem | None] = {}

    def read(self, package: str, name: str) -> bytes:
        """Return a file of a companion wheel, or raise FileElsewhereError if this wheel is missing."""
        known = (self._manifest.companions or {}).get(package)
        if known is None or not package.isidentifier():
            what = f"says that files are in the companion {package!r}, but does not describe this companion"
            raise BundleError(problem("manifest-inconsistent", what, self._bundle.at("manifest.json")))
        if package not in self._chosen:
            self._chosen[package] = self._choose(package)
        get = self._chosen[package]
        if isinstance(get, Problem):
            raise BundleError(get)
        if get is None:
            hint = f"put the companion wheel into the folder of this wheel, or install '{known['install']}'"
            what = f"belongs to the companion wheel {known['project']}, which is missing"
            raise FileElsewhereError(problem("companion-missing", what, self._bundle.at(name), hint))
        return get(name)

    def missing(self) -> list[str]:
        """Return the project names of missing companion wheels."""
        absent = []
        for package, known in (self._manifest.companions or {}).items():
            try:
                self.read(package, COMPANION_FILE)
            except FileElsewhereError:
                absent.append(known["project"])
            except BundleError:  # A damaged companion is reported when its files are read.
                continue
        return absent

    def _choose(self, package: str) -> _ReadFile | Problem | None:
        """Return a function that reads a companion's files; None if the companion is missing.

        Return a problem if the only companion is damaged, or belongs to another wheel.
        """
        damaged, of_others = list[Problem](), list[Problem]()
        for place in self._places(package):
            try:
                if _described_manifest(place) == self._index:
                    return place.get
                # A folder may also contain the companions of other wheels, for example for another system.
                where = Location(place.where.as_posix())
                what = "is a companion of another wheel, or of another version of this wheel"
                of_others.append(problem("companion-of-other-version", what, where))
            except BundleError as exc:
                damaged += exc.problems
        return next(iter((*damaged, *of_others)), None)

    @functools.cached_property
    def _index(self) -> str:
        return file_digest(self._bundle.read("manifest.json"))

    def _places(self, package: str) -> Iterator[_CompanionLocation]:
        if self._bundle.wheel is None:
            for parent in Path(self._bundle.place).absolute().parents:
                folder = parent / package
                if os.path.isfile(folder / COMPANION_FILE):
                    yield _CompanionLocation(folder, folder, functools.partial(_from_folder, folder))
            return
        for path in sorted(self._wheels_of(package)):
            archive = functools.cache(functools.partial(self._archive, path))
            yield _CompanionLocation(path, path / package, functools.partial(_from_wheel, archive, package))

    def _archive(self, path: Path) -> zipfile.ZipFile:
        return self._opened.enter_context(open_archive(str(path)))

    def _wheels_of(self, package: str) -> Iterable[Path]:
        if self._version is None:
            return ()
        folder = Path(self._bundle.wheel or "").parent
        return folder.glob(f"{package}-{glob.escape(self._version)}-*.whl")

    @functools.cached_property
    def _version(self) -> str | None:
        """The main wheel's version, read from the metadata, because the wheel's file may be renamed."""
        with open_archive(self._bundle.wheel or "") as archive:
            metadata = filter(None, map(_METADATA.fullmatch, archive.namelist()))
            return next((found[1] for found in metadata), None)


@contextlib.contextmanager
def companions_of(bundle: Bundle, manifest: Manifest) -> Iterator[Companions]:
    """Open the companion wheels of a bundle for a `with` block."""
    with contextlib.ExitStack() as opened:
        yield Companions(bundle, manifest, opened)


def missing_companions(bundle: Bundle, manifest: Manifest) -> list[str]:
    """Return the project names of a bundle's companion wheels that are missing."""
    with companions_of(bundle, manifest) as companions:
        return companions.missing()


def companion_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a problem for each file of a companion wheel that differs from the companion's description."""
    assert opened.archive is not None
    package = opened.companion
    try:
        said: Any = json.loads(read_member(opened.archive, f"{package}/{COMPANION_FILE}"))
        files = {name: (known["sha256"], known["size"]) for name, known in said["files"].items()}
        _ = said["index"], said["project"], said["version"]
    except NOT_OURS:
        yield _edited(opened.at(f"{package}/{COMPANION_FILE}"))
        return
    there = {name.partition("/")[2] for name in opened.archive.namelist() if name.startswith(f"{package}/")}
    for name in sorted(there ^ {*files, COMPANION_FILE, "__init__.py"}):
        where = opened.at(f"{package}/{name}")
        if name in there:
            yield problem("file-not-listed", "does not belong to the companion wheel", where)
        else:
            yield problem("file-missing", "is missing", where)
    for name in sorted(there & {*files}):
        data = read_member(opened.archive, f"{package}/{name}")
        if (file_digest(data), len(data)) != files[name]:
            what = f"does not have the digest and the size that {COMPANION_FILE} lists for this file"
            yield problem("file-changed", what, opened.at(f"{package}/{name}"))


def unused_companions(companions: Iterable[Path], wheels: Iterable[Path]) -> list[Path]:
    """Return the companion wheels whose main wheel is none of *wheels*, and damaged companion wheels."""
    manifests = {digest for path in wheels for digest in _manifest_digests(path)}
    return [path for path in companions if manifests.isdisjoint(_main_manifest_digests(path))]


def _manifest_digests(path: Path) -> list[str]:
    """Return the digests of the manifests in a wheel that is not a companion."""
    with contextlib.suppress(HatchCubinError), open_wheel(str(path)) as opened:
        return [file_digest(bundle.read("manifest.json")) for bundle in opened.bundles]
    return []


def _main_manifest_digests(path: Path) -> list[str]:
    """Return the digest of the manifest in a companion's main wheel; an empty list for other wheels."""
    with contextlib.suppress(HatchCubinError, *NOT_OURS), open_wheel(str(path), companions=True) as opened:
        return [str(read_description(opened)["index"])] if opened.companion else []
    return []


def main_project_of(opened: OpenedWheel) -> str:
    """Return the project and version of the main wheel of *opened*, an undamaged companion."""
    said = read_description(opened)
    return f"{said['project']} {said['version']}"


def read_description(opened: OpenedWheel) -> dict[str, Any]:
    """Return the content of `companion.json` in a companion wheel, without a check for damage."""
    assert opened.archive is not None
    said: dict[str, Any] = json.loads(read_member(opened.archive, f"{opened.companion}/{COMPANION_FILE}"))
    return said


def fits_manifest(package: str, said: Mapping[str, Any], manifest: Manifest) -> bool:
    """Return whether a companion wheel has exactly those files that the main wheel's manifest lists."""
    blocks = manifest.blocks or {}
    entries = (entry for module in manifest.modules for entry in module.entries)
    digests = {
        entry.file: (blocks.get(entry.file) or entry).sha256
        for entry in entries
        if entry.companion == package
    }
    return {name: known["sha256"] for name, known in said["files"].items()} == digests


def _from_folder(folder: Path, name: str) -> bytes:
    path = folder / name
    if "/" in name or not os.path.isfile(path):
        raise BundleError(problem("file-missing", "is missing", Location(path.as_posix())))
    try:
        return file_access.read(path, read_limits.most(name))
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise BundleError(problem("file-not-readable", what, Location(path.as_posix()))) from exc


def _from_wheel(archive: Callable[[], zipfile.ZipFile], package: str, name: str) -> bytes:
    member = f"{package}/{name}"
    try:
        return read_member(archive(), member)
    except KeyError:
        where = member_location(archive(), member)
        raise BundleError(problem("file-missing", "is missing", where)) from None


def _described_manifest(place: _CompanionLocation) -> str:
    data = place.get(COMPANION_FILE)
    try:
        return str(json.loads(data)["index"])
    except NOT_OURS as exc:
        where = Location((place.folder / COMPANION_FILE).as_posix())
        raise BundleError(_edited(where)) from exc


def _edited(where: Location) -> Problem:
    what = "was edited or damaged: hatch-cubin would write this file differently"
    return problem("not-as-written", what, where)
