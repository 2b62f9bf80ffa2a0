"""Explain why a cache miss occurs, why code for an arch is built or not, and which file a GPU would load.

Nothing is compiled. Each cache miss is compared with the most similar entry of the cache: an entry of the
same source, for the same arch if possible, with the fewest differing inputs. For each cache miss, the command
lists all inputs that differ from those of the most similar cache entry.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...common import arch_names
from ...common.natural_order import by_number
from ...common.sizes import cuda
from ...config import value_checks
from ...errors import ConfigError, problem
from ..verb_base import (
    Answer,
    archs_argument,
    capability,
    json_argument,
    open_project,
    project_arguments,
    require_compiler,
)

if TYPE_CHECKING:
    from ...building.pipeline import Plan
    from ...common.arch_names import Arch
    from ...explaining.arch_choice import ArchRequest, GpuChoice
    from ...explaining.miss_reasons import UnitLookup
    from ...keys.jobs import Job
    from ...project.source import Source
    from ...project.source_roots import ProjectTree

_SHOWN = 8  # The most items of a list that are printed without -v.


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    parser.add_argument(
        "source", metavar="SOURCE", help="a source's path in the project, or the name of a module or a kernel"
    )
    parser.add_argument("--arch", metavar="ARCH", type=_one_arch, help="explain only this arch, as in sm_89")
    archs_argument(parser)
    parser.add_argument(
        "--gpu",
        metavar="CC",
        type=capability,
        help="explain which file a GPU of this compute capability loads, as in 8.9",
    )
    parser.add_argument(
        "--driver",
        metavar="CUDA",
        type=_driver,
        help="with --gpu: the CUDA version of the GPU's driver, as in 13.0",
    )
    project_arguments(parser)
    json_argument(parser)
    parser.set_defaults(refuse=parser.error)


def run(args: argparse.Namespace) -> Answer:
    """Look up the compiled code of one source in the cache, and explain each cache miss."""
    if args.driver is not None and args.gpu is None:
        args.refuse("--driver needs --gpu")
    if args.source.endswith(".whl"):
        what = (
            f"{args.source!r} is a wheel, but 'explain' takes a source, a module or a kernel of the project"
        )
        hint = (
            "'hatch-cubin inspect WHEEL' shows the kernels of a wheel, and 'hatch-cubin check WHEEL' shows "
            "the code that each GPU runs"
        )
        raise ConfigError(problem("unknown-name", what, hint=hint))
    project = open_project(args)
    require_compiler(project)
    from ...building import pipeline
    from ...explaining import arch_choice, kernel_lookup, miss_reasons
    from ...keys.jobs import expand

    plan = pipeline.make_plan(project)
    every = sorted(plan.jobs, key=lambda job: by_number(job.unit.module.name))
    with pipeline.open_cache(project) as cache:
        jobs, kernel = _chosen(
            every, args.source, project.tree, lambda: kernel_lookup.units_by_kernel(every, cache)
        )
    module = next((job.unit.module for job in jobs if not job.unit.module.part_of), jobs[0].unit.module)
    source, toolchain = module.source, plan.toolkit.toolchain()
    specs = arch_choice.arch_requests(
        project.config,
        module,
        toolchain,
        lambda specs: expand(specs, plan.toolkit),
    )
    with pipeline.open_cache(project) as cache:
        units = miss_reasons.look_up_units(jobs, cache)
    arch, gpu = None, None
    if args.arch is not None:
        built, why = arch_choice.explain_arch(args.arch, source, toolchain, specs)
        arch = {"arch": str(args.arch), "built": built, "why": why}
    if args.gpu is not None:
        _built, absent = arch_choice.explain_arch(arch_names.Arch(args.gpu), source, toolchain, specs)
        gpu = _gpu(args, units, kernel, plan, absent)
    units = [unit for unit in units if args.arch in {None, unit.job.unit.arch}]
    facts = {
        "source": source.path,
        "produced_by": source.produced.producer if source.produced else None,
        "cache": str(project.cache_folder),
        "toolchain": toolchain.label,
        "units": [unit.facts() for unit in units],
        "archs": [
            each._asdict()
            | {
                "gives": [str(arch) for arch in each.gives],
                "left_out": [{"arch": str(arch), "why": why} for arch, why in each.left_out],
            }
            for each in specs
        ],
        "arch": arch,
        "gpu": gpu,
    }
    lines = [
        *_producer_lines(source),
        *_arch_lines(arch, source.path),
        *_gpu_lines(gpu, verbose=args.verbose),
        *_unit_lines(units, verbose=args.verbose),
        *(_request_lines(specs) if gpu is None else ()),
    ]
    return Answer(facts, lines)


def _chosen(
    jobs: Sequence[Job], asked: str, tree: ProjectTree, by_kernel: Callable[[], Mapping[str, list[Job]]]
) -> tuple[list[Job], str | None]:
    """Return the compile jobs of *asked*, which is the name of a source, a module or a kernel.

    If *asked* is the name of a kernel, return this name as the second result; otherwise None.
    """
    path = tree.name_of(tree.root / asked)
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        module = job.unit.module
        short = module.short_name  # The loader's warnings show the same short name.
        named = (module.source.path_for_globs, module.base, module.name, module.part_of)
        for name in dict.fromkeys((*module.sources, *named, short, short.rpartition(":")[2])):
            by_name.setdefault(name, []).append(job)
    if path in by_name:
        return by_name[path], None
    from ...explaining.kernel_lookup import normalized_name

    kernels = by_kernel()
    name = normalized_name(asked)
    found = kernels.get(name, [])
    sources = dict.fromkeys(job.unit.module.location.path for job in found)
    if len(sources) == 1:
        return found, name.partition("[")[0]
    if sources:
        what = f"{asked!r} is a kernel of several sources"
        hint = f"name one of these sources: {_listed([*sources], verbose=True)}"
        raise ConfigError(problem("kernel-in-several-sources", what, hint=hint))
    what = f"{asked!r} is not a source, a module or a kernel of this project"
    hint = _guess(path, dict.fromkeys((*by_name, *kernels)), jobs, tree)
    raise ConfigError(problem("unknown-name", what, hint=hint))


def _guess(asked: str, known: Iterable[str], jobs: Sequence[Job], tree: ProjectTree) -> str:
    """Return a hint for an unknown name, such as a similar name that the user may have meant."""
    from ...headers.resolve import OWN

    readers = dict.fromkeys(job.unit.module.source.path for job in jobs if f"{OWN}{asked}" in job.closure.own)
    if readers:
        return f"this file is a header that these sources include: {_listed([*readers], verbose=False)}"
    sources = (job.unit.module.source for job in jobs)
    produced = dict.fromkeys(
        each.path for each in sources if each.produced and each.produced.producer == asked
    )
    if produced:
        return f"this file is a script that generates these sources: {_listed([*produced], verbose=False)}"
    if tree.disk_path(asked).is_file():
        return "the file exists, but it is not a .cu or .ptx file, or 'sources' or 'exclude' leaves it out"
    same = [name for name in known if posixpath.basename(name) == posixpath.basename(asked)]
    close = same or difflib.get_close_matches(asked, known, n=3)
    return (
        f"did you mean {' or '.join(map(repr, close))}?" if close else "'hatch-cubin plan' lists all sources"
    )


def _gpu(
    args: argparse.Namespace, units: Sequence[UnitLookup], kernel: str | None, plan: Plan, absent: str
) -> dict[str, Any]:
    """Return which code of each module the GPU in *args* would load.

    If *kernel* is given, only code that may contain this kernel is considered.

    *absent* is the reason why the project is not compiled for exactly the arch of this GPU.
    """
    from ...explaining import arch_choice

    cc, driver = args.gpu, args.driver
    major, minor = plan.toolkit.version
    newest = major * 1000 + minor * 10
    modules: dict[str, list[UnitLookup]] = {}
    for unit in units:
        modules.setdefault(unit.module, []).append(unit)

    def choice(units: Iterable[UnitLookup]) -> GpuChoice:
        entries = [(unit.arch, _needed_driver(unit, plan.toolkit.major)) for unit in units]
        return arch_choice.choose_for_gpu(cc, driver, entries, newest)

    facts = []
    for module, built in modules.items():
        each = choice(unit for unit in built if _may_contain(unit, kernel))
        why = each.why or absent
        if each.arch is None and each.why is None and (other := choice(built).arch):
            why = f"the code for {other} does not contain the kernel {kernel}"
        changes = {
            "module": module,
            "needs": each.needs and cuda(each.needs),
            "why": None if each.arch else why,
            "absent_kernels": _absent_kernels(built, each.arch) if kernel is None else [],
        }
        facts.append(each._asdict() | changes)
    return {
        "cc": f"{cc // 10}.{cc % 10}",
        "driver": driver and cuda(driver),
        "newest": cuda(newest),
        "modules": facts,
    }


def _may_contain(unit: UnitLookup, kernel: str | None) -> bool:
    """Return whether a unit contains a kernel, or may contain it because the unit is not compiled yet."""
    from ...explaining.kernel_lookup import normalized_name

    return kernel is None or unit.hit is None or kernel in map(normalized_name, unit.hit.kernels)


def _absent_kernels(units: Sequence[UnitLookup], arch: str | None) -> list[str]:
    """Return the kernels that a module contains for other archs, but not for *arch*."""
    by_arch = {unit.arch: {*unit.hit.kernels} for unit in units if unit.hit}
    if arch not in by_arch:
        return []
    return sorted(set().union(*by_arch.values()) - by_arch[arch])


def _needed_driver(unit: UnitLookup, major: int) -> int | None:
    """Return the driver version that compiled code needs, or None for PTX that is not compiled yet."""
    from ...bundle import layout

    source, arch = unit.job.unit.module.source, unit.job.unit.arch
    data = source.text.encode() if source.is_ptx else unit.hit and unit.hit.data
    return None if data is None and arch.is_ptx else layout.min_driver(arch, data or b"", major)


def _request_lines(specs: Iterable[ArchRequest]) -> Iterator[str]:
    """Yield lines about the entries of `archs` in the configuration, and the archs that each entry means."""
    for (place, gives), each in itertools.groupby(specs, lambda spec: (spec.place, _gives(spec))):
        yield f"archs  {', '.join(repr(one.spec) for one in each)} ({place}){gives}"


def _gives(each: ArchRequest) -> str:
    gives = "" if [str(arch) for arch in each.gives] == [each.spec] else f" gives {_archs(each.gives)}"
    left_out = [arch for arch, _why in each.left_out]
    return gives + (f", not {_archs(left_out)}" if left_out else "")


def _archs(archs: Iterable[Arch]) -> str:
    return " ".join(map(str, archs)) or "nothing"


def _producer_lines(source: Source) -> Iterator[str]:
    if source.produced:
        producer = source.produced.producer
        yield f"{source.path} is generated by {producer}"
        yield (
            f"      the text changes if {producer}, a module that it imports, or one of its 'inputs' changes"
        )


def _arch_lines(arch: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    if arch is not None:
        built = "is built" if arch["built"] else "is not built"
        yield f"{arch['arch']} {built} for {path}: {arch['why']}"


def _gpu_lines(gpu: Mapping[str, Any] | None, *, verbose: bool) -> Iterator[str]:
    if gpu is None:
        return
    on = f"{gpu['cc']} with driver {gpu['driver']}" if gpu["driver"] else gpu["cc"]
    by_outcome: dict[str, list[str]] = {}
    for each in gpu["modules"]:
        absent = _listed(each["absent_kernels"], verbose=verbose)
        without = f"; the code for {each['arch']} does not contain {absent}" if absent else ""
        by_outcome.setdefault(_outcome(each, gpu) + without, []).append(each["module"])
    for outcome, modules in by_outcome.items():
        yield f"{_listed(modules, verbose=verbose)} on {on}: {outcome}"


def _outcome(loads: Mapping[str, Any], gpu: Mapping[str, Any]) -> str:
    if loads["arch"] is None:
        return f"nothing; {loads['why']}" + (f": {loads['needs']}" if loads["needs"] else "")
    text = f"{loads['arch']} ({loads['rule']})"
    if not loads["certain"]:
        return (
            f"{text}, if the driver is new enough: the required driver version is known only after a compile"
        )
    if loads["needs"]:
        return f"{text}; needs driver {loads['needs']}"
    return f"{text}; driver {gpu['newest']} is new enough"


def _unit_lines(units: Sequence[UnitLookup], *, verbose: bool) -> Iterator[str]:
    """Yield lines about cache misses and their reasons, then about cache hits. Equal results are grouped."""
    fates: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for unit in sorted(units, key=lambda unit: unit.hit is not None):
        modules_of_fate = fates.setdefault(_state_and_reasons(unit, verbose=verbose), {})
        modules_of_fate.setdefault(unit.job.unit.module.short_name, []).append(unit.arch)
    for (state, *why), archs in fates.items():
        modules: dict[tuple[str, ...], list[str]] = {}
        for module, each in archs.items():
            modules.setdefault(tuple(each), []).append(module)
        for shared, names in modules.items():
            yield f"{state}  {_listed(names, verbose=verbose)} for {', '.join(shared)}"
        yield from (f"      {line}" for line in why)


def _state_and_reasons(unit: UnitLookup, *, verbose: bool) -> tuple[str, ...]:
    """Return "hit" or "miss", and the lines with the reasons for a cache miss."""
    why = unit.reason_lines(verbose=verbose)
    state = "miss" if why else "hit "
    if not verbose:
        more = [f"and {len(why) - _SHOWN} more (-v lists them)"] if len(why) > _SHOWN else []
        return (state, *why[:_SHOWN], *more)
    near = unit.nearest
    nearest = [f"nearest {near.key}: {near.inputs['path']} for {near.inputs['arch']}"] if near else []
    return (state, *why, f"key {unit.job.keys.key.hex()}", *nearest)


def _listed(names: Sequence[str], *, verbose: bool) -> str:
    more = 0 if verbose else max(0, len(names) - _SHOWN)
    return ", ".join(names[: len(names) - more]) + (f" and {more} more" if more else "")


def _one_arch(text: str) -> Arch:
    try:
        return arch_names.parse_arch(value_checks.arch(text))
    except value_checks.RefusedValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{exc}: write the arch as sm_89 or compute_89") from None


def _driver(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text)
    if match is None:
        what = f"{text!r} is not a CUDA version: write the version that nvidia-smi shows, for example 13.0"
        raise argparse.ArgumentTypeError(what)
    return int(match[1]) * 1000 + int(match[2]) * 10
