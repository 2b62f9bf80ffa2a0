"""Check that a wheel variant has the right files, and a correct variant.json for installers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import BundleError, Location, Problem, problem
from ..reading.bundles import Bundle, OpenedWheel, read_member
from ..reading.survey import manifest_of
from ..splitting.variants import VARIANT_JSON, describe_variants, files_with, variants

VARIANT_FILE = re.compile(rf"[^/]+\.dist-info/{re.escape(VARIANT_JSON)}")


def variant_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield the problems of a wheel variant. There are no problems if the wheel is not a variant."""
    for bundle in opened.bundles:
        try:
            known = manifest_of(bundle).wheel_variant
        except BundleError:  # the integrity check reports an unreadable manifest
            continue
        if known is not None:
            yield from _unit_problems(bundle, known["label"])
            yield from _description_problems(opened, bundle, known["label"])


def _unit_problems(bundle: Bundle, label: str) -> Iterator[Problem]:
    manifest = manifest_of(bundle)
    units = variants(manifest).get(label)
    if units is None:
        what = f"claims to be the wheel variant {label!r}, but the manifest's archs do not allow this variant"
        yield problem("wrong-variant", what, bundle.at("manifest.json"))
        return
    own = files_with(manifest, units)
    absent = {entry.file for module in manifest.modules for entry in module.entries if entry.absent}
    if absent != manifest.files - own:
        what = f"does not list exactly the files that belong to the wheel variant {label!r}"
        yield problem("wrong-variant", what, bundle.at("manifest.json"), "split the wheel again")
    for name in sorted(absent & {*bundle.packed_sizes}):
        yield problem(
            "wrong-variant",
            f"is in the wheel variant {label!r}, but does not belong to this variant",
            bundle.at(name),
        )


def _description_problems(opened: OpenedWheel, bundle: Bundle, label: str) -> Iterator[Problem]:
    if opened.archive is None:
        return
    places = [name for name in opened.archive.namelist() if VARIANT_FILE.fullmatch(name)]
    if not places:
        what = f"belongs to a wheel variant, but the wheel does not contain {VARIANT_JSON}"
        yield problem("wrong-variant", what, Location(bundle.where))
    for place in places:
        if read_member(opened.archive, place) != describe_variants([label]):
            yield problem("wrong-variant", f"does not describe the wheel variant {label!r}", opened.at(place))
