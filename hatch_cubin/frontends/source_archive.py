"""Rewrite a finished sdist: add the files that kernels are built from, and remove _cubins and caches."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..common import temporary_folders
from ..config import toml_positions
from ..config.known_names import build_tables
from ..errors import BundleError, Location, problem
from ..project.source import BUNDLE_FOLDER


def write_copy(made: Path, into: Path, files: Mapping[str, Path], caches: Sequence[str]) -> None:
    """Copy the sdist *made* into the folder *into*, and add the current content of the project's *files*.

    The build backend may have left some of the project's *files* out of the sdist, or may have put them into
    the sdist with the content of the last commit. No other process sees an incomplete sdist, because only the
    complete sdist is moved into the folder.
    """
    if not made.name.endswith(".tar.gz"):
        raise BundleError(
            problem("not-an-sdist", "is not a .tar.gz file, so it is not an sdist", Location(made.name))
        )
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tarfile.open(made) as old, temporary_folders.make_in(into) as folder:
            with (
                open(folder / made.name, "wb") as raw,
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
                tarfile.open(
                    fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers=old.pax_headers
                ) as new,
            ):
                _fill(new, old, _top_folder(old, made.name), files, tuple(f"{cache}/" for cache in caches))
            (folder / made.name).replace(into / made.name)
    except tarfile.ReadError as exc:
        raise BundleError(
            problem("not-an-sdist", "is not a .tar.gz file, so it is not an sdist", Location(made.name))
        ) from exc
    except OSError as exc:
        where = Location(str(into / made.name))
        raise BundleError(problem("file-not-writable", f"cannot be written: {exc.strerror}", where)) from exc


def _top_folder(archive: tarfile.TarFile, name: str) -> str:
    """Return the folder in the sdist that contains all members.

    Raise BundleError if a member of the sdist is outside the folder of the first member.
    """
    if not any(info.isreg() for info in archive.getmembers()):
        raise BundleError(problem("not-an-sdist", "does not contain files", Location(name)))
    top = posixpath.normpath(archive.getmembers()[0].name).split("/")[0]
    problems = [
        problem("unsafe-path", f"{info.name!r} leads out of the folder {top}/", Location(name))
        for info in archive.getmembers()
        if not _is_inside(top, info)
    ]
    if problems:
        raise BundleError(*problems)
    return top


def _is_inside(top: str, info: tarfile.TarInfo) -> bool:
    names = [info.name]
    if info.issym():
        names.append(posixpath.join(posixpath.dirname(info.name), info.linkname))
    elif info.islnk():
        names.append(info.linkname)
    return all(
        not posixpath.isabs(name) and f"{posixpath.normpath(name)}/".startswith(f"{top}/") for name in names
    )


def _fill(
    new: tarfile.TarFile,
    old: tarfile.TarFile,
    top: str,
    files: Mapping[str, Path],
    caches: tuple[str, ...],
) -> None:
    missing = dict(sorted(files.items()))
    for info in old.getmembers():
        path = posixpath.normpath(info.name).removeprefix(top).removeprefix("/")
        if BUNDLE_FOLDER in path.split("/") or f"{path}/".startswith(caches):
            continue
        if path in missing and _differs(old, info, file := missing.pop(path)):
            _add(new, _new_member(info, info.name, info.mode), file)
        else:
            new.addfile(info, old.extractfile(info) if info.isreg() else None)
    like = next(info for info in old.getmembers() if info.isreg())
    for path, file in missing.items():
        _add(new, _new_member(like, f"{top}/{path}", 0o644), file)


def _differs(archive: tarfile.TarFile, info: tarfile.TarInfo, file: Path) -> bool:
    """Return whether a member of the sdist differs from the project's file.

    Some build backends rewrite pyproject.toml, so only its settings for hatch-cubin are compared.
    """
    packed = archive.extractfile(info) if info.isreg() else None
    if packed is None:
        return True
    before, now = packed.read(), file.read_bytes()
    if file.name != "pyproject.toml":
        return before != now
    try:
        return build_tables(toml_positions.loads(before.decode())) != build_tables(
            toml_positions.loads(now.decode())
        )
    except ValueError:
        return True


def _new_member(other: tarfile.TarInfo, name: str, mode: int) -> tarfile.TarInfo:
    """Return a new member of the sdist with the time and the owner of the member *other*."""
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = mode, int(other.mtime)
    info.uid, info.gid, info.uname, info.gname = other.uid, other.gid, other.uname, other.gname
    return info


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo, file: Path) -> None:
    data = file.read_bytes()
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
