"""Check what a wheel says that it fits: its name, its metadata, the platform of its kernels."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePath

from ..bundle.manifest import NOT_OURS
from ..errors import BundleError, Location, Problem
from .installed import Found, member_at, read_member
from .survey import manifest_of
from .variant_proof import PLACE

NAME = re.compile(r"([^-]+-[^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)(?:-([0-9a-z_.]{1,16}))?\.whl")
MISNAMED = "is not named as a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
_WHEEL = re.compile(r"[^/]+\.dist-info/WHEEL")
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
    try:
        said = {*_TAG.findall(read_member(wheel, places[0]).decode("utf-8", "replace"))}
    except BundleError:  # which its proof tells
        return
    if said != tags:
        what = f"says {', '.join(sorted(said)) or 'no tag'}; the wheel's name says {', '.join(sorted(tags))}"
        yield Problem(what, member_at(wheel, places[0]))


def _folded(name: str) -> str:
    """Return a name as installers compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
