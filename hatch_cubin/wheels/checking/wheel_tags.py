"""Check that a wheel's name, its metadata and the platform of its kernels agree."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePath

from ...bundle.manifest import NOT_OURS
from ...common.distribution_names import comparable_name
from ...errors import BundleError, Location, Problem, problem
from ..reading.bundles import OpenedWheel, member_location, metadata_file, read_member
from ..reading.survey import manifest_of
from .stray_files import machine_code_kind
from .variant_check import VARIANT_FILE

_ABI = r"(?:none|abi3|cp\d|pypy\d)[^-]*"
# If a label follows, the part before it is a platform and not an ABI.
WHEEL_NAME = re.compile(
    r"([^-]+-[^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-"
    rf"(?!{_ABI}-)([^-]+)(?:-([0-9a-z_.]{{1,16}}))?\.whl"
)
# A wheel's name with a part between the version and the tags that is not a build number.
_WITH_EXTRA_PART = re.compile(rf"[^-]+-[^-]+-(\D[^-]*)-[^-]+-{_ABI}-[^-]+\.whl")
_REFUSED = "installers refuse a wheel whose name and metadata disagree"

_METADATA_FOLDER = re.compile(r"([^/]+\.(?:dist-info|data))/", re.IGNORECASE)
_WHEEL_VERSION = re.compile(r"^Wheel-Version: *(.*?) *\r?$", re.MULTILINE)
_ACCEPTED_VERSION = re.compile(r"1\.\d+(\.\d+)*", re.ASCII)
_PURELIB = re.compile(r"^Root-Is-Purelib: *(.*?) *\r?$", re.MULTILINE)
_METADATA_FIELDS = {
    name: re.compile(rf"^{name}: *(.*?) *\r?$", re.MULTILINE | re.IGNORECASE) for name in ("Name", "Version")
}
# An extra may require hatch-cubin: its plugin for pytest, for instance.
_REQUIRES_HATCH_CUBIN = re.compile(
    r"^Requires-Dist: *hatch[-_.]+cubin(?![\w.-])(?!.*;.*\bextra\b)", re.MULTILINE | re.IGNORECASE
)
_TAG = re.compile(r"^Tag: *(\S+) *\r?$", re.MULTILINE)
_LINUX = re.compile(r"(?:^|\.)linux_\w+$")
_WINDOWS_DATA_MODEL = "llp64"  # On Windows, `long` has 32 bits.


def tag_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield the problems of a wheel's file name and tags."""
    if opened.archive is None:
        return
    name = PurePath(opened.path).name
    match = WHEEL_NAME.fullmatch(name)
    if extra := _WITH_EXTRA_PART.fullmatch(name):
        what = f"{extra[1]!r} in the wheel's name is not a build number, which begins with a digit"
        hint = f"rename the wheel: {name.replace(f'-{extra[1]}-', '-', 1)}"
        yield problem("wheel-misnamed", what, Location(opened.path), hint)
        return
    if match is None:
        what = "does not have a name of a wheel, such as NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
        hint = "rename the wheel to the name that its build gave it"
        yield problem("wheel-misnamed", what, Location(opened.path), hint)
        return
    release, *parts, label = match.groups()
    tags = {"-".join(each) for each in itertools.product(*(part.split(".") for part in parts))}
    yield from _metadata_problems(opened.archive, release, tags)
    yield from _label_problems(opened, opened.archive, label)
    platforms = parts[2].split(".")
    for bundle in opened.bundles:
        try:
            model = manifest_of(bundle).data_model
        except BundleError:  # the integrity check reports an unreadable manifest
            continue
        for platform in platforms:
            if platform.startswith("win") != (model == _WINDOWS_DATA_MODEL):
                what = f"the kernels use the C type sizes of {model}, but {platform} has other sizes"
                hint = "only a wheel that was built on Windows can have the platform tag win_amd64"
                yield problem("wrong-platform", what, Location(opened.path), hint)


def tag_warnings(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a warning for a platform tag that PyPI does not accept."""
    name = PurePath(opened.path).name
    if opened.archive is not None and (match := WHEEL_NAME.fullmatch(name)) and _LINUX.search(match[4]):
        hint = "change the tag to py3-none-any, because the wheel contains no machine code for CPUs"
        if any(machine_code_kind(opened.archive, name) == "cpu" for name in opened.archive.namelist()):
            hint = "'auditwheel repair' replaces these tags by manylinux_… tags"
        yield problem("linux-tag", "PyPI does not accept linux_… tags", Location(opened.path), hint)


def requirement_warnings(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a warning if an installer would install hatch-cubin together with the wheel."""
    if opened.archive is None:
        return
    with contextlib.suppress(BundleError):  # the integrity check reports unreadable metadata
        place = metadata_file(opened.archive.namelist(), "METADATA", opened.path)
        if _REQUIRES_HATCH_CUBIN.search(_metadata_fields(opened.archive, place)):
            what = "requires hatch-cubin at run time, but only the build needs it"
            hint = (
                "remove hatch-cubin from 'dependencies' of [project], because 'requires' of [build-system] "
                "is enough"
            )
            yield problem("required-at-run-time", what, member_location(opened.archive, place), hint)


def _label_problems(opened: OpenedWheel, wheel: zipfile.ZipFile, label: str | None) -> Iterator[Problem]:
    """Yield a problem if the variant labels in a wheel's file name and in its metadata differ."""
    place = next(filter(VARIANT_FILE.fullmatch, wheel.namelist()), None)
    said = None
    with contextlib.suppress(BundleError, *NOT_OURS):  # the integrity check reports unreadable metadata
        said = None if place is None else next(iter(json.loads(read_member(wheel, place))["variants"]))
    if said != label:
        what = (
            f"the wheel's metadata has the variant label {said or 'none'}, "
            f"but the wheel's name has {label or 'none'}"
        )
        yield problem("wheel-renamed", what, Location(opened.path), _REFUSED)


def _metadata_problems(wheel: zipfile.ZipFile, release: str, tags: set[str]) -> Iterator[Problem]:
    try:
        place = metadata_file(wheel.namelist(), "WHEEL", str(wheel.filename))
    except BundleError as exc:
        yield from exc.problems
        return
    folder = place.partition("/")[0]
    if comparable_name(folder) != comparable_name(f"{release}.dist-info"):
        what = f"contains {folder}, but the wheel's name says {release}"
        yield problem("wheel-renamed", what, Location(str(wheel.filename)), _REFUSED)
    else:
        with contextlib.suppress(BundleError):  # the integrity check reports unreadable metadata
            yield from _release_problems(wheel, f"{folder}/METADATA", release)
    yield from _other_folder_problems(wheel, folder)
    with contextlib.suppress(BundleError):  # the integrity check reports unreadable metadata
        text = _metadata_fields(wheel, place)
        yield from _version_problems(text, member_location(wheel, place))
        said = {*_TAG.findall(text)}
        if said != tags:
            told = ", ".join(sorted(said)) or "no tag"
            what = f"says {told}, but the wheel's name says {', '.join(sorted(tags))}"
            yield problem("wrong-tags", what, member_location(wheel, place))
        for value in _PURELIB.findall(text):
            if value.lower() not in ("true", "false"):
                what = f"has the line Root-Is-Purelib: {value}, but the value must be true or false"
                yield problem("wrong-tags", what, member_location(wheel, place))


def _version_problems(text: str, where: Location) -> Iterator[Problem]:
    """Yield a problem if pip or uv refuses the version of the wheel's format."""
    match = _WHEEL_VERSION.search(text)
    if match is None:
        yield problem("wrong-tags", "has no line Wheel-Version, so installers refuse the wheel", where)
    elif not _ACCEPTED_VERSION.fullmatch(match[1]):
        what = f"has the line Wheel-Version: {match[1]}, but the value must be 1.0 or a later 1.N"
        yield problem("wrong-tags", what, where)


def _other_folder_problems(wheel: zipfile.ZipFile, folder: str) -> Iterator[Problem]:
    """Yield a problem for each metadata folder that belongs to another project."""
    release = folder.removesuffix(".dist-info")
    known = {folder, f"{release}.data"}
    found = {match[1] for name in wheel.namelist() if (match := _METADATA_FOLDER.match(name))}
    for each in sorted(found - known):
        what = f"does not belong to {release}: a wheel has only its own .dist-info folder and .data folder"
        yield problem("foreign-metadata", what, member_location(wheel, each))


def _release_problems(wheel: zipfile.ZipFile, place: str, release: str) -> Iterator[Problem]:
    """Yield a problem if the name or version in METADATA differs from the wheel's file name."""
    if place not in wheel.namelist():
        yield problem("file-missing", "is missing", member_location(wheel, place), _REFUSED)
        return
    head = _metadata_fields(wheel, place)
    for (field, pattern), said in zip(_METADATA_FIELDS.items(), release.split("-"), strict=True):
        found = pattern.findall(head)
        if [*map(comparable_name, found)] != [comparable_name(said)]:
            what = f"says {field}: {', '.join(found) or 'nothing'}, but the wheel's name says {said}"
            yield problem("wheel-renamed", what, member_location(wheel, place), _REFUSED)


def _metadata_fields(wheel: zipfile.ZipFile, place: str) -> str:
    """Return the text of the fields in METADATA or WHEEL, without the text after the first empty line."""
    return re.split(r"\r?\n\r?\n", read_member(wheel, place).decode("utf-8", "replace"))[0]
