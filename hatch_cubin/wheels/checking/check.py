"""Check, before a wheel is published, that it is intact, is small enough, and runs on all intended GPUs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from ... import loader
from ...common.sizes import count, decimal, size
from ...cubin.target import is_for_debugger
from ...errors import BundleError, Location, Problem, problem
from ...project.source import glob_regex
from ..reading.bundles import Bundle, OpenedWheel
from ..reading.companions import missing_companions
from ..reading.compiled_code import read_results
from ..reading.coverage import (
    AffectedKernels,
    GpuCover,
    KernelCover,
    count_by_gpu,
    coverage,
    coverage_section,
    promised_capabilities,
    ptx_only_kernels,
    units_in_files,
    units_in_manifest,
    unserved_kernels,
)
from ..reading.report import ReportSection, ReportTable, kernel_title
from ..reading.survey import BundleFacts, FallbackReader, manifest_of, survey, unit_name
from ..splitting.variant_index import index_problems, index_warnings
from ..splitting.variants import capabilities_of
from .absolute_paths import path_problems
from .integrity import integrity_problems
from .size_advice import largest_files, size_problem
from .stray_files import stray_problems
from .wheel_tags import requirement_warnings, tag_problems, tag_warnings

PYPI_MAX_BYTES = 100_000_000  # PyPI's default limit for the size of a file.
_MAX_SHOWN = 10
_NAME_FIELDS: tuple[Literal["kernel", "module"], ...] = ("kernel", "module")


class SpillingKernel(TypedDict):
    """A kernel whose code for an arch spills registers, with the number of instructions that spill."""

    module: str
    kernel: str
    arch: str
    source: str
    spills: int


class BundleCheck(TypedDict):
    """The result for one bundle: which code each GPU loads, and which kernels spill registers."""

    place: str
    where: str
    gpus: list[GpuCover]
    kernels: list[KernelCover]
    spills: list[SpillingKernel]


class CheckResult(NamedTuple):
    """The result of checking one wheel, folder or package."""

    bytes: int | None
    largest: Mapping[str, int]
    bundles: Sequence[BundleCheck]
    problems: Sequence[Problem]
    warnings: Sequence[Problem]
    sources_without_tile_code: Mapping[str, str]  # each module's source


def check(
    opened: OpenedWheel,
    capabilities: Sequence[int] = (),
    max_size: int | None = None,
    fallback: FallbackReader | None = None,
    excepted: Sequence[str] = (),
) -> CheckResult:
    """Check a wheel, folder or package.

    *capabilities* are the compute capabilities of the GPUs on which all kernels must run. By default, all
    kernels must run on the GPUs of all archs in the wheel. *excepted* are the globs of the option `--except`.
    Kernels and modules that match a glob in *excepted* need not run on all GPUs, and these modules may
    contain code for a debugger (-G). Files of GPU code outside the bundle are accepted if they match a glob
    in *excepted*.
    """
    problems = [
        *integrity_problems(opened),
        *tag_problems(opened),
        *index_problems(opened),
        *path_problems(opened),
        *stray_problems(opened, excepted),
    ]
    warnings = [*tag_warnings(opened), *requirement_warnings(opened), *index_warnings(opened)]
    bundles: list[BundleCheck] = []
    sources: dict[str, str] = {}
    for bundle in opened.bundles:
        try:
            facts = survey(bundle, fallback)
            checked = _check_bundle(bundle, facts, capabilities)
        except BundleError:  # the integrity check reports an unreadable manifest
            continue
        bundles.append(checked)
        sources |= _sources_without_tile_code(facts)
        if absent := missing_companions(bundle, manifest_of(bundle)):
            what = f"some companion wheels are missing, so they were not checked: {', '.join(absent)}"
            warnings.append(problem("companions-not-checked", what, Location(bundle.where)))
        problems += _unserved_problems(bundle, checked, excepted)
        problems += _debug_code_problems(bundle, excepted)
        warnings += _ptx_only_warnings(bundle, checked, excepted)
    wheel = opened.archive is not None
    total = os.path.getsize(opened.path) if wheel else None
    if total is not None and max_size is not None:
        problems += filter(None, [size_problem(opened, max_size)])
    elif total is not None and total > PYPI_MAX_BYTES:
        what = f"is {decimal(total)}, but PyPI accepts at most 100 MB unless you request a higher limit"
        hint = 'to make this an error, add this line to the table of hatch-cubin: max-size = "100 MB"'
        warnings.append(problem("over-pypi-limit", what, Location(opened.path), hint))
    return CheckResult(total, largest_files(opened) if wheel else {}, bundles, problems, warnings, sources)


def _check_bundle(bundle: Bundle, facts: BundleFacts, capabilities: Sequence[int]) -> BundleCheck:
    # The manifest of a wheel variant also lists the code of all other variants, because the loader chooses
    # from the whole list.
    manifest = manifest_of(bundle)
    units = units_in_files(facts) if manifest.wheel_variant is None else units_in_manifest(manifest)
    covers = coverage(units, capabilities_of(manifest, capabilities or promised_capabilities(units)))
    return {
        "place": bundle.place,
        "where": bundle.where,
        "gpus": count_by_gpu(covers),
        "kernels": covers,
        "spills": [*_spills(facts)],
    }


def _sources_without_tile_code(facts: BundleFacts) -> dict[str, str]:
    """Return the source of each module, except modules with tile kernels or with an unreadable file."""
    return {
        unit["module"]: unit["source"]
        for unit in facts["units"]
        if unit["problem"] is None and not any(kernel["tile"] for kernel in unit["kernels"])
    }


def _spills(facts: BundleFacts) -> Iterator[SpillingKernel]:
    for unit in facts["units"]:
        for kernel in unit["kernels"]:
            if spills := kernel["spills"]:
                yield {
                    "module": unit["module"],
                    "kernel": kernel["name"],
                    "arch": unit["arch"],
                    "source": unit["source"],
                    "spills": spills,
                }


def _unserved_problems(bundle: Bundle, checked: BundleCheck, excepted: Sequence[str]) -> Iterator[Problem]:
    if not checked["kernels"]:
        hint = "run 'hatch-cubin plan' in the wheel's project to see which kernels a build compiles"
        if manifest_of(bundle).skipped:
            hint = "HATCH_CUBIN_SKIP was set in the build: unset it, and build the wheel again"
        yield problem("no-kernels", "does not contain any kernel", Location(bundle.where), hint)
    total = len(checked["kernels"])
    for left in _without_excepted(excepted, unserved_kernels(checked["kernels"])):
        gpus = ", ".join(left["gpus"])
        what = f"{len(left['kernels'])} of {count(total, 'kernel')} cannot run on {gpus}"
        hint, details = _serve_gpus(left["gpus"], left["absent_from"]), tuple(_kernel_lines(left))
        yield problem("gpu-not-served", what, Location(bundle.where), hint, details)


def _debug_code_problems(bundle: Bundle, excepted: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for code that was compiled for a debugger (-G), because it runs many times slower."""
    rules = [glob_regex(glob) for glob in excepted]
    units: list[str] = []
    for module, entry, data in read_results(bundle, manifest_of(bundle).here):
        if any(rule.fullmatch(name) for rule in rules for name in (module.name, *entry.kernels)):
            continue
        with contextlib.suppress(ValueError):  # the integrity check reports damaged compiled code
            if isinstance(data, bytes) and is_for_debugger(data):
                units.append(unit_name(module.name, entry.arch))
    if units:
        what = (
            f"the bundle has {count(len(units), 'unit')} compiled for a debugger (-G), without optimization"
        )
        more = [f"and {len(units) - _MAX_SHOWN} more"] * (len(units) > _MAX_SHOWN)
        hint = "build without the option 'debug'; a profiler needs only the option 'lineinfo'"
        yield problem("debug-code", what, Location(bundle.where), hint, (*units[:_MAX_SHOWN], *more))


def _without_excepted(excepted: Sequence[str], lacks: Iterable[AffectedKernels]) -> Iterator[AffectedKernels]:
    """Remove the kernels whose name or module matches a glob in *excepted*."""
    rules = [glob_regex(glob) for glob in excepted]
    for left in lacks:
        kernels = [
            cover
            for cover in left["kernels"]
            if not any(rule.fullmatch(cover[name]) for rule in rules for name in _NAME_FIELDS)
        ]
        if kernels:
            yield {**left, "kernels": kernels}


def exceptable_names(bundles: Iterable[BundleCheck]) -> set[str]:
    """Return the names that a glob of `--except` can match: those of all kernels and modules."""
    return {cover[name] for checked in bundles for cover in checked["kernels"] for name in _NAME_FIELDS}


def _serve_gpus(gpus: Sequence[str], absent_from: Sequence[str]) -> str:
    """Return a hint for kernels that cannot run on *gpus*.

    *absent_from* are archs for which the compiled source does not contain the kernels. For a GPU that would
    load the code for an arch in *absent_from*, the hint says to define the kernels for this arch in the
    source. For a GPU that would load no code, the hint says to add an arch for the GPU to the project.
    """
    shipped = [(arch, 0) for arch in absent_from]
    chosen = {gpu: loader.select(_number(gpu), None, shipped) for gpu in gpus}
    found = ", ".join(dict.fromkeys(each[0] for each in chosen.values() if each))
    new = [gpu for gpu, each in chosen.items() if not each]
    archs = ", ".join(f'"sm_{_number(gpu)}"' for gpu in new)
    add_archs = (
        f"add {archs} to the archs of these kernels, if the kernels support {', '.join(new)}, and "
        "build without HATCH_CUBIN_ARCHS"
    )
    leave_out = (
        "name the GPUs that the wheel is for with --gpu, "
        "or name the kernels that need not run on all GPUs with --except"
    )
    if not found:
        return f"{add_archs}; or {leave_out}"
    and_add_archs = f", and {add_archs}" if new else ""
    return (
        f"the source does not define these kernels for {found}, perhaps because of an '#if': "
        f"define the kernels for {found} too{and_add_archs}; or {leave_out}"
    )


def _number(capability: str) -> int:
    return int(capability.replace(".", ""))


def _ptx_only_warnings(bundle: Bundle, checked: BundleCheck, excepted: Sequence[str]) -> Iterator[Problem]:
    total = len(checked["kernels"])
    for left in _without_excepted(excepted, ptx_only_kernels(checked["kernels"])):
        gpus = ", ".join(left["gpus"])
        what = (
            f"{len(left['kernels'])} of {count(total, 'kernel')} have only PTX for {gpus}, "
            "while other kernels have machine code"
        )
        yield problem("only-ptx", what, Location(bundle.where), None, tuple(_kernel_lines(left)))


def _kernel_lines(left: AffectedKernels) -> Iterator[str]:
    for cover in left["kernels"][:_MAX_SHOWN]:
        title = kernel_title(cover["module"], cover["kernel"])
        archs, absent_from = ", ".join(cover["archs"]), ", ".join(cover["absent_from"])
        if absent_from:
            yield f"{title}: built for {archs}; the code for {absent_from} does not contain this kernel"
        else:
            yield f"{title}: built for {archs}"
    if len(left["kernels"]) > _MAX_SHOWN:
        yield f"and {len(left['kernels']) - _MAX_SHOWN} more"


# --- for people ----------------------------------------------------------------------------------


def check_sections(path: str, verdict: CheckResult) -> list[ReportSection]:
    """Return the sections of the report about a wheel. Problems are printed elsewhere."""
    lines = [] if verdict.bytes is None else [_size_line(verdict)]
    return [
        ReportSection(path, lines),
        *(part for checked in verdict.bundles for part in bundle_sections(checked)),
    ]


def _size_line(verdict: CheckResult) -> str:
    shown = ", ".join(f"{name} {size(packed)}" for name, packed in [*verdict.largest.items()][:3])
    return f"{size(verdict.bytes or 0)}; the largest files: {shown}"


def bundle_sections(checked: BundleCheck) -> Iterator[ReportSection]:
    """Yield the sections of the report about the code that GPUs load, and about register spills."""
    if checked["gpus"]:
        yield coverage_section(f"{checked['where']}: the code that each GPU runs", checked["kernels"])
    if checked["spills"]:
        yield _spill_section(checked)


def _spill_section(checked: BundleCheck) -> ReportSection:
    worst = sorted(checked["spills"], key=lambda each: -each["spills"])
    rows = [
        [kernel_title(each["module"], each["kernel"]), each["arch"], str(each["spills"]), each["source"]]
        for each in worst[:_MAX_SHOWN]
    ]
    more = len(worst) - len(rows)
    title = f"kernels that spill registers: {len(worst)}"
    lines = [f"and {more} more kernels: 'hatch-cubin inspect' lists all kernels"] if more else []
    return ReportSection(
        title,
        lines,
        ReportTable(["kernel", "arch", "spills", "source"], rows, numbers=[2], names=[0, 1, 3]),
    )
