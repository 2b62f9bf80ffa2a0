"""Use the loader's function `select` to find out which code each GPU loads for each kernel. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

from ... import loader
from ...bundle.manifest import Manifest
from ...common.arch_names import number_of, parse_arch
from ...common.sizes import cuda
from .report import ReportSection, ReportTable, kernel_title
from .survey import BundleFacts

_MAX_ROWS = 40
_NOTHING = "nothing"


# For each GPU: the chosen arch, and the driver version that it needs.
ChoicePerGpu = tuple[tuple[str | None, int | None], ...]


class ShippedUnit(NamedTuple):
    """Compiled code in a wheel: its module, its arch, the driver that it needs, and its kernels."""

    module: str
    arch: str
    min_driver: int
    kernels: tuple[str, ...]


class ServedGpu(TypedDict):
    """The code that a GPU loads for a kernel.

    The field *arch* is None if the kernel cannot run on the GPU.
    """

    gpu: str
    arch: str | None
    kind: str | None
    rule: str | None
    min_driver: int | None


class KernelCover(TypedDict):
    """A kernel of a module, the archs that it is compiled for, and the code that each GPU loads.

    *absent_from* are archs for which the compiled module does not contain the kernel.
    """

    module: str
    kernel: str
    archs: list[str]
    absent_from: list[str]
    served: list[ServedGpu]


class GpuCover(TypedDict):
    """For a GPU: how many kernels have machine code, have only PTX, or cannot run."""

    gpu: str
    cubin: int
    ptx: int
    none: int
    min_driver: int | None


class AffectedKernels(TypedDict):
    """A group of kernels that cannot run on *gpus*, or a group that has only PTX for *gpus*.

    *absent_from* are archs for which the kernels' compiled modules do not contain the kernels.
    """

    absent_from: list[str]
    gpus: list[str]
    kernels: list[KernelCover]


def units_in_manifest(manifest: Manifest) -> list[ShippedUnit]:
    """Return the compiled code that a manifest lists."""
    return [
        ShippedUnit(module.name, entry.arch, entry.min_driver, tuple(entry.kernels))
        for module in manifest.modules
        for entry in module.entries
    ]


def units_in_files(facts: BundleFacts) -> list[ShippedUnit]:
    """Return the compiled code of a bundle. For missing files, the kernels are taken from the manifest."""
    return [
        ShippedUnit(
            unit["module"],
            unit["arch"],
            unit["min_driver"],
            tuple(kernel["name"] for kernel in unit["kernels"]),
        )
        for unit in facts["units"]
    ]


def promised_capabilities(units: Iterable[ShippedUnit]) -> list[int]:
    """Return the compute capabilities of all archs in a wheel."""
    archs = {unit.arch for unit in units}
    return sorted({number for arch in archs if (number := number_of(arch)) is not None})


def coverage(units: Iterable[ShippedUnit], capabilities: Iterable[int]) -> list[KernelCover]:
    """Return, for each kernel, the code that each GPU loads if its driver is new enough."""
    wanted = [*capabilities]
    having: dict[tuple[str, str], list[tuple[str, int]]] = {}
    of_module: dict[str, list[str]] = {}
    for unit in units:
        if number_of(unit.arch) is not None:
            of_module.setdefault(unit.module, []).append(unit.arch)
            for kernel in unit.kernels:
                having.setdefault((unit.module, kernel), []).append((unit.arch, unit.min_driver))
    # cached: most kernels are compiled for the same archs
    known: dict[tuple[tuple[str, int], ...], list[ServedGpu]] = {}
    covers: list[KernelCover] = []
    for (module, kernel), shipped in having.items():
        if (shape := tuple(shipped)) not in known:
            known[shape] = [_choice_for_gpu(cc, shape) for cc in wanted]
        archs = [arch for arch, _driver in shipped]
        covers.append(
            {
                "module": module,
                "kernel": kernel,
                "archs": archs,
                "absent_from": [arch for arch in of_module[module] if arch not in archs],
                "served": known[shape],
            }
        )
    return covers


def count_by_gpu(covers: Iterable[KernelCover]) -> list[GpuCover]:
    """Return, for each GPU, how many kernels have machine code, have only PTX, or cannot run."""
    counts: dict[str, GpuCover] = {}
    for served in (each for cover in covers for each in cover["served"]):
        gpu = served["gpu"]
        empty: GpuCover = {"gpu": gpu, "cubin": 0, "ptx": 0, "none": 0, "min_driver": None}
        count = counts.setdefault(gpu, empty)
        if served["kind"] is None or served["min_driver"] is None:
            count["none"] += 1
            continue
        count["ptx" if served["kind"] == "ptx" else "cubin"] += 1
        count["min_driver"] = max(count["min_driver"] or 0, served["min_driver"])
    return [*counts.values()]


def unserved_kernels(covers: Iterable[KernelCover]) -> list[AffectedKernels]:
    """Return the kernels that cannot run on some GPUs, grouped by these GPUs."""
    return _group_by_gpus(
        (cover, [each["gpu"] for each in cover["served"] if not each["arch"]]) for cover in covers
    )


def ptx_only_kernels(covers: Sequence[KernelCover]) -> list[AffectedKernels]:
    """Return the kernels that have only PTX for some GPU, although other kernels have machine code for it."""
    counts = count_by_gpu(covers)
    usual = {count["gpu"] for count in counts if count["cubin"]}
    return _group_by_gpus(
        (cover, [each["gpu"] for each in cover["served"] if each["kind"] == "ptx" and each["gpu"] in usual])
        for cover in covers
    )


def capability(number: int) -> str:
    """Return a compute capability as text, such as '9.0' for 90."""
    return f"{number // 10}.{number % 10}"


def _choice_for_gpu(cc: int, shipped: Sequence[tuple[str, int]]) -> ServedGpu:
    chosen = loader.select(cc, None, shipped)
    if chosen is None:
        return {"gpu": capability(cc), "arch": None, "kind": None, "rule": None, "min_driver": None}
    arch, rule = chosen
    kind = "ptx" if parse_arch(arch).is_ptx else "cubin"
    return {
        "gpu": capability(cc),
        "arch": arch,
        "kind": kind,
        "rule": rule,
        "min_driver": dict(shipped)[arch],
    }


def _group_by_gpus(found: Iterable[tuple[KernelCover, list[str]]]) -> list[AffectedKernels]:
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[KernelCover]] = {}
    for cover, gpus in found:
        if gpus:
            alike.setdefault((tuple(gpus), tuple(cover["absent_from"])), []).append(cover)
    return [
        {"gpus": [*gpus], "absent_from": [*absent_from], "kernels": covers}
        for (gpus, absent_from), covers in alike.items()
    ]


def coverage_section(title: str, covers: Sequence[KernelCover]) -> ReportSection:
    """Return a table of the code that each GPU loads.

    Kernels for which all GPUs load the same code are in one row.
    """
    groups: dict[ChoicePerGpu, list[KernelCover]] = {}
    for cover in covers:
        shape = tuple((each["arch"], each["min_driver"]) for each in cover["served"])
        groups.setdefault(shape, []).append(cover)
    gpus = [served["gpu"] for served in covers[0]["served"]] if covers else []
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows = [
        [_group_title(alike, len(covers)), *(_cell(arch, needs) for arch, needs in shape)]
        for shape, alike in ordered[:_MAX_ROWS]
    ]
    more = len(groups) - len(rows)
    lines = [f"and {more} more groups of kernels: --json lists all groups"] if more > 0 else []
    table = ReportTable(["kernels", *gpus], rows, names=range(1, len(gpus) + 1), marked=[_NOTHING])
    return ReportSection(title, lines, table)


def _group_title(covers: Sequence[KernelCover], total: int) -> str:
    if len(covers) == 1:
        return kernel_title(covers[0]["module"], covers[0]["kernel"])
    return f"all {total} kernels" if len(covers) == total else f"{len(covers)} of {total} kernels"


def _cell(arch: str | None, needs: int | None) -> str:
    if arch is None or needs is None:
        return _NOTHING
    return f"{arch} from driver {cuda(needs)}" if arch.startswith("compute_") else arch
