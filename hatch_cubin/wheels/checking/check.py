"""Check what a release job is about to publish: that it is whole, serves every promised GPU, and fits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from ...common.sizes import count, decimal, size
from ...cubin.target import is_for_debugger
from ...errors import BundleError, Location, Problem
from ...project.source import glob_regex
from ..reading.bundles import Bundle, Found
from ..reading.companions import missing
from ..reading.compiled_code import results
from ..reading.coverage import (
    GpuCover,
    KernelCover,
    Left,
    by_gpu,
    coverage,
    coverage_part,
    left_to_ptx,
    not_served,
    promised,
    units_in,
    units_of,
)
from ..reading.report import Part, Table, kernel_title
from ..reading.survey import BundleFacts, SecondReader, manifest_of, survey, unit_name
from ..splitting.variant_index import index_problems, index_warnings
from ..splitting.variants import meant_for
from .absolute_paths import path_problems
from .integrity import proof_problems
from .size_advice import budget_problem, largest
from .stray_files import stray_problems
from .wheel_tags import tag_problems, tag_warnings

PYPI = 100_000_000  # what it takes, unless one asks for more
_SHOWN = 10
_NAMES: tuple[Literal["kernel", "module"], ...] = ("kernel", "module")


class Spill(TypedDict):
    """A kernel that spills registers for an arch, and in how many instructions."""

    module: str
    kernel: str
    arch: str
    spills: int


class Checked(TypedDict):
    """What one bundle has for whom."""

    place: str
    where: str
    gpus: list[GpuCover]
    kernels: list[KernelCover]
    spills: list[Spill]


class Verdict(NamedTuple):
    """What was found out about one wheel, folder or package."""

    bytes: int | None
    largest: Mapping[str, int]
    bundles: Sequence[Checked]
    problems: Sequence[Problem]
    warnings: Sequence[Problem]


def check(
    found: Found,
    capabilities: Sequence[int] = (),
    budget: int | None = None,
    second: SecondReader | None = None,
    spared: Sequence[str] = (),
) -> Verdict:
    """Check all of what was found, for these GPUs; by default for those that its archs name.

    What is *spared* are globs: of kernels and modules that some GPUs may lack, of modules that may be for a
    debugger, and of code that may lie beside the bundle.
    """
    problems = [
        *proof_problems(found),
        *tag_problems(found),
        *index_problems(found),
        *path_problems(found),
        *stray_problems(found, spared),
    ]
    warnings = [*tag_warnings(found), *index_warnings(found)]
    bundles: list[Checked] = []
    for bundle in found.bundles:
        try:
            checked = _checked(bundle, capabilities, second)
        except BundleError:  # which its proof tells
            continue
        bundles.append(checked)
        if absent := missing(bundle, manifest_of(bundle)):
            what = f"companions are not here, and were not looked at: {', '.join(absent)}"
            warnings.append(Problem(what, Location(bundle.where)))
        problems += _not_served(bundle, checked, spared)
        problems += _for_debuggers(bundle, spared)
        warnings += _left_to_ptx(bundle, checked, spared)
    wheel = found.wheel is not None
    total = os.path.getsize(found.path) if wheel else None
    if total is not None and budget is not None:
        problems += filter(None, [budget_problem(found, budget)])
    elif total is not None and total > PYPI:
        what = f"is {decimal(total)}: PyPI takes 100 MB, unless one asks for more"
        warnings.append(Problem(what, Location(found.path), 'to make this an error: max-size = "100 MB"'))
    return Verdict(total, largest(found) if wheel else {}, bundles, problems, warnings)


def _checked(bundle: Bundle, capabilities: Sequence[int], second: SecondReader | None) -> Checked:
    facts = survey(bundle, second)
    manifest = manifest_of(bundle)  # by which alone the loader chooses, whichever variants are here
    units = units_in(facts) if manifest.wheel_variant is None else units_of(manifest)
    covers = coverage(units, meant_for(manifest, capabilities or promised(units)))
    return {
        "place": bundle.place,
        "where": bundle.where,
        "gpus": by_gpu(covers),
        "kernels": covers,
        "spills": [*_spills(facts)],
    }


def _spills(facts: BundleFacts) -> Iterator[Spill]:
    for unit in facts["units"]:
        for kernel in unit["kernels"]:
            if spills := kernel["spills"]:
                yield {
                    "module": unit["module"],
                    "kernel": kernel["name"],
                    "arch": unit["arch"],
                    "spills": spills,
                }


def _not_served(bundle: Bundle, checked: Checked, spared: Sequence[str]) -> Iterator[Problem]:
    if not checked["kernels"]:
        yield Problem("there are no kernels in it", Location(bundle.where))
    total = len(checked["kernels"])
    for left in _but(spared, not_served(checked["kernels"])):
        gpus = ", ".join(left["gpus"])
        what = f"{len(left['kernels'])} of {count(total, 'kernel')} cannot run on {gpus}"
        yield Problem(what, Location(bundle.where), _add_archs(left["gpus"]), tuple(_named(left)))


def _for_debuggers(bundle: Bundle, spared: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for the units that were compiled with -G: they run many times slower."""
    rules = [glob_regex(glob) for glob in spared]
    units: list[str] = []
    for module, entry, data in results(bundle, manifest_of(bundle).here):
        if any(rule.fullmatch(name) for rule in rules for name in (module.name, *entry.kernels)):
            continue
        with contextlib.suppress(ValueError):  # its proof tells what is damaged
            if isinstance(data, bytes) and is_for_debugger(data):
                units.append(unit_name(module.name, entry.arch))
    if units:
        what = f"{count(len(units), 'unit')} compiled for a debugger (-G), without optimization"
        more = [f"and {len(units) - _SHOWN} more"] * (len(units) > _SHOWN)
        hint = "build without the option debug; profilers need lineinfo alone"
        yield Problem(what, Location(bundle.where), hint, (*units[:_SHOWN], *more))


def _but(spared: Sequence[str], lacks: Iterable[Left]) -> Iterator[Left]:
    """Yield lacks without the kernels that may have them, by their own name or their module's."""
    rules = [glob_regex(glob) for glob in spared]
    for left in lacks:
        kernels = [
            cover
            for cover in left["kernels"]
            if not any(rule.fullmatch(cover[name]) for rule in rules for name in _NAMES)
        ]
        if kernels:
            yield {"gpus": left["gpus"], "kernels": kernels}


def names_of(bundles: Iterable[Checked]) -> set[str]:
    """Return what a glob of *spared* can match: the names of kernels and modules."""
    return {cover[name] for checked in bundles for cover in checked["kernels"] for name in _NAMES}


def _add_archs(gpus: Sequence[str]) -> str:
    archs = ", ".join(f'"sm_{gpu.replace(".", "")}"' for gpu in gpus)
    return f"their archs lack {archs}; or --gpu names the GPUs that the wheel is for, --except the kernels"


def _left_to_ptx(bundle: Bundle, checked: Checked, spared: Sequence[str]) -> Iterator[Problem]:
    total = len(checked["kernels"])
    for left in _but(spared, left_to_ptx(checked["kernels"])):
        gpus = ", ".join(left["gpus"])
        what = f"{len(left['kernels'])} of {count(total, 'kernel')} have PTX alone for {gpus}, others code"
        yield Problem(what, Location(bundle.where), None, tuple(_named(left)))


def _named(left: Left) -> Iterator[str]:
    for cover in left["kernels"][:_SHOWN]:
        yield f"{kernel_title(cover['module'], cover['kernel'])}: built for {', '.join(cover['archs'])}"
    if len(left["kernels"]) > _SHOWN:
        yield f"and {len(left['kernels']) - _SHOWN} more"


# --- for people ----------------------------------------------------------------------------------


def parts(path: str, verdict: Verdict) -> list[Part]:
    """Return what people want to know of a wheel, whatever is wrong with it."""
    lines = [] if verdict.bytes is None else [_size_line(verdict)]
    return [Part(path, lines), *(part for checked in verdict.bundles for part in bundle_parts(checked))]


def _size_line(verdict: Verdict) -> str:
    shown = ", ".join(f"{name} {size(packed)}" for name, packed in [*verdict.largest.items()][:3])
    return f"{size(verdict.bytes or 0)}; the largest: {shown}"


def bundle_parts(checked: Checked) -> Iterator[Part]:
    """Yield what GPUs run of a bundle, and what spills."""
    if checked["gpus"]:
        yield coverage_part(f"{checked['where']}: what each GPU runs", checked["kernels"])
    if checked["spills"]:
        yield _spill_part(checked)


def _spill_part(checked: Checked) -> Part:
    worst = sorted(checked["spills"], key=lambda each: -each["spills"])
    rows = [
        [kernel_title(each["module"], each["kernel"]), each["arch"], str(each["spills"])]
        for each in worst[:_SHOWN]
    ]
    more = len(worst) - len(rows)
    title = f"kernels that spill registers: {len(worst)}"
    lines = [f"and {more} more: 'inspect' has all"] if more else []
    return Part(title, lines, Table(["kernel", "arch", "spills"], rows, numbers=[2], names=[0, 1]))
