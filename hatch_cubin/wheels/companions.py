"""Read the files of a bundle that are in companions: packages of their own, for one arch each.

Those of a wheel are looked for in the wheels beside it, those of a folder beside its package.
"""

from __future__ import annotations

import contextlib
import functools
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._digest import file_digest
from ..bundle.manifest import NOT_OURS, Manifest
from ..errors import BundleError, Location, Problem
from .installed import BOUND, DAMAGE, Bundle, Found, read_member


class NotHereError(BundleError):
    """A companion is neither beside its bundle nor installed with it."""


def read(bundle: Bundle, manifest: Manifest, package: str, name: str) -> bytes:
    """Return a file of a companion; NotHereError where that is not here, BundleError if it is another's."""
    known = (manifest.companions or {}).get(package)
    if known is None or not package.isidentifier():
        what = f"it does not describe the companion {package!r}, which it names"
        raise BundleError(Problem(what, bundle.at("manifest.json")))
    places = _in_wheels(bundle.wheel, package) if bundle.wheel is not None else _in_folders(bundle, package)
    of_others = []  # as where the parts of a project's wheels for several systems lie in one folder
    for where, get in places:
        if _index_of(get) != file_digest(bundle.read("manifest.json")):
            of_others.append(where)
            continue
        found = get(name)
        if found is None:
            raise BundleError(Problem("is missing", Location(f"{where}/{name}")))
        return found
    if of_others:
        raise BundleError(Problem("belongs to another version of the bundle", Location(of_others[0])))
    hint = f"put its wheel beside this one, or install '{known['install']}'"
    raise NotHereError(Problem(f"is in {known['project']}, which is not here", bundle.at(name), hint))


def missing(bundle: Bundle, manifest: Manifest) -> list[str]:
    """Return the projects of companions that are not here."""
    absent = []
    for package, known in (manifest.companions or {}).items():
        try:
            read(bundle, manifest, package, BOUND)
        except NotHereError:
            absent.append(known["project"])
    return absent


def companion_problems(found: Found) -> Iterator[Problem]:
    """Yield how the files of a companion's wheel differ from what it says of them."""
    assert found.wheel is not None
    package = found.companion
    try:
        said: Any = json.loads(read_member(found.wheel, f"{package}/{BOUND}"))
        files = {name: (known["sha256"], known["size"]) for name, known in said["files"].items()}
        _ = said["index"], said["project"], said["version"]
    except NOT_OURS:
        yield Problem(
            "is not what hatch-cubin writes: it was edited or damaged", found.at(f"{package}/{BOUND}")
        )
        return
    there = {name.partition("/")[2] for name in found.wheel.namelist() if name.startswith(f"{package}/")}
    for name in sorted(there ^ {*files, BOUND, "__init__.py"}):
        where = "is missing" if name in files else "is not one of the companion's files"
        yield Problem(where, found.at(f"{package}/{name}"))
    for name in sorted(there & {*files}):
        data = read_member(found.wheel, f"{package}/{name}")
        if (file_digest(data), len(data)) != files[name]:
            yield Problem(f"is not the file that {BOUND} describes", found.at(f"{package}/{name}"))


def belongs_to(found: Found) -> str:
    """Return which project and version a sound companion belongs to."""
    said = bound(found)
    return f"{said['project']} {said['version']}"


def bound(found: Found) -> dict[str, Any]:
    """Return what a sound companion says of itself."""
    assert found.wheel is not None
    said: dict[str, Any] = json.loads(read_member(found.wheel, f"{found.companion}/{BOUND}"))
    return said


def is_of(package: str, said: Mapping[str, Any], manifest: Manifest) -> bool:
    """Say whether a companion has the very files that the manifest of its bundle leaves to it."""
    blocks = manifest.blocks or {}
    entries = (entry for module in manifest.modules for entry in module.entries)
    digests = {
        entry.file: (blocks.get(entry.file) or entry).sha256
        for entry in entries
        if entry.companion == package
    }
    return {name: known["sha256"] for name, known in said["files"].items()} == digests


_Get = Callable[[str], "bytes | None"]


def _in_folders(bundle: Bundle, package: str) -> Iterator[tuple[str, _Get]]:
    for parent in Path(bundle.place).absolute().parents:
        folder = parent / package
        if (folder / BOUND).is_file():
            yield folder.as_posix(), functools.partial(_from_folder, folder)


def _from_folder(folder: Path, name: str) -> bytes | None:
    path = folder / name
    return path.read_bytes() if "/" not in name and path.is_file() else None


def _in_wheels(wheel: str, package: str) -> Iterator[tuple[str, _Get]]:
    version = Path(wheel).name.split("-")[1]
    for path in sorted(Path(wheel).parent.glob(f"{package}-{version}-*.whl")):
        yield path.as_posix(), functools.partial(_from_wheel, path, package)


def _from_wheel(path: Path, package: str, name: str) -> bytes | None:
    with contextlib.suppress(*DAMAGE), zipfile.ZipFile(path) as archive:
        member = f"{package}/{name}"
        return read_member(archive, member) if member in archive.namelist() else None
    return None


def _index_of(get: _Get) -> str | None:
    with contextlib.suppress(*NOT_OURS):
        bound: Any = json.loads(get(BOUND) or b"")
        return str(bound["index"])
    return None
