"""Cut a finished wheel into variants for GPUs, of which an installer takes the one that fits the machine.

Nothing is compiled. Each variant keeps the whole index: what is chosen does not depend on what is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from ...bundle import loader_files
from ...errors import BundleError, Location, Problem
from ..checking.variant_check import PLACE
from ..checking.wheel_tags import MISNAMED, NAME, tag_problems
from ..reading.bundles import Found
from ..reading.coverage import capability
from .split import Whole, index, whole_of
from .variant_index import name_of
from .variants import NAME as METADATA
from .variants import NULL, described, files_of, stranded, variants


class Variant(NamedTuple):
    """What becomes of the wheel as one variant: its label, what is written anew in it, and what goes."""

    label: str
    written: Mapping[str, bytes]
    gone: frozenset[str]


class Variants(NamedTuple):
    """All variants of a wheel, and the name of the file that describes them."""

    parts: Sequence[Variant]
    described_in: str

    @property
    def labels(self) -> list[str]:
        return [part.label for part in self.parts]


def cut(found: Found) -> Variants:
    """Return how a wheel is cut; BundleError says why it cannot be."""
    whole = whole_of(found)
    if place := next(filter(PLACE.fullmatch, whole.archive.namelist()), None):
        raise BundleError(Problem("is a wheel variant already", found.at(place)))
    named = NAME.fullmatch(PurePath(found.path).name)
    if named is None:
        raise BundleError(Problem(MISNAMED, Location(found.path), "its variants are named like it"))
    if problems := [*tag_problems(found)]:
        raise BundleError(*problems)
    units = variants(whole.manifest)
    if not units.keys() - {NULL}:
        what = "has no machine code that a variant could have"
        raise BundleError(Problem(what, Location(whole.bundle.where)))
    problems = [_stranding(whole, *each) for each in stranded(whole.manifest)]
    if problems:
        raise BundleError(*problems)
    everything = whole.manifest.files
    parts = [
        _variant(whole, label, everything - files_of(whole.manifest, own)) for label, own in units.items()
    ]
    return Variants(parts, name_of(named[1]))


def _variant(whole: Whole, label: str, absent: set[str]) -> Variant:
    known = {"install": f"{whole.home.project}=={whole.home.version}", "label": label}
    data = index(whole.bundle, {"wheel_variant": known}, lambda entry: _marked(entry, absent))
    written = {
        f"{whole.bundle.place}/manifest.json": data,
        f"{whole.bundle.place}/{loader_files.SPLIT}": loader_files.read(loader_files.SPLIT),
        f"{whole.metadata}/{METADATA}": described([label]),
    }
    return Variant(label, written, frozenset(f"{whole.bundle.place}/{file}" for file in absent))


def _marked(entry: Mapping[str, Any], absent: set[str]) -> dict[str, Any]:
    return {**entry, **({"absent": True} if entry.get("block", entry.get("file")) in absent else {})}


def _stranding(whole: Whole, label: str, cc: int) -> Problem:
    what = f"the wheel variant {label} would be installed on {capability(cc)}, where nothing of it runs"
    hint = f'add "sm_{cc}" to archs, or PTX: "compute_{label.removeprefix("sm")}"'
    return Problem(what, Location(whole.bundle.where), hint)
