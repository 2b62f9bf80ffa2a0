"""Split a finished wheel into wheel variants: an installer chooses the variant for the machine's GPU.

Nothing is compiled. Each variant contains the manifest of the complete wheel. For a GPU, the loader therefore
chooses the same code, whether a variant or the complete wheel is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from ...bundle import loader_files
from ...errors import BundleError, Location, Problem, problem
from ..checking.variant_check import VARIANT_FILE
from ..reading.bundles import OpenedWheel
from ..reading.coverage import capability
from .split import SplittableWheel, check_splittable, manifest_of_part
from .variant_index import variants_file_name
from .variants import NULL_LABEL, VARIANT_JSON, describe_variants, files_with, stranded_gpus, variants


class VariantWheel(NamedTuple):
    """A wheel variant: its label, its new and changed files, and the files that are removed."""

    label: str
    written: Mapping[str, bytes]
    gone: frozenset[str]


class VariantWheels(NamedTuple):
    """All variants of a wheel, and the name of the JSON file that describes the variants."""

    parts: Sequence[VariantWheel]
    described_in: str

    @property
    def labels(self) -> list[str]:
        return [part.label for part in self.parts]


def cut_into_variants(opened: OpenedWheel) -> VariantWheels:
    """Split a wheel into variants, or raise BundleError if the wheel cannot be split."""
    whole = check_splittable(opened)
    if place := next(filter(VARIANT_FILE.fullmatch, whole.archive.namelist()), None):
        raise BundleError(problem("already-split", "is a wheel variant already", opened.at(place)))
    units = variants(whole.manifest)
    if not units.keys() - {NULL_LABEL}:
        what = "does not contain machine code from which a variant could be made"
        raise BundleError(problem("not-splittable", what, Location(whole.bundle.where)))
    problems = [_stranded_problem(whole, *each) for each in stranded_gpus(whole.manifest)]
    if problems:
        raise BundleError(*problems)
    everything = whole.manifest.files
    parts = [
        _variant_wheel(whole, label, everything - files_with(whole.manifest, own))
        for label, own in units.items()
    ]
    release = "-".join(PurePath(opened.path).name.split("-")[:2])
    return VariantWheels(parts, variants_file_name(release))


def _variant_wheel(whole: SplittableWheel, label: str, absent: set[str]) -> VariantWheel:
    known = {"install": f"{whole.home.project}=={whole.home.version}", "label": label}
    data = manifest_of_part(
        whole.bundle, {"wheel_variant": known}, lambda entry: _with_absence(entry, absent)
    )
    written = {
        f"{whole.bundle.place}/manifest.json": data,
        f"{whole.bundle.place}/{loader_files.SPLIT}": loader_files.read(loader_files.SPLIT),
        f"{whole.metadata}/{VARIANT_JSON}": describe_variants([label]),
    }
    return VariantWheel(label, written, frozenset(f"{whole.bundle.place}/{file}" for file in absent))


def _with_absence(entry: Mapping[str, Any], absent: set[str]) -> dict[str, Any]:
    return {**entry, **({"absent": True} if entry.get("block", entry.get("file")) in absent else {})}


def _stranded_problem(whole: SplittableWheel, label: str, cc: int) -> Problem:
    gpu = capability(cc)
    what = (
        f"installers would choose the variant {label} for GPU {gpu}, "
        "but this GPU cannot run any kernel of the variant"
    )
    hint = f'add "sm_{cc}" to archs, or PTX: "compute_{label.removeprefix("sm")}"'
    return problem("gpu-not-served", what, Location(whole.bundle.where), hint)
