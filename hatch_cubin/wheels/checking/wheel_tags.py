"""Check what a wheel says that it fits: its name, its metadata, the platform of its kernels."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePath

from ...bundle.manifest import NOT_OURS
from ...errors import BundleError, Location, Problem
from ..reading.bundles import Found, member_at, read_member
from ..reading.survey import manifest_of
from .variant_check import PLACE

NAME = re.compile(r"([^-]+-[^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)(?:-([0-9a-z_.]{1,16}))?\.whl")
MISNAMED = "is not named as a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
_WHEEL = re.compile(r"[^/]+\.dist-info/WHEEL")
_OF_INSTALLERS = re.compile(r"([^/]+\.(?:dist-info|data))/", re.IGNORECASE)
_PURELIB = re.compile(r"^Root-Is-Purelib: *(.*?) *\r?$", re.MULTILINE)
_NAMED = {
    name: re.compile(rf"^{name}: *(.*?) *\r?$", re.MULTILINE | re.IGNORECASE) for name in ("Name", "Version")
}
_TAG = re.compile(r"^Tag: *(\S+) *\r?$", re.MULTILINE)
_LINUX = re.compile(r"(?:^|\.)linux_\w+$")
_OF_WINDOWS = "llp64"  # where `long` is 32 bits


def tag_problems(found: Found) -> Iterator[Problem]:
    """Yield what is wrong with a wheel's tags."""
    if found.wheel is None:
        return
    name = PurePath(found.path).name
    match = NAME.fullmatch(name)
    if match is None:
        yield Problem(MISNAMED, Location(found.path))
        return
    release, *parts, label = match.groups()
    tags = {"-".join(each) for each in itertools.product(*(part.split(".") for part in parts))}
    yield from _of_metadata(found.wheel, release, tags)
    yield from _of_label(found, found.wheel, label)
    platforms = parts[2].split(".")
    for bundle in found.bundles:
        try:
            model = manifest_of(bundle).data_model
        except BundleError:  # which its proof tells
            continue
        for platform in platforms:
            if platform.startswith("win") != (model == _OF_WINDOWS):
                what = f"its kernels have C's types as in {model}, which {platform} does not promise"
                hint = "a wheel that was built on Windows is for win_amd64, any other is not"
                yield Problem(what, Location(found.path), hint)


def tag_warnings(found: Found) -> Iterator[Problem]:
    """Yield what indexes will not take."""
    name = PurePath(found.path).name
    if found.wheel is not None and (match := NAME.fullmatch(name)) and _LINUX.search(match[4]):
        what = "PyPI takes no linux_… tags: auditwheel makes manylinux_… of them"
        yield Problem(what, Location(found.path))


def _of_label(found: Found, wheel: zipfile.ZipFile, label: str | None) -> Iterator[Problem]:
    """Yield how the label in a wheel's name differs from the one in its metadata."""
    place = next(filter(PLACE.fullmatch, wheel.namelist()), None)
    said = None
    with contextlib.suppress(BundleError, *NOT_OURS):  # which its proof tells
        said = None if place is None else next(iter(json.loads(read_member(wheel, place))["variants"]))
    if said != label:
        what = f"is the wheel variant {said or 'of no label'}; its name says {label or 'none'}"
        yield Problem(what, Location(found.path), "installers refuse such a wheel")


def _of_metadata(wheel: zipfile.ZipFile, release: str, tags: set[str]) -> Iterator[Problem]:
    places = [each for each in wheel.namelist() if _WHEEL.fullmatch(each)]
    if len(places) != 1:
        yield Problem(
            f"a wheel has one .dist-info/WHEEL, here are {len(places)}", Location(str(wheel.filename))
        )
        return
    folder = places[0].partition("/")[0]
    if _folded(folder) != _folded(f"{release}.dist-info"):
        what = f"has {folder} in it; the wheel's name says {release}"
        yield Problem(what, Location(str(wheel.filename)), "installers refuse such a wheel")
    else:
        with contextlib.suppress(BundleError):  # which its proof tells
            yield from _of_release(wheel, f"{folder}/METADATA", release)
    yield from _of_other_folders(wheel, folder)
    with contextlib.suppress(BundleError):  # which its proof tells
        text = read_member(wheel, places[0]).decode("utf-8", "replace")
        said = {*_TAG.findall(text)}
        if said != tags:
            told = ", ".join(sorted(said)) or "no tag"
            what = f"says {told}; the wheel's name says {', '.join(sorted(tags))}"
            yield Problem(what, member_at(wheel, places[0]))
        for value in _PURELIB.findall(text):
            if value.lower() not in ("true", "false"):
                yield Problem(
                    f"says Root-Is-Purelib: {value}, not true or false", member_at(wheel, places[0])
                )


def _of_other_folders(wheel: zipfile.ZipFile, folder: str) -> Iterator[Problem]:
    """Yield the folders that installers would take for those of another project."""
    release = folder.removesuffix(".dist-info")
    known = {folder, f"{release}.data"}
    found = {match[1] for name in wheel.namelist() if (match := _OF_INSTALLERS.match(name))}
    for each in sorted(found - known):
        what = f"is not of {release}: a wheel has one .dist-info folder, and may have its .data folder"
        yield Problem(what, member_at(wheel, each))


def _of_release(wheel: zipfile.ZipFile, place: str, release: str) -> Iterator[Problem]:
    """Yield how the name and the version in METADATA differ from those of the wheel's file."""
    if place not in wheel.namelist():
        yield Problem("is missing", member_at(wheel, place), "installers refuse such a wheel")
        return
    head = re.split(r"\r?\n\r?\n", read_member(wheel, place).decode("utf-8", "replace"))[0]
    for (field, pattern), said in zip(_NAMED.items(), release.split("-"), strict=True):
        found = pattern.findall(head)
        if [*map(_folded, found)] != [_folded(said)]:
            what = f"says {field}: {', '.join(found) or 'nothing'}; the wheel's name says {said}"
            yield Problem(what, member_at(wheel, place), "installers refuse such a wheel")


def _folded(name: str) -> str:
    """Return a name as installers compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
