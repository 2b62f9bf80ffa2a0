"""Check that hatch-cubin wrote a bill of materials, and that the bill agrees with the bundle's manifest.

The manifest determines which package, tools and sources the bill of materials must list. Only a rebuild of
the project can check the headers, the digests and the commit in the bill of materials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...bundle import sbom
from ...bundle.manifest import NOT_OURS, Manifest
from ...errors import BundleError, Location, Problem, problem
from ...project.source import BUNDLE_FOLDER
from ..reading.bundles import Bundle, OpenedWheel, bundles_of_package, may_be_package, package_at, read_member
from ..reading.survey import manifest_of

_METADATA_SBOM = re.compile(rf"[^/]+\.dist-info/sboms/(?:.+/)?{re.escape(sbom.NAME)}")


class SbomFile(NamedTuple):
    """A bill of materials: its path in the wheel and its bytes."""

    path: str
    data: bytes


def sbom_of(opened: OpenedWheel, bundle: Bundle) -> SbomFile | None:
    """Return a bundle's bill of materials, from the bundle or from the wheel's metadata.

    Raise BundleError if the bill of materials is damaged. Return None if there is no bill of materials.
    """
    if sbom.NAME in bundle.packed_sizes:
        return SbomFile(f"{bundle.place}/{sbom.NAME}", bundle.read(sbom.NAME))
    for path in _sboms_in_metadata(opened):
        assert opened.archive is not None
        data = read_member(opened.archive, path)
        if len(opened.bundles) == 1 or bundle in bundles_of_package(opened, _package_named_in(data)):
            return SbomFile(path, data)
    return None


def sbom_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield the problems of bills of materials.

    A missing bill is a problem in a wheel, but not in a folder.
    """
    paths, without = _sboms_in_metadata(opened), []
    for bundle in opened.bundles:
        try:
            manifest, bill = manifest_of(bundle), sbom_of(opened, bundle)
        except BundleError:  # Other checks report a file that cannot be read.
            paths = []
            continue
        if bill is None:
            without.append((bundle, manifest))
            continue
        place = None if opened.archive is None else bundle.place
        yield from _differences(bill.data, manifest, place, opened.at(bill.path))
        paths = [path for path in paths if path != bill.path]
    for path in paths:
        what = "is a bill of materials that does not belong to any bundle in the wheel"
        yield problem("sbom-of-other-package", what, opened.at(path))
    # A copy of a bundle need not have a bill of materials if another bundle in the wheel has one.
    if opened.archive is not None and len(without) == len(opened.bundles):
        for bundle, manifest in without:
            if manifest.modules or not manifest.skipped:
                what = f"the bill of materials of this bundle is missing: {sbom.NAME}"
                yield problem("sbom-missing", what, Location(bundle.where))


def provenance(data: bytes) -> dict[str, str]:
    """Return the facts in a bill of materials about the git commit of the sources."""
    try:
        return _properties_of(json.loads(data)["metadata"]["component"])
    except NOT_OURS:
        return {}


def _sboms_in_metadata(opened: OpenedWheel) -> list[str]:
    names = [] if opened.archive is None else opened.archive.namelist()
    return sorted({name for name in names if _METADATA_SBOM.fullmatch(name)})


def _package_named_in(data: bytes) -> str:
    try:
        name: str = json.loads(data)["metadata"]["component"]["name"]
        return name.removesuffix(f".{BUNDLE_FOLDER}")
    except NOT_OURS:
        return "?"  # The component's name is not the name of a package.


def _differences(data: bytes, manifest: Manifest, place: str | None, where: Location) -> Iterator[Problem]:
    """Yield the differences between a bill of materials and the bundle's manifest."""
    try:
        fields = json.loads(data)
        parts = fields["components"]
        written = sbom.write_bill(
            _rewrite_bundle_part(fields["metadata"]["component"]), map(_rewrite_part, parts)
        )
        tools = [part["bom-ref"] for part in parts if part["type"] == "application"]
        files = {part["name"] for part in parts if part["type"] == "file"}
    except NOT_OURS:
        yield _edited(where)
        return
    if data != written:
        yield _edited(where)
        return
    if place is not None and not may_be_package(place, _package_named_in(data)):
        named = _package_named_in(data)
        what = f"is the bill of materials of {named}, but the bundle belongs to {package_at(place)}"
        yield problem("sbom-of-other-package", what, where)
    expected = [part["bom-ref"] for part in _tools(manifest)]
    if tools != sorted(expected):
        what = f"names {', '.join(tools) or 'no tools'}, but the manifest names {', '.join(sorted(expected))}"
        yield problem("sbom-differs", what, where)
    for source in sorted({module.source for module in manifest.modules} - files):
        yield problem("sbom-differs", f"does not name {source}, but the manifest names this source", where)


def _edited(where: Location) -> Problem:
    what = "was edited or damaged: hatch-cubin would write this file differently"
    return problem("not-as-written", what, where)


def _rewrite_bundle_part(part: Mapping[str, Any]) -> sbom.Component:
    """Return the component that hatch-cubin would write for the bundle that *part* describes."""
    return sbom.bundle_part(part["name"].removesuffix(f".{BUNDLE_FOLDER}"), _properties_of(part))


def _properties_of(part: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"].removeprefix("hatch-cubin:"): each["value"] for each in part.get("properties", ())}


def _rewrite_part(part: Mapping[str, Any]) -> sbom.Component:
    """Return the component that hatch-cubin would write for the tool, package or file in *part*."""
    if part["type"] == "file":
        return sbom.file_part(part["name"], part["hashes"][0]["content"])
    wheel = part["name"] if "purl" in part else None
    return sbom.part(part["type"], part["name"], part.get("version"), wheel=wheel)


def _tools(manifest: Manifest) -> Iterator[sbom.Component]:
    return sbom.tools(manifest.generator[1], manifest.toolchain)
