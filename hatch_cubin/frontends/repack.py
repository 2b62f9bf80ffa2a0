"""Write a changed copy of a finished wheel: with added or removed files, and a correct RECORD."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import os
import re
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..cache.entries import Content
from ..common import temporary_folders
from ..errors import BundleError, Location, problem
from ..wheels.reading.bundles import metadata_file, refuse_large_directory

_SIGNED = ("RECORD.jws", "RECORD.p7s")
_PACKAGE = re.compile(r"((?:[^/]+\.data/(?:pure|plat)lib/)?((?:[^\W\d]\w*/)+))__init__\.py")
_ANY_PLATFORM = re.compile(rb"^(Tag: .*-)any(?=\r?$)", re.MULTILINE)
_CHUNK = 1 << 20


Date = tuple[int, int, int, int, int, int]


class Wheel(NamedTuple):
    """An open wheel: its members, its `.dist-info` folder (*metadata*), and the folder of each package."""

    archive: zipfile.ZipFile
    name: str
    members: list[zipfile.ZipInfo]
    metadata: str
    packages: Mapping[str, str]


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[Wheel]:
    """Open a wheel. Raise BundleError if the wheel cannot be read, or if a signature forbids changes."""
    try:
        refuse_large_directory(path)
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as exc:
        raise BundleError(
            problem("not-a-wheel", "is not a zip archive, so it is not a wheel", Location(path.name))
        ) from exc
    except ValueError as exc:
        raise BundleError(problem("not-a-wheel", f"cannot be read: {exc}", Location(path.name))) from exc
    with archive:
        members = archive.infolist()
        names = [info.filename for info in members]
        metadata = metadata_file(names, "RECORD", path.name).partition("/")[0]
        if signed := [name for name in _SIGNED if f"{metadata}/{name}" in names]:
            what = f"the wheel is signed ({signed[0]}), and adding kernels would invalidate the signature"
            raise BundleError(
                problem(
                    "wheel-signed",
                    what,
                    Location(path.name),
                    "sign the wheel after hatch-cubin has added the kernels",
                )
            )
        matches = filter(None, map(_PACKAGE.fullmatch, names))
        packages = {match[2][:-1].replace("/", "."): match[1][:-1] for match in matches}
        yield Wheel(archive, path.name, members, metadata, packages)


def write_copy(
    wheel: Wheel,
    into: Path,
    added: Mapping[str, Content],
    is_dropped: Callable[[str], bool],
    platform: str = sys.platform,
) -> str:
    """Write a copy of a wheel with *added* files and without dropped files, and return the copy's name.

    No other process sees an incomplete wheel, because only the complete wheel is moved into the folder.
    """
    name, replaced = _for_platform(wheel, platform)
    with complete_file(into, name) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        _fill(archive, wheel, {**added, **replaced}, is_dropped)
    return name


def write_new(
    into: Path,
    name: str,
    metadata: str,
    files: Mapping[str, bytes],
    date: tuple[int, int, int, int, int, int],
) -> str:
    """Write a new wheel with *files* and a RECORD that lists them, and return the name of the wheel."""
    text = io.StringIO()
    rows = [(place, f"sha256={_encoded(hashlib.sha256(data))}", len(data)) for place, data in files.items()]
    csv.writer(text, lineterminator="\n").writerows([*rows, (f"{metadata}/RECORD", "", "")])
    members = {**files, f"{metadata}/RECORD": text.getvalue().encode()}
    with complete_file(into, name) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, data in members.items():
            archive.writestr(_new_member(place, date, [data]), data)
    return name


@contextlib.contextmanager
def complete_file(into: Path, name: str) -> Iterator[Path]:
    """Yield a temporary path for a new file, and then move the complete file into the folder *into*."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        with temporary_folders.make_in(into) as folder:
            yield folder / name
            (folder / name).replace(into / name)
    except OSError as exc:
        where = Location(str(into / name))
        raise BundleError(problem("file-not-writable", f"cannot be written: {exc.strerror}", where)) from exc


def _for_platform(wheel: Wheel, platform: str) -> tuple[str, dict[str, Content]]:
    """Return the name of the new wheel, and the new content of its WHEEL file if its tags have to change."""
    if platform != "win32" or not wheel.name.endswith("-any.whl"):
        return wheel.name, {}
    # code for Windows treats a `long` as 32 bits, so the wheel's tag must name Windows
    place = f"{wheel.metadata}/WHEEL"
    tags = _ANY_PLATFORM.sub(rb"\1win_amd64", wheel.archive.read(place))
    return f"{wheel.name.removesuffix('any.whl')}win_amd64.whl", {place: [tags]}


def _fill(
    archive: zipfile.ZipFile, wheel: Wheel, added: Mapping[str, Content], is_dropped: Callable[[str], bool]
) -> None:
    """Write all members of a wheel: the `.dist-info` folder after all other files, and RECORD last."""
    record = f"{wheel.metadata}/RECORD"
    replaced_names = {*added, record}
    kept = [
        _same_attributes(info)
        for info in wheel.members
        if info.filename not in replaced_names and not is_dropped(info.filename)
    ]
    date = wheel.members[0].date_time
    new = [_new_member(name, date, content) for name, content in added.items()]
    rows: list[tuple[str, str, int | str]] = []
    for info in sorted([*kept, *new], key=lambda info: info.filename.startswith(f"{wheel.metadata}/")):
        if info.is_dir():
            archive.writestr(info, b"")
            continue
        digest, size = hashlib.sha256(), 0
        with archive.open(info, "w") as file:
            for chunk in _chunks(wheel, info.filename, added):
                digest.update(chunk)
                size += file.write(chunk)
        rows.append((info.filename, f"sha256={_encoded(digest)}", size))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
    archive.writestr(_same_attributes(wheel.archive.getinfo(record)), text.getvalue())


def _encoded(digest: hashlib._Hash) -> str:
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def _same_attributes(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a new `ZipInfo` with the name and attributes of *info*, which is a member of the old wheel."""
    copy = zipfile.ZipInfo(info.filename, info.date_time)
    copy.external_attr, copy.create_system = info.external_attr, info.create_system
    copy.compress_type, copy.file_size = info.compress_type, info.file_size
    return copy


def _new_member(name: str, date: Date, content: Content) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date)
    info.external_attr, info.create_system = (stat.S_IFREG | 0o644) << 16, 3  # 3: Unix
    info.compress_type = zipfile.ZIP_DEFLATED
    info.file_size = os.path.getsize(content) if isinstance(content, str) else sum(map(len, content))
    return info


def _chunks(wheel: Wheel, name: str, added: Mapping[str, Content]) -> Iterator[bytes]:
    """Yield a member's content in pieces, because a large file may not fit into memory."""
    content = added.get(name)
    if isinstance(content, list):
        yield from content
        return
    with wheel.archive.open(name) if content is None else open(content, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
